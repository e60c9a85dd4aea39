// SPDX-License-Identifier: Apache-2.0
/// tier/disk/scan.h: what records segments have, found by their headers.
///
/// Nothing is believed but a header that is whole and of its place; whatever stands between records
/// is walked over block by block. Segments are read side by side: a header tells where the next one
/// is, so that one segment keeps one read on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tier/disk/record.h"

namespace folio::inline v1::tier {

struct SegmentScan {
  int file = -1;
  uint64_t number = 0;
  int64_t bytes = 0;  ///< of the file
  // what was found
  int64_t end = 0;         ///< behind the last block that is not zero
  int64_t dropped = 0;     ///< records that say so
  int64_t damaged = 0;     ///< runs of blocks, between records, that are none and not zero
  int64_t unfinished = 0;  ///< a record that is longer than the file
  int error = 0;           ///< errno of a read, the last one
};

/// `found` is told of each record that is kept: its segment's index, header and offset; in a
/// segment they come in order. Errors: out_of_memory
[[nodiscard]] Status scan(
    std::span<SegmentScan> segments, const Digest256& directory, FileIo& io,
    const std::function<void(size_t, const DiskHeader&, int64_t offset)>& found);

}  // namespace folio::inline v1::tier
