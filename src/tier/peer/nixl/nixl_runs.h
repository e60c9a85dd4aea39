// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_runs.h: runs of regions in few bytes: thousands of them go to the other side
/// before the first of their bytes does.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

/// Behind what is there. Throws bad_alloc.
void put_runs(std::span<const RegionRun> runs, std::vector<std::byte>* bytes);
/// Taken from the front. Errors: io for bytes that are no runs; throws bad_alloc, as much as the
/// bytes may stand for
[[nodiscard]] Result<std::vector<RegionRun>> take_runs(std::span<const std::byte>* bytes);

}  // namespace folio::inline v1::tier
