// SPDX-License-Identifier: Apache-2.0
/// tier/disk/plain_file_io.cpp: the system's own calls.
#include "tier/disk/plain_file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace folio::inline v1::tier {

IoMemory allocate_io_memory(int64_t bytes) noexcept {
  Result<Buffer> buffer = Buffer::allocate(bytes + file_block);
  if (!buffer) return nullptr;
  try {
    return std::make_shared<const IoBlock>(std::move(*buffer));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::unique_ptr<FileIo> make_file_io(uint32_t depth, int64_t timeout_ms) {
  std::unique_ptr<FileIo> io = make_uring_file_io(depth, timeout_ms);
  if (io == nullptr) io = std::make_unique<PlainFileIo>();
  return io;
}

// ---- Files

int FileIo::open(int directory, const char* name, int flags) noexcept {
  flags |= O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // a pipe is not waited for
  int file = ::openat(directory, name, flags | O_DIRECT, 0644);
  // a file system without O_DIRECT may have made the file all the same
  if (file < 0 && errno == EINVAL) file = ::openat(directory, name, flags & ~O_EXCL, 0644);
  return file < 0 ? -errno : file;
}

int FileIo::allocate(int file, int64_t offset, int64_t bytes) noexcept {
  int result = 0;
  do {
    result = ::fallocate(file, 0, offset, bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
}

int FileIo::remove(int directory, const char* name) noexcept {
  return ::unlinkat(directory, name, 0) == 0 ? 0 : errno;
}

// ---- Operations

void PlainFileIo::run(std::span<FileOp> ops, const IoMemory&, FileWork& work) noexcept {
  for (size_t i = 0; i < ops.size(); ++i) {
    work.begin(i);
    ops[i].error = run_one(ops[i]);
    work.end(i);
  }
}

int64_t PlainFileIo::transfer(const FileOp& op, int64_t done) noexcept {
  const auto rest = static_cast<size_t>(op.bytes - done);
  const ssize_t count = op.writes ? pwrite(op.file, op.memory + done, rest, op.offset + done)
                                  : pread(op.file, op.memory + done, rest, op.offset + done);
  return count < 0 ? -errno : count;
}

int PlainFileIo::run_one(const FileOp& op) noexcept {
  constexpr int most_refusals = 10'000;
  int refusals = 0;
  for (int64_t done = 0; done < op.bytes;) {
    const int64_t count = transfer(op, done);
    if (count == -EINTR) continue;
    if (count == -EAGAIN && ++refusals < most_refusals) {
      usleep(100);
      continue;
    }
    if (count < 0) return static_cast<int>(-count);
    if (count == 0) return op.writes ? EIO : ENODATA;
    done += count;
  }
  return 0;
}

}  // namespace folio::inline v1::tier
