// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>

#include "tier/disk/file_io.h"

namespace folio::inline v1::tier {
namespace {

class PlainFileIo final : public FileIo {
 public:
  void run(std::span<FileOp> ops) noexcept override {
    for (FileOp& op : ops) op.error = run_one(op);
  }

 private:
  static int run_one(const FileOp& op) noexcept {
    for (int64_t done = 0; done < op.bytes;) {
      const auto rest = static_cast<size_t>(op.bytes - done);
      const ssize_t count = op.writes ? pwrite(op.file, op.memory + done, rest, op.offset + done)
                                      : pread(op.file, op.memory + done, rest, op.offset + done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno;
      if (count == 0) return op.writes ? EIO : ENODATA;
      done += count;
    }
    return 0;
  }
};

}  // namespace

std::unique_ptr<FileIo> make_plain_file_io() { return std::make_unique<PlainFileIo>(); }

}  // namespace folio::inline v1::tier
