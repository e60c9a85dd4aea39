// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/row_factors.h: scales along a row as what its registers are multiplied by.
///
///     granules of whole registers   a factor of each register: scales side by side are loaded,
///                                   widened and put to their places 16 at a time
///     others                        a factor of each element
///
/// For AVX-512. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/scale_lanes.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_view.h"

namespace folio::inline v1 {

/// Of a row of up to `Columns` elements.
template <class I, int Columns>
class RowFactors {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

 public:
  /// Scales from `at` on; column 0 is number `phase` of its granule.
  FOLIO_ALWAYS_INLINE void read(const ScaleView& view, const std::byte* at, int phase,
                                int columns) {
    const int granularity = view.granularity;
    is_by_element_ = (granularity | phase) % W != 0;
    if (is_by_element_ || view.granule_stride_bytes != bit_width(view.dtype) / 8 ||
        granularity > granularity_max)
      return read_one_by_one(view, at, phase, columns);
    for (int first = 0; first < columns; first += W * W)
      of_registers(view, at, phase + first, columns - first, each_ + first / W);
  }
  [[nodiscard]] bool is_by_element() const { return is_by_element_; }
  [[nodiscard]] const float* each() const { return each_; }

 private:
  static constexpr int granularity_max = 1 << 16;  // quotients below are exact

  /// W registers, the first of which begins with element `begin` of granule 0; of them the first
  /// `columns` elements are there.
  FOLIO_ALWAYS_INLINE static void of_registers(const ScaleView& view, const std::byte* at,
                                               int begin, int columns, float* to) {
    using S = typename V::S;
    if (columns > W * W) columns = W * W;
    const float inverse = 1.0f / static_cast<float>(view.granularity);
    const auto granule_of = [inverse](int element) {
      return static_cast<int>((static_cast<float>(element) + 0.5f) * inverse);
    };
    const int first = granule_of(begin), last = granule_of(begin + columns - 1);
    F scales =
        ScaleLanes<I>::load(at + first * view.granule_stride_bytes, last - first + 1, view.dtype);
    if (view.tensor_scale != nullptr) scales = scales * V::splat(*view.tensor_scale);
    const F element = V::load(starts.element) + V::splat(static_cast<float>(begin));
    const S granule = __builtin_convertvector(element * V::splat(inverse), S) - first;
    V::store(to, I::template pick_of<F>(scales, reinterpret_cast<typename V::U>(granule)));
  }

  [[gnu::noinline]] void read_one_by_one(const ScaleView& view, const std::byte* at, int phase,
                                         int columns) {
    float* to = each_;
    int64_t end = int64_t{view.granularity} - phase;
    for (int i = 0; i < columns; end += view.granularity, at += view.granule_stride_bytes) {
      const int stop = end < columns ? static_cast<int>(end) : columns;
      float factor = detail::load_scale(at, view.dtype);
      if (view.tensor_scale != nullptr) factor *= *view.tensor_scale;
      if (is_by_element_) {
        for (; i < stop; i += W) V::store(each_ + i, V::splat(factor));  // the next one overwrites
        i = stop;
      } else {
        for (; i < stop; i += W) *to++ = factor;
      }
    }
  }

  struct alignas(64) Starts {
    float element[W];
  };
  /// The middles of the registers' first elements.
  static consteval Starts make_starts() {
    Starts s = {};
    for (int i = 0; i < W; ++i) s.element[i] = static_cast<float>(i * W) + 0.5f;
    return s;
  }
  static constexpr Starts starts = make_starts();

  bool is_by_element_ = false;
  alignas(64) float each_[Columns + W * W];
};

}  // namespace folio::inline v1
