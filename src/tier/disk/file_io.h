// SPDX-License-Identifier: Apache-2.0
/// tier/disk/file_io.h: reads and writes of files, many at once: what tests put faults below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

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

class FileIo {
 public:
  virtual ~FileIo() = default;
  /// Does them all, whole or with an error. Several threads at once.
  virtual void run(std::span<FileOp> ops) noexcept = 0;
};

/// One after the other, by the calling thread.
[[nodiscard]] std::unique_ptr<FileIo> make_plain_file_io();
/// By io_uring, `depth` at once for each thread; null where the kernel refuses it.
[[nodiscard]] std::unique_ptr<FileIo> make_uring_file_io(uint32_t depth);

}  // namespace folio::inline v1::tier
