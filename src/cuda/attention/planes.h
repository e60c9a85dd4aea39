// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/planes.h: K's and V's planes as tensor maps, for kernels that load boxes.
#pragma once

#include "cuda/plan/device_plan.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::cuda {

/// Keys of a box at the most: a slab.
inline constexpr int32_t keys_of_box = 16;

/// Fills in the maps of call.call.args' planes: boxes of min(page size, keys_of_box) keys of one
/// head in chunks of 128 bytes, all chunks at once where a page holds a slab, swizzled by 128
/// bytes. Nothing is allocated, no memory of the device read. Errors: what tma::encode says.
[[nodiscard]] Status encode_planes(Device device, AttendTileCall& call) noexcept;

}  // namespace folio::cuda
