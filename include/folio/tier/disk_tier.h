// SPDX-License-Identifier: Apache-2.0
/// folio/tier/disk_tier.h: pages in a directory.
///
/// A directory belongs to one tier at a time, of one process. It has files of `segment_bytes`, in
/// which pages stand behind one another; nothing else is written, so that a process may be killed
/// at any moment: what is not whole is not found, or ends as corrupt. Where the bound is reached
/// the segment goes whose pages were used longest ago.
#pragma once

#include <memory>
#include <string_view>

#include "folio/tier/tier.h"

namespace folio::inline v1 {

struct DiskOptions {
  /// Of a file: 1 MiB .. 2^40, and at most half of `TierOptions::max_bytes`; a page must fit
  int64_t segment_bytes = int64_t{256} << 20;
  /// Operations that a thread has in flight, 1 .. 1024
  uint32_t depth = 32;
};

/// `directory` is made where there is none. What an earlier tier left in it is found again: files
/// are scanned for headers before this returns. Errors: invalid_argument for options out of range;
/// busy for a directory that is another tier's; unsupported for one that a newer version has
/// written; io where files cannot be made or read, naming them
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Tier>> make_disk_tier(
    std::string_view directory, const TierOptions& options, const DiskOptions& disk = {}) noexcept;

}  // namespace folio::inline v1
