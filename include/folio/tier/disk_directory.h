// SPDX-License-Identifier: Apache-2.0
/// folio/tier/disk_directory.h: what lies in a disk tier's directory, for tools.
///
/// Each call locks the directory while it lasts, as a tier does, and takes only one that a disk
/// tier has made. None of them needs the model's fingerprint: pages of all models are shown.
/// Errors of all: invalid_argument for a path that is empty or a directory that is not a disk
/// tier's; busy for one that a tier or a tool has open; unsupported for one of another version; io;
/// out_of_memory. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/name.h"

namespace folio::inline v1::tier {

struct DiskPage {
  PageName name;
  int64_t bytes = 0;      ///< of the page
  int64_t stored_at = 0;  ///< seconds since 1970, UTC
  uint64_t segment = 0;
  int64_t offset = 0;
};

/// A file.
struct DiskSegment {
  uint64_t number = 0;
  int64_t bytes = 0;       ///< of the file
  int64_t live_bytes = 0;  ///< of records of pages; the rest is dead
  int64_t pages = 0;
};

struct DiskListing {
  std::vector<DiskSegment> segments;  ///< by number
  std::vector<DiskPage> pages;        ///< by segment and offset
  int64_t bytes = 0;                  ///< of all files
};

struct DiskCheck {
  int64_t pages = 0, bytes = 0;  ///< that are whole
  int64_t corrupt = 0;     ///< pages that were written to their end, and are not what was written
  int64_t damaged = 0;     ///< places between records where something else stands
  int64_t unreadable = 0;  ///< pages and files that the system cannot read
  /// Pages that were never written to their end, as when a process is killed; also one that was
  /// cut with its file.
  int64_t unfinished = 0;
  int64_t dropped = 0;              ///< records that say so
  std::vector<std::string> faults;  ///< where, the first hundred of them
  /// Nothing has changed that was whole.
  [[nodiscard]] bool is_sound() const { return corrupt == 0 && damaged == 0 && unreadable == 0; }
};

struct DiskCompaction {
  int64_t pages = 0;                            ///< that were copied
  int64_t lost = 0;                             ///< that were not whole, and are gone
  int64_t kept_segments = 0, new_segments = 0;  ///< that were left as they are; that were written
  int64_t bytes_before = 0, bytes_after = 0;    ///< of all files
};

/// By headers alone: a page that is listed may turn out to be damaged.
[[nodiscard]] FOLIO_EXPORT Result<DiskListing> list_disk_directory(
    std::string_view directory) noexcept;

/// Reads everything; changes nothing.
[[nodiscard]] FOLIO_EXPORT Result<DiskCheck> check_disk_directory(
    std::string_view directory) noexcept;

/// Copies the pages of segments that have dead bytes, or are smaller than half of `segment_bytes`
/// (1 MiB .. 2^40), into new ones, behind one another, and removes the old ones once the device has
/// the copies: whenever the process dies, what was whole is there. Meanwhile the directory is
/// larger, by a segment at most. A file that cannot be read stays.
[[nodiscard]] FOLIO_EXPORT Result<DiskCompaction> compact_disk_directory(
    std::string_view directory, int64_t segment_bytes = int64_t{256} << 20) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::check_disk_directory;
using tier::compact_disk_directory;
using tier::DiskCheck;
using tier::DiskCompaction;
using tier::DiskListing;
using tier::DiskPage;
using tier::DiskSegment;
using tier::list_disk_directory;
}  // namespace folio::inline v1
