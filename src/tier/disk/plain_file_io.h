// SPDX-License-Identifier: Apache-2.0
/// tier/disk/plain_file_io.h: one operation after the other, by the calling thread.
#pragma once

#include "tier/disk/file_io.h"

namespace folio::inline v1::tier {

/// Waits as long as the system does: what never ends there never ends here.
class PlainFileIo : public FileIo {
 public:
  using FileIo::run;
  void run(std::span<FileOp> ops, const IoMemory& memory, FileWork& work) noexcept override;

 protected:
  /// One call of the system for what is left behind `done` bytes: how many, or -errno.
  virtual int64_t transfer(const FileOp& op, int64_t done) noexcept;

 private:
  [[nodiscard]] int run_one(const FileOp& op) noexcept;
};

}  // namespace folio::inline v1::tier
