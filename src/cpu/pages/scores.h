// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/scores.h: queries against the summaries of pages.
///
///     bounds   sum_d max(q_d low_d, q_d high_d) = sum_d (q+_d high_d + q-_d low_d), q+ and q-
///              being the parts of q above and below 0: two products a channel, and no compare
///     mean     sum_d q_d mean_d
///
/// As many sums as a register has lanes are made at once, of pages times queries, and transposed,
/// so that each page's rows are read once for up to four queries. ISA-safe: templates on a tag
/// type.
#pragma once

#include "cpu/convert/elements.h"
#include "cpu/pages/pages.h"

namespace folio::inline v1::pages {

template <class I>
class Scores {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;

 public:
  static void prepare(DType dtype, SummaryKind kind, const std::byte* from, float scale, float* to,
                      int64_t n) noexcept {
    switch (dtype) {
      case DType::f32: return prepare_as<DType::f32>(kind, from, scale, to, n);
      case DType::bf16: return prepare_as<DType::bf16>(kind, from, scale, to, n);
      default: return prepare_as<DType::f16>(kind, from, scale, to, n);
    }
  }

  static void score(const Source& source, const float* prepared, int32_t queries,
                    const uint32_t* entries, int64_t pages, float* scores,
                    int64_t stride) noexcept {
    switch (source.dtype) {
      case DType::f32:
        return of_type<DType::f32>(source, prepared, queries, entries, pages, scores, stride);
      case DType::bf16:
        return of_type<DType::bf16>(source, prepared, queries, entries, pages, scores, stride);
      default:
        return of_type<DType::f16>(source, prepared, queries, entries, pages, scores, stride);
    }
  }

  static LogSum sum_of_exps(const float* scores, const float* weights, int64_t n) noexcept {
    const F none = V::splat(-__builtin_inff());
    F greatest = none, sums = F{};
    for_each(scores, weights, n,
             [&](const F& s, const F& w) { greatest = V::max(w > F{} ? s : none, greatest); });
    const float most = V::max_lane(greatest);
    if (!(most < __builtin_inff()) || most == -__builtin_inff()) return {most, 0.0f};
    for_each(scores, weights, n, [&](const F& s, const F& w) {
      sums = sums + w * V::exp((w > F{} ? s : none) - V::splat(most));
    });
    return {most, V::sum(sums)};
  }

 private:
  template <DType D>
  static void prepare_as(SummaryKind kind, const std::byte* from, float scale, float* to,
                         int64_t n) {
    using Element = StoredLanes<I, D>;
    const int64_t part = padded(n);
    for (int64_t d = 0; d < part; d += W) {
      const int64_t left = n - d;
      F x = F{};
      if (left >= W) {
        x = Element::load(from + d * Element::bytes);
      } else if (left > 0) {
        x = load_some<D>(from + d * Element::bytes, left);
      }
      x = x * V::splat(scale);
      const F above = x < F{} ? F{} : x, below = x > F{} ? F{} : x;  // a NaN is in both
      V::store(to + d, kind == SummaryKind::mean ? x : above);
      V::store(to + part + d, below);
    }
  }

  /// Fewer elements than a register has go through a buffer.
  template <DType D>
  [[gnu::noinline]] static F load_some(const std::byte* from, int64_t count) {
    using Element = StoredLanes<I, D>;
    unsigned char elements[W * Element::bytes] = {};
    __builtin_memcpy(elements, from, static_cast<size_t>(count) * Element::bytes);
    return Element::load(elements);
  }

  template <DType D>
  static void of_type(const Source& source, const float* prepared, int32_t queries,
                      const uint32_t* entries, int64_t pages, float* scores, int64_t stride) {
    const auto run = [&](auto count) {
      constexpr int G = decltype(count)::value;
      if (source.kind == SummaryKind::mean) {
        all_pages<D, SummaryKind::mean, G>(source, prepared, entries, pages, scores, stride);
      } else {
        all_pages<D, SummaryKind::bounds, G>(source, prepared, entries, pages, scores, stride);
      }
    };
    if (queries == 1) return run(std::integral_constant<int, 1>());
    if (queries == 2) return run(std::integral_constant<int, 2>());
    run(std::integral_constant<int, queries_at_once>());
  }

  /// The rows of P pages, and which of them are there.
  template <int P>
  struct Block {
    const std::byte* row[P];
    uint32_t assigned;
  };

