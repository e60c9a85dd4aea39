// SPDX-License-Identifier: Apache-2.0
/// tier/disk/files.h: a directory of segments: whose it is, of which version, which files it has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/core/status.h"
#include "folio/pool/name.h"
#include "tier/disk/file_io.h"

namespace folio::inline v1::tier {

/// A file descriptor, closed with its holder.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

struct SegmentFile {
  uint64_t number = 0;
  int64_t bytes = 0;
};

/// An open and locked directory. All calls are relative to it, wherever it is moved; one that has
/// been deleted takes no files. Threads: any, for what is const.
class Files {
 public:
  enum class If : uint8_t { there, made };  ///< only a directory of ours, or a new one as well

  /// Errors: busy for another's; unsupported for another version; invalid_argument for a directory
  /// that is not ours; io
  [[nodiscard]] static Result<Files> open(const std::string& path, If which);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Digest256& number() const { return number_; }
  [[nodiscard]] bool is_read_only() const { return is_read_only_; }
  [[nodiscard]] std::string path_of(uint64_t segment) const;

  /// Regular files with the name of a segment, by number. Errors: io
  [[nodiscard]] Result<std::vector<SegmentFile>> list() const;
  enum class Open : uint8_t { existing, fresh };
  /// One that is there and may not be written is opened all the same. Errors: io, also for what is
  /// no file; out_of_memory where the device is full; busy for a name that is taken
  [[nodiscard]] Result<File> open_segment(uint64_t segment, Open how, FileIo& io) const;
  [[nodiscard]] Status remove_segment(uint64_t segment, FileIo& io) const;

 private:
  explicit Files(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Status lock();
  [[nodiscard]] Status read_format(If which);
  [[nodiscard]] Status take_format(std::string_view text);
  [[nodiscard]] Status make_format();

  std::string path_;
  File directory_, lock_;
  Digest256 number_;  ///< drawn when the directory was made
  bool is_read_only_ = false;
};

/// "disk tier: cannot WHAT PATH: ...", as `io`, or as `out_of_memory` where the device is full.
[[nodiscard]] Status io_failure(const char* what, const std::string& path, int error);

inline constexpr uint64_t most_segments = uint64_t{1} << 62;  ///< numbers are 1 .. this
/// The number to try next: a file that has the last one leaves those that are free.
[[nodiscard]] constexpr uint64_t segment_after(uint64_t segment) {
  return segment < most_segments ? segment + 1 : 1;
}

/// Whether it means that the device, or a quota, has no room.
[[nodiscard]] bool means_full(int error);

}  // namespace folio::inline v1::tier
