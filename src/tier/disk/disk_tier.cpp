// SPDX-License-Identifier: Apache-2.0
/// tier/disk/disk_tier.cpp: options, and a tier over them.
#include "folio/tier/disk_tier.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "tier/checks.h"
#include "tier/disk/disk_medium.h"
#include "tier/queued_tier.h"

namespace folio::inline v1::tier {
namespace {

constexpr int64_t longest_timeout_ms = int64_t{1} << 31;

Status check(std::string_view directory, const TierOptions& options, const DiskOptions& disk) {
  if (Status s = check_options(options); !s.is_ok()) return s;
  if (Status s = check_memory("make_disk_tier", "directory", directory.data(), directory.size());
      !s.is_ok())
    return s;
  if (directory.empty() || directory.find('\0') != std::string_view::npos)
    return fail(Errc::invalid_argument,
                "make_disk_tier: directory is \"{}\", expected a path without a null byte",
                directory);
  const int64_t most = std::min(options.max_bytes / 2, int64_t{1} << 40);
  if (disk.segment_bytes < int64_t{1} << 20 || disk.segment_bytes > most)
    return fail(Errc::invalid_argument,
                "make_disk_tier: segment_bytes is {}, expected {} .. {} (half of max_bytes)",
                disk.segment_bytes, int64_t{1} << 20, most);
  if (disk.depth < 1 || disk.depth > 1024)
    return fail(Errc::invalid_argument, "make_disk_tier: depth is {}, expected 1 .. 1024",
                disk.depth);
  if (disk.timeout_ms < 0 || disk.timeout_ms > longest_timeout_ms)
    return fail(Errc::invalid_argument, "make_disk_tier: timeout_ms is {}, expected 0 .. {}",
                disk.timeout_ms, longest_timeout_ms);
  return {};
}

}  // namespace
}  // namespace folio::inline v1::tier

namespace folio::inline v1::tier {

Result<std::unique_ptr<Tier>> make_disk_tier(std::string_view directory, const TierOptions& options,
                                             const DiskOptions& disk) noexcept {
  if (Status s = tier::check(directory, options, disk); !s.is_ok()) return s;
  try {
    Result<std::unique_ptr<tier::Medium>> medium = tier::DiskMedium::open(
        std::string(directory), options, disk, tier::make_file_io(disk.depth, disk.timeout_ms));
    if (!medium) return medium.error();
    return tier::QueuedTier::create(std::move(*medium), options);
  } catch (const std::bad_alloc&) {
    return tier::out_of_memory("make_disk_tier");
  }
}

}  // namespace folio::inline v1::tier
