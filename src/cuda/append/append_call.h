// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/append_call.h: a call of append or rotate as its kernels get it, by value.
#pragma once

#include <cstdint>

#include "folio/attention/rotate.h"
#include "folio/cache/batch.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"

namespace folio::cuda {

/// Rows [tokens, heads, head_size] and the plane that they go to.
struct AppendPlane {
  ConstTensor<3> source = {};
  PagedKVView target = {};
  int32_t heads_per_part = 0;  ///< a warp takes so many heads of a token at once
  int32_t parts = 0;           ///< of a token
};

/// Where the row of a token goes.
enum class Places : uint8_t {
  slots,  ///< page * page_size + slot, given for each token; outside [0, num_slots): nowhere
  table,  ///< through the batch's table, to the end of the token's sequence
  rows,   ///< page t, slot 0: the target is a tensor
};

/// All pointers are of the device. Norm and rotation are those of the rows of planes[0].
struct AppendCall {
  AppendPlane planes[2] = {};
  int32_t num_planes = 0;
  Places places = Places::slots;
  bool in_place = false;  ///< rows are written where they are read
  int64_t tokens = 0;
  const int64_t* slots = nullptr;
  int64_t num_slots = 0;
  Batch batch = {};
  Rope rope = {};               ///< cos_sin null: no rotation
  const float* norm = nullptr;  ///< null: no norm
  float norm_eps = 0.0f;
};
static_assert(sizeof(AppendCall) <= 4096, "a kernel's argument");

/// Elements that share a scale. Without a granule stride a head is one.
FOLIO_HOST_DEVICE constexpr int32_t granule_size_of(const PagedKVView& view) {
  const bool has_granules =
      view.scales.granule_stride_bytes != 0 && view.scales.granularity < view.head_size;
  return has_granules ? view.scales.granularity : view.head_size;
}

FOLIO_HOST_DEVICE constexpr bool has_computed_scales(const PagedKVView& view) {
  return view.scales.data != nullptr && view.scales.slot_stride_bytes != 0;
}

/// A computed scale belongs to all heads of a token: one warp must see them all.
FOLIO_HOST_DEVICE constexpr bool heads_share_scales(const PagedKVView& view) {
  return has_computed_scales(view) && view.scales.head_stride_bytes == 0 && view.num_heads > 1;
}

}  // namespace folio::cuda
