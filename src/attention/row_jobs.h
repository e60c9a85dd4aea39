// SPDX-License-Identifier: Apache-2.0
/// src/attention/row_jobs.h: planes and tensors as the kernels of cpu/append see them: formats,
/// jobs and places.
#pragma once

#include "cpu/append/rows.h"
#include "folio/attention/rotate.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"

namespace folio::inline v1 {

[[nodiscard]] rows::Format format_of(const PagedKVView& view) noexcept;
[[nodiscard]] rows::Format format_of(const AnyTensor<3>& tensor) noexcept;

/// A job between two formats.
[[nodiscard]] rows::Job job_of(const rows::Format& source, const rows::Format& target,
                               int32_t heads, int64_t head_size, bool computes_scales) noexcept;

/// Adds the normalisation (if `weights`) and the rotation (if `rope`).
void transform(rows::Job& job, const Rope* rope, const float* weights, float eps) noexcept;

/// Heads that are packed on both sides of a plain conversion count as one.
void pack_heads(rows::Job& job) noexcept;

/// Whether a call that writes `bytes` stores past the caches: where it writes much, and whole
/// lines.
[[nodiscard]] bool should_stream(const rows::Job& job, const void* data, int64_t token_stride_bytes,
                                 int64_t bytes) noexcept;

[[nodiscard]] constexpr bool computes_scales(const PagedKVView& view) {
  return view.scales.data != nullptr && view.scales.slot_stride_bytes != 0;
}

/// The scales of one token, or null.
[[nodiscard]] inline std::byte* scales_of(const PagedKVView& view, int64_t page, int64_t slot) {
  if (view.scales.data == nullptr) return nullptr;
  return static_cast<std::byte*>(view.scales.data) +
         scale_offset_bytes(view.scales, page, slot, 0, 0);
}

[[nodiscard]] inline std::byte* token_of(const AnyTensor<3>& tensor, int64_t token) {
  return static_cast<std::byte*>(tensor.data) + token * tensor.stride_bytes[0];
}

/// Collects the places of tokens and hands them to the kernel in batches, so that it sees coming
/// tokens while it works on one.
class PlaceBatch {
 public:
  PlaceBatch(const rows::Job* jobs, int num_jobs, const rows::Kernel& kernel)
      : jobs_(jobs), num_jobs_(num_jobs), kernel_(kernel) {}
  /// One place for each job.
  void add(const rows::Place* places) {
    for (int j = 0; j < num_jobs_; ++j) places_[tokens_ * num_jobs_ + j] = places[j];
    if (++tokens_ == size) flush();
  }
  void flush() {
    if (tokens_ > 0) kernel_.write(jobs_, num_jobs_, places_, tokens_);
    tokens_ = 0;
  }

 private:
  static constexpr int64_t size = 128;

  const rows::Job* jobs_;
  int num_jobs_;
  const rows::Kernel& kernel_;
  int64_t tokens_ = 0;
  rows::Place places_[2 * size];
};

}  // namespace folio::inline v1
