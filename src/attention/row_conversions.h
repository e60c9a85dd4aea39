// SPDX-License-Identifier: Apache-2.0
/// src/attention/row_conversions.h: planes and tensors as the kernels of cpu/append see them:
/// formats, conversions and token rows.
#pragma once

#include "cpu/append/rows.h"
#include "folio/attention/rotate.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"

namespace folio::inline v1 {

[[nodiscard]] rows::Format format_of(const PagedKVView& view) noexcept;
[[nodiscard]] rows::Format format_of(const ConstTensor<3>& tensor) noexcept;

/// A conversion between two formats.
[[nodiscard]] rows::Conversion conversion_of(const rows::Format& source, const rows::Format& target,
                                             int32_t heads, int64_t head_size,
                                             bool computes_scales) noexcept;

/// The norm of a call's rows: without weights there is none, without shifts it is an RMSNorm.
struct Norm {
  const float* weights = nullptr;
  const float* shifts = nullptr;
  float eps = 0.0f;
};

/// Adds the normalisation (if it has weights) and the rotation (if `rope`).
void transform(rows::Conversion& conversion, const Rope* rope, const Norm& norm) noexcept;

/// Adds the turn of queries for keys of `key`, whose num_heads divide the conversion's.
void turn_for(rows::Conversion& conversion, const PagedKVView& key) noexcept;

/// Heads that are packed on both sides of a plain conversion count as one.
void pack_heads(rows::Conversion& conversion) noexcept;

/// Whether a call that writes `bytes` stores past the caches: where it writes much, and whole
/// lines.
[[nodiscard]] bool should_stream(const rows::Conversion& conversion, const void* data,
                                 int64_t token_stride_bytes, int64_t bytes) noexcept;

[[nodiscard]] constexpr bool computes_scales(const PagedKVView& view) {
  return view.scales.data != nullptr && view.scales.slot_stride_bytes != 0;
}

/// The scales of one token, or null.
[[nodiscard]] inline std::byte* scales_of(const PagedKVView& view, int64_t page, int64_t slot) {
  if (view.scales.data == nullptr) return nullptr;
  return static_cast<std::byte*>(view.scales.data) +
         detail::scale_offset_bytes(view.scales, page, slot, 0, 0);
}

[[nodiscard]] inline const std::byte* token_of(const ConstTensor<3>& tensor, int64_t token) {
  return static_cast<const std::byte*>(tensor.data) + token * tensor.stride_bytes[0];
}
[[nodiscard]] inline std::byte* token_of(const AnyTensor<3>& tensor, int64_t token) {
  return static_cast<std::byte*>(tensor.data) + token * tensor.stride_bytes[0];
}

/// Collects token rows and hands them to the kernel in batches, so that it sees coming tokens while
/// it works on one.
class TokenRowBatch {
 public:
  TokenRowBatch(const rows::Conversion* conversions, int num_conversions,
                const rows::Kernel& kernel)
      : conversions_(conversions), num_conversions_(num_conversions), kernel_(kernel) {}
  /// One token row for each conversion.
  void add(const rows::TokenRow* token_rows) {
    for (int j = 0; j < num_conversions_; ++j)
      token_rows_[tokens_ * num_conversions_ + j] = token_rows[j];
    if (++tokens_ == size) flush();
  }
  void flush() {
    if (tokens_ > 0) kernel_.write(conversions_, num_conversions_, token_rows_, tokens_);
    tokens_ = 0;
  }

 private:
  static constexpr int64_t size = 128;

  const rows::Conversion* conversions_;
  int num_conversions_;
  const rows::Kernel& kernel_;
  int64_t tokens_ = 0;
  rows::TokenRow token_rows_[2 * size];
};

}  // namespace folio::inline v1
