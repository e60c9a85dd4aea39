// SPDX-License-Identifier: Apache-2.0
/// tier/disk/contents.h: an open directory with all records, for tools.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/tier/disk_directory.h"
#include "tier/disk/files.h"
#include "tier/disk/record_io.h"
#include "tier/disk/scan.h"

namespace folio::inline v1::tier {

struct ContentRecord {
  DiskPage page;
  bool is_shadowed = false;  ///< another record of the same page counts
};

struct ContentSegment {
  File file;
  SegmentScan scan;
  int64_t bytes = 0;  ///< of the file
  std::vector<ContentRecord> records;

  [[nodiscard]] int64_t live_bytes() const;
};

class Contents {
 public:
  /// Locks and scans it, and looks which of several records of a page counts.
  [[nodiscard]] static Result<Contents> open(std::string_view directory);

  [[nodiscard]] RecordAt at(const ContentSegment& segment, const DiskPage& page) const {
    return {.file = segment.file.get(),
            .place = {files.number(), segment.scan.number, page.offset},
            .page_bytes = page.bytes};
  }
  [[nodiscard]] int64_t bytes() const;

  std::unique_ptr<FileIo> io;
  Files files;
  std::vector<ContentSegment> segments;
  /// "PATH: cannot be opened: ..." of files that are left out
  std::vector<std::string> unopened;

 private:
  explicit Contents(Files given) : files(std::move(given)) {}
  [[nodiscard]] Status read();
  [[nodiscard]] Status settle();
};

}  // namespace folio::inline v1::tier
