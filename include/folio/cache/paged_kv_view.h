// SPDX-License-Identifier: Apache-2.0
/// folio/cache/paged_kv_view.h: where the bytes of one plane are: the run-time face of a cache.
///
/// A plane is the K or the V storage of one layer. Everything is known at run time, so strides are
/// in bytes:
///
///     element (page, slot, head, d)  at  data + page * page_stride + slot * slot_stride + head *
///                                        head_stride + d * bits / 8
///     its scale                      at  scales.data + page * .. + slot * .. + head * .. + (d /
///                                        granularity) * granule_stride
///
/// Strides have either sign, but each, times the last index that it is used with, is within 2^56
/// bytes (no address space has more): whoever takes a view refuses others.
///
/// Continuous, ragged and dense K/V are the same view: pages of unbounded size
/// (`unbounded_page_size`) whose ids are row numbers. Views own nothing, are trivially copyable and
/// never read the memory they describe.
#pragma once

#include <cstdint>
#include <limits>

#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// page_size of a plane without pages: one run of slots per sequence, page stride = slot stride,
/// page ids = row numbers. Over several rows, whoever takes a view refuses other page strides.
inline constexpr int32_t unbounded_page_size = std::numeric_limits<int32_t>::max();

/// Scales of a quantised plane: value = stored * scale (* *tensor_scale), in float32.
///
/// A stride of 0 broadcasts: all strides 0 is one scale per tensor, only head_stride per head, only
/// page_stride per page, and so on. Scales stored behind the values of a row are the same view with
/// the row's strides. A slot stride of 0 marks calibrated scales, which `append` reads; otherwise
/// `append` computes and writes them. dtype: f32, f16, bf16, f8_e8m0 or f8_e4m3. granularity >= 1
/// elements share a scale; the last granule of a head may be short.
struct ScaleView {
  void* data = nullptr;  ///< null: the plane has no scales
  DType dtype = DType::invalid;
  int32_t granularity = 0;
  int64_t page_stride_bytes = 0;
  int64_t slot_stride_bytes = 0;
  int64_t head_stride_bytes = 0;
  int64_t granule_stride_bytes = 0;
  const float* tensor_scale = nullptr;  ///< optional second factor of the whole plane
  bool operator==(const ScaleView&) const = default;
};

struct PagedKVView {
  void* data = nullptr;
  DType dtype = DType::invalid;
  int32_t num_heads = 0;
  int32_t head_size = 0;
  int32_t page_size = 0;
  int64_t num_pages = 0;
  int64_t page_stride_bytes = 0;
  int64_t slot_stride_bytes = 0;
  int64_t head_stride_bytes = 0;
  ScaleView scales = {};
  bool operator==(const PagedKVView&) const = default;
};

/// K and V of one layer. `value.data` is null for latent (MLA) caches, whose V lies inside K's
/// rows.
struct KVPlanes {
  PagedKVView key;
  PagedKVView value;
};

}  // namespace folio::inline v1
