// SPDX-License-Identifier: Apache-2.0
/// folio/tier/disk_tier.h: pages in a directory.
///
/// A directory belongs to one tier at a time, of one process; a child that has been forked keeps it
/// until it executes something else or ends. It has files of `segment_bytes` at most, in which
/// pages stand behind one another; nothing else is written, so that a process may be killed at any
/// moment: what is not whole is not found, or ends as corrupt. Checksums tell damage, not forgery:
/// who may write the directory may change pages.
///
/// Files have `TierOptions::max_bytes` in all, at every moment. Where that is reached the segment
/// goes whose pages were used longest ago; of those, the pages that have been loaded from it, the
/// last ones first, move on, a quarter of a segment at most.
///
/// `drop`: the name is not found any more; a thread of the tier's own marks its record. A tier that
/// is destroyed does that first; a process that dies before may leave pages to be found again.
///
/// LoadOrder::extents: records are read by pieces, the first extents of all pages before the second
/// ones, in steps of 64 KiB of a page; pages of smaller extents have several in a step.
///
/// A device that is full before `max_bytes` are reached is a bound, too: the pages used longest ago
/// go, a file at a time, and none of them move on, for there is no room for copies.
///
/// What is wrong with the directory makes misses: a page that cannot be written ends as failed, or
/// full where the device is and nothing more can go, and so do all stores of the next second, two
/// seconds, .. minute; `Tier::last_fault` says why. Pages are loaded all the while, and from a
/// directory that is read-only. A limit of the process (RLIMIT_FSIZE) is such a fault: no signal
/// reaches the process from the tier's threads. What stands in the directory and is no regular file
/// with the name of a segment is left alone.
#pragma once

#include <memory>
#include <string_view>

#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

struct DiskOptions {
  /// Of a file: 1 MiB .. 2^40, and at most half of `TierOptions::max_bytes`; a page must fit
  int64_t segment_bytes = int64_t{256} << 20;
  /// Operations that a thread has in flight, 1 .. 1024; its pages of a batch have 8 MiB, or are one
  uint32_t depth = 32;
  /// With io_uring: when nothing has ended for so long, what is in flight ends as failed, and its
  /// memory, the tier's own, is left to the system. 0 .. 2^31; 0: never. Elsewhere a call of the
  /// system is waited for, also when the tier is destroyed.
  int64_t timeout_ms = 30'000;
};

/// `directory` is made where there is none. What an earlier tier left in it is found again: files
/// are scanned for headers before this returns, and the oldest ones go where they have more than
/// `max_bytes`. Errors: invalid_argument for options out of range, or a directory with files that
/// look like a tier's but are not; busy for a directory that is another tier's; unsupported for one
/// of another version; io where files cannot be made or read, naming them
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Tier>> make_disk_tier(
    std::string_view directory, const TierOptions& options, const DiskOptions& disk = {}) noexcept;

/// What a page of so many bytes takes of a directory: its header, its bytes and its end mark, in
/// whole blocks of 4 KiB. Files grow by sixteenths of a segment, and a quarter of one is left for
/// copies: of n pages that fill sixteenths, a tier of n times that and a quarter of `segment_bytes`
/// keeps all, and one of less does not.
/// Errors: invalid_argument for page_bytes out of 1 .. 2^40
[[nodiscard]] FOLIO_EXPORT Result<int64_t> disk_record_bytes(int64_t page_bytes) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::disk_record_bytes;
using tier::DiskOptions;
using tier::make_disk_tier;
}  // namespace folio::inline v1
