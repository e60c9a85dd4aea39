// SPDX-License-Identifier: Apache-2.0
/// tier/disk/file_io.h: reads and writes of files, many at once: what tests put faults below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "folio/core/buffer.h"

namespace folio::inline v1::tier {

/// Offset, bytes and memory are multiples of the block, for O_DIRECT.
struct FileOp {
  int file = -1;
  std::byte* memory = nullptr;
  int64_t bytes = 0, offset = 0;
  bool writes = false;
  int error = 0;         ///< errno; a file that ends too soon is ENODATA
  int64_t progress = 0;  ///< while it runs
};
inline constexpr int64_t file_block = 4096;

/// Memory of operations. Whoever runs them shares it: it outlives one that never ends.
class IoBlock {
 public:
  explicit IoBlock(Buffer buffer) : buffer_(std::move(buffer)) {}
  [[nodiscard]] std::byte* data() const noexcept {
    const auto address = reinterpret_cast<uintptr_t>(buffer_.data());
    return buffer_.data() + (file_block - address % file_block) % file_block;
  }
  [[nodiscard]] int64_t bytes() const noexcept { return buffer_.bytes() - file_block; }

 private:
  Buffer buffer_;
};
using IoMemory = std::shared_ptr<const IoBlock>;
/// Null where there is none.
[[nodiscard]] IoMemory allocate_io_memory(int64_t bytes) noexcept;

/// What is done around each operation, while others are on their way.
class FileWork {
 public:
  virtual ~FileWork() = default;
  virtual void begin(size_t) noexcept {}  ///< its memory is to be filled, where it writes
  virtual void end(size_t) noexcept {}    ///< it has its error
};

class FileIo {
 public:
  virtual ~FileIo() = default;
  /// Does them all, whole or with an error; returns when nothing touches `memory` any more, or
  /// when nothing has ended for too long: the rest end with ETIMEDOUT then, and `memory` is kept
  /// until they are over. Several threads at once.
  virtual void run(std::span<FileOp> ops, const IoMemory& memory, FileWork& work) noexcept = 0;
  void run(std::span<FileOp> ops, const IoMemory& memory) noexcept {
    FileWork nothing;
    run(ops, memory, nothing);
  }

  /// With O_DIRECT where the file system has it. Returns the file, or -errno.
  [[nodiscard]] virtual int open(int directory, const char* name, int flags) noexcept;
  /// Room for these bytes; where the file system has no such call, none. Returns errno.
  [[nodiscard]] virtual int allocate(int file, int64_t offset, int64_t bytes) noexcept;
  [[nodiscard]] virtual int remove(int directory, const char* name) noexcept;  ///< returns errno
};

/// By io_uring, `depth` at once for each thread; null where the kernel refuses it. What has not
/// ended `timeout_ms` after the one before it has timed out; 0: never.
[[nodiscard]] std::unique_ptr<FileIo> make_uring_file_io(uint32_t depth, int64_t timeout_ms);

/// By io_uring, or as PlainFileIo does.
[[nodiscard]] std::unique_ptr<FileIo> make_file_io(uint32_t depth, int64_t timeout_ms);

}  // namespace folio::inline v1::tier
