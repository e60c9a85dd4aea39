// SPDX-License-Identifier: Apache-2.0
/// src/attention/row_conversions.cpp: planes and tensors as formats and conversions.
#include "attention/row_conversions.h"

#include "cpu/profile.h"

namespace folio::inline v1 {

rows::Format format_of(const PagedKVView& view) noexcept {
  rows::Format f;
  f.dtype = view.dtype;
  f.head_stride_bytes = view.head_stride_bytes;
  f.hadamard = view.hadamard;
  f.channel_scales = view.channel_scales;
  if (view.scales.data == nullptr) return f;
  f.scale_dtype = view.scales.dtype;
  f.granularity = view.scales.granularity;
  f.scale_head_stride_bytes = view.scales.head_stride_bytes;
  f.granule_stride_bytes = view.scales.granule_stride_bytes;
  if (view.scales.tensor_scale != nullptr) f.tensor_scale = *view.scales.tensor_scale;
  f.zeros = view.scales.zeros;
  f.zero_offset_bytes = view.scales.zero_offset_bytes;
  return f;
}

rows::Format format_of(const ConstTensor<3>& tensor) noexcept {
  rows::Format f;
  f.dtype = tensor.dtype;
  f.head_stride_bytes = tensor.stride_bytes[1];
  return f;
}

rows::Conversion conversion_of(const rows::Format& source, const rows::Format& target,
                               int32_t heads, int64_t head_size, bool computes_scales) noexcept {
  rows::Conversion conversion;
  conversion.heads = heads;
  conversion.head_size = head_size;
  conversion.source = source;
  conversion.target = target;
  conversion.computes_scales = computes_scales;
  conversion.tokens_ahead = machine_profile().append.tokens_ahead;
  conversion.fetches_near = machine_profile().append.fetches_near;
  return conversion;
}

void transform(rows::Conversion& conversion, const Rope* rope, const Norm& norm) noexcept {
  conversion.norm = norm.weights;
  conversion.norm_shift = norm.shifts;
  conversion.norm_eps = norm.eps;
  if (rope != nullptr) {
    conversion.first_dim = rope->first_dim;
    conversion.rope_dims = rope->dims;
    conversion.interleaved = rope->interleaved;
  }
}

void turn_for(rows::Conversion& conversion, const PagedKVView& key) noexcept {
  conversion.target.hadamard = key.hadamard;
  conversion.query_scales = key.channel_scales;
  conversion.heads_per_scale = conversion.heads / key.num_heads;
}

void pack_heads(rows::Conversion& conversion) noexcept {
  const bool packed = conversion.source.head_stride_bytes ==
                          row_bytes(conversion.source.dtype, conversion.head_size) &&
                      conversion.target.head_stride_bytes ==
                          row_bytes(conversion.target.dtype, conversion.head_size);
  if (!packed || !conversion.is_plain()) return;
  conversion.head_size *= conversion.heads;
  conversion.heads = 1;
}

bool should_stream(const rows::Conversion& conversion, const void* data, int64_t token_stride_bytes,
                   int64_t bytes) noexcept {
  constexpr int64_t line = 64;
  if (bytes < machine_profile().append.stream_bytes) return false;
  const rows::Format& to = conversion.target;
  const int64_t head = row_bytes(to.dtype, conversion.head_size);
  const bool is_aligned = token_stride_bytes % line == 0 &&
                          reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(line) == 0;
  // blocks are no whole lines, but all heads of a token may be
  if (detail::is_block(to.dtype) && to.head_stride_bytes == head)
    return is_aligned && conversion.heads * head % line == 0;
  const bool has_granules = to.scale_dtype != DType::invalid && to.granule_stride_bytes != 0;
  const int64_t run =
      has_granules && to.granularity < conversion.head_size ? to.granularity : conversion.head_size;
  return is_aligned && row_bytes(to.dtype, run) % line == 0 && head % line == 0 &&
         (conversion.heads == 1 || to.head_stride_bytes % line == 0);
}

}  // namespace folio::inline v1