  template <int P>
  FOLIO_ALWAYS_INLINE static Block<P> block_of(const Source& source, const uint32_t* entries,
                                               int64_t count) {
    Block<P> block;
    block.assigned = 0;
    const std::byte* any = source.data;
    for (int p = 0; p < P; ++p) {
      const bool is_there = p < count && entries[p] < source.num_pages;
      if (is_there) any = source.data + entries[p] * source.page_stride_bytes;
      if (is_there) block.assigned |= 1u << p;
      block.row[p] = is_there ? any : nullptr;
    }
    for (const std::byte*& row : block.row)
      if (row == nullptr) row = any;
    return block;
  }

  /// Rows lie where no hardware looks for them.
  template <int P>
  FOLIO_ALWAYS_INLINE static void fetch(const Source& source, const Block<P>& block,
                                        int64_t bytes) {
    for (int p = 0; p < P; ++p) {
      for (int64_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(block.row[p] + i, 0, 3);
        if (source.kind == SummaryKind::bounds)
          __builtin_prefetch(block.row[p] + source.row_stride_bytes + i, 0, 3);
      }
    }
  }

  template <DType D, SummaryKind Kind, int G>
  static void all_pages(const Source& source, const float* prepared, const uint32_t* entries,
                        int64_t pages, float* scores, int64_t stride) {
    constexpr int P = W / G;
    const int64_t row_bytes = source.head_size * int64_t{StoredLanes<I, D>::bytes};
    Block<P> next = block_of<P>(source, entries, pages);
    for (int64_t first = 0; first < pages; first += P) {
      const Block<P> block = next;
      if (first + P < pages) {
        next = block_of<P>(source, entries + first + P, pages - first - P);
        fetch(source, next, row_bytes);
      }
      const int64_t count = pages - first < P ? pages - first : P;
      float sums[W];
      V::store(sums, block.assigned == 0 ? F{} : sums_of<D, Kind, G>(source, block, prepared));
      for (int64_t p = 0; p < count; ++p) {
        const bool is_there = (block.assigned >> p & 1u) != 0;
        for (int g = 0; g < G; ++g)
          scores[g * stride + first + p] = is_there ? sums[p * G + g] : -__builtin_inff();
      }
    }
  }

  /// Lane p * G + g: page p, query g.
  template <DType D, SummaryKind Kind, int G>
  FOLIO_ALWAYS_INLINE static F sums_of(const Source& source, const Block<W / G>& block,
                                       const float* prepared) {
    using Element = StoredLanes<I, D>;
    const int64_t part = padded(source.head_size);
    F sums[W] = {};
    const auto add = [&](int64_t d, auto load) {
      for (int p = 0; p < W / G; ++p) {
        const std::byte* const at = block.row[p] + d * Element::bytes;
        const F low = load(at);
        F high = low;
        if constexpr (Kind == SummaryKind::bounds) high = load(at + source.row_stride_bytes);
        for (int g = 0; g < G; ++g) {
          const float* const q = prepared + g * 2 * part + d;
          F& sum = sums[p * G + g];
          sum = V::fma(V::load(q), high, sum);
          if constexpr (Kind == SummaryKind::bounds) sum = V::fma(V::load(q + part), low, sum);
        }
      }
    };
    int64_t d = 0;
    for (; d + W <= source.head_size; d += W)
      add(d, [](const std::byte* at) { return Element::load(at); });
    if (const int64_t left = source.head_size - d; left > 0)
      add(d, [left](const std::byte* at) { return load_some<D>(at, left); });
    return finished(sums);
  }

  FOLIO_ALWAYS_INLINE static F finished(F (&sums)[W]) {
    V::transpose(sums);
    F sum = sums[0];
    for (int i = 1; i < W; ++i) sum = sum + sums[i];
    const F lowest = V::splat(-3.40282347e38f);
    sum = sum < lowest ? lowest : sum;
    return sum != sum ? V::splat(__builtin_inff()) : sum;
  }

  template <class Visit>
  FOLIO_ALWAYS_INLINE static void for_each(const float* scores, const float* weights, int64_t n,
                                           Visit visit) {
    int64_t i = 0;
    for (; i + W <= n; i += W) visit(V::load(scores + i), V::load(weights + i));
    if (i == n) return;
    float s[W] = {}, w[W] = {};
    __builtin_memcpy(s, scores + i, static_cast<size_t>(n - i) * sizeof(float));
    __builtin_memcpy(w, weights + i, static_cast<size_t>(n - i) * sizeof(float));
    visit(V::load(s), V::load(w));
  }
};

}  // namespace folio::inline v1::pages
