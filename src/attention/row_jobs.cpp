// SPDX-License-Identifier: Apache-2.0
/// src/attention/row_jobs.cpp: planes and tensors as formats and jobs.
#include "attention/row_jobs.h"

#include "cpu/profile.h"

namespace folio::inline v1 {

rows::Format format_of(const PagedKVView& view) noexcept {
  rows::Format f;
  f.dtype = view.dtype;
  f.head_stride_bytes = view.head_stride_bytes;
  if (view.scales.data == nullptr) return f;
  f.scale_dtype = view.scales.dtype;
  f.granularity = view.scales.granularity;
  f.scale_head_stride_bytes = view.scales.head_stride_bytes;
  f.granule_stride_bytes = view.scales.granule_stride_bytes;
  if (view.scales.tensor_scale != nullptr) f.tensor_scale = *view.scales.tensor_scale;
  return f;
}

rows::Format format_of(const AnyTensor<3>& tensor) noexcept {
  rows::Format f;
  f.dtype = tensor.dtype;
  f.head_stride_bytes = tensor.stride_bytes[1];
  return f;
}

rows::Job job_of(const rows::Format& source, const rows::Format& target, int32_t heads,
                 int64_t head_size, bool computes_scales) noexcept {
  rows::Job job;
  job.heads = heads;
  job.head_size = head_size;
  job.source = source;
  job.target = target;
  job.computes_scales = computes_scales;
  return job;
}

void transform(rows::Job& job, const Rope* rope, const float* weights, float eps) noexcept {
  job.norm = weights;
  job.norm_eps = eps;
  if (rope != nullptr) {
    job.first_dim = rope->first_dim;
    job.rope_dims = rope->dims;
    job.interleaved = rope->interleaved;
  }
}

void pack_heads(rows::Job& job) noexcept {
  const bool packed =
      job.source.head_stride_bytes == job.head_size * bit_width(job.source.dtype) / 8 &&
      job.target.head_stride_bytes == job.head_size * bit_width(job.target.dtype) / 8;
  if (!packed || !job.is_plain()) return;
  job.head_size *= job.heads;
  job.heads = 1;
}

bool should_stream(const rows::Job& job, const void* data, int64_t token_stride_bytes,
                   int64_t bytes) noexcept {
  constexpr int64_t line = 64;
  if (bytes < machine_profile().stream_bytes) return false;
  const int64_t width = bit_width(job.target.dtype) / 8;
  const bool has_granules =
      job.target.scale_dtype != DType::invalid && job.target.granule_stride_bytes != 0;
  const int64_t run = has_granules && job.target.granularity < job.head_size
                          ? job.target.granularity
                          : job.head_size;
  return run * width % line == 0 && job.head_size * width % line == 0 &&
         token_stride_bytes % line == 0 &&
         (job.heads == 1 || job.target.head_stride_bytes % line == 0) &&
         reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(line) == 0;
}

}  // namespace folio::inline v1
