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
/// What is stored of a row x of one head, and what readers see of it:
///
///     stored = quantised(H (x / channel_scales)),   read = channel_scales * (H^T dequantised)
///
/// H being the rotation (Hadamard) and channel_scales one factor for each column; without them both
/// are the identity. Neither is needed to attend: q H' K' of rows as they are stored, with H q *
/// channel_scales in place of q, is the same, and H^T is taken of the output once.
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

/// Where the zero points of a `u4` or `u4_halves` plane are: beside each scale, zero_offset_bytes
/// behind its first byte. q is the stored pattern, 0 to 15.
enum class Zeros : uint8_t {
  none,      ///< value = (q - 8) * scale
  patterns,  ///< a byte z of 0 to 15 (others are read modulo 16): (q - z) * scale
  minimum,   ///< a number m of the scales' dtype: q * scale + m (* *tensor_scale)
  in_scale,  ///< f32 scales whose 4 lowest bits are z, and 0 of the scale: (q - z) * scale
};

/// Scales of a quantised plane: value = stored * scale (* *tensor_scale), in float32.
///
/// A stride of 0 broadcasts: all strides 0 is one scale per tensor, only head_stride per head, only
/// page_stride per page, and so on. Scales stored behind the values of a row are the same view with
/// the row's strides. A slot stride of 0 marks calibrated scales, which `append` reads; otherwise
/// `append` computes and writes them. dtype: f32, f16, bf16, f8_e8m0 or f8_e4m3. granularity >= 1
/// elements share a scale; the last granule of a head may be short. Packed planes
/// (folio/core/dtype.h) have scales always.
struct ScaleView {
  void* data = nullptr;  ///< null: the plane has no scales
  DType dtype = DType::invalid;
  int32_t granularity = 0;
  int64_t page_stride_bytes = 0;
  int64_t slot_stride_bytes = 0;
  int64_t head_stride_bytes = 0;
  int64_t granule_stride_bytes = 0;
  const float* tensor_scale = nullptr;  ///< optional second factor of the whole plane
  Zeros zeros = Zeros::none;            ///< other than none: of u4 planes alone
  int64_t zero_offset_bytes = 0;        ///< with zeros of patterns or minimum: of either sign
  bool operator==(const ScaleView&) const = default;
};

/// A rotation of rows before they are quantised: y = H (s * x) / sqrt(block) for each `block`
/// consecutive elements, H being the Hadamard matrix in Sylvester's order and s signs. It spreads
/// what single columns have over all, so that few bits go further.
///
/// s_i is +1 where bit 23 of output i of the Mersenne twister MT19937, seeded with sign_seed, is 0,
/// and -1 where it is 1, the same in each block: PyTorch's coins of a generator with that seed.
struct Hadamard {
  int32_t block = 0;  ///< 0: no rotation; else a power of two, 16 to 512, that divides head_size
  uint32_t sign_seed = 0;  ///< 0: no signs
  bool operator==(const Hadamard&) const = default;
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
  Hadamard hadamard = {};
  bool has_channel_scales = false;  ///< a problem says so, and has no channel_scales
  /// [num_heads, head_size], positive and finite: of calibration. Null without, read by all calls
  const float* channel_scales = nullptr;
  bool operator==(const PagedKVView&) const = default;
};

/// K and V of one layer. `value.data` is null for latent (MLA) caches, whose V lies inside K's
/// rows.
struct KVPlanes {
  PagedKVView key;
  PagedKVView value;
};

}  // namespace folio::inline v1
