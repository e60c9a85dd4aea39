// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/load.h: rows of one token's heads become rows of floats: widened, times their
/// scales, normalised, rotated.
#pragma once

#include "cpu/append/elements.h"
#include "cpu/append/layout.h"
#include "cpu/append/rows.h"
#include "cpu/convert/blocks.h"
#include "cpu/convert/elements.h"
#include "cpu/convert/hadamard.h"
#include "cpu/convert/packed.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1::rows {

template <class I>
struct Load {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;
  static constexpr int chains = 16;  // of the sums of a norm, on every machine

  /// `rows` rows of `n` elements of `dtype`, of blocks whole ones, of packed types as patterns are
  /// read without zero points, `stride_bytes` apart, to rows of floats, `pitch` apart. Natural
  /// alignment is not required, nothing behind a row is read; `to` has room for a register more.
  static void widen(DType dtype, const std::byte* from, int64_t stride_bytes, int64_t rows,
                    int64_t n, float* to, int64_t pitch) {
    if (stride_bytes == row_bytes(dtype, n) && pitch == n) {
      n *= rows;
      rows = 1;
    }
    const Rows all{from, stride_bytes, rows, n, to, pitch};
    detail::visit_plane(dtype, [&all](auto type) {
      constexpr DType D = decltype(type)::value;
      if constexpr (detail::is_packed(D)) {
        widen_packed<D>(all);
      } else if constexpr (detail::is_block(D)) {
        widen_blocks<D>(all);
      } else {
        widen_as<D>(all);
      }
    });
  }

  /// Heads [head, head + heads) of a token row as rows of floats, `pitch` apart: what a reader of
  /// the source sees, transformed.
  static void heads(const Conversion& conversion, const TokenRow& token_row, int64_t head,
                    int64_t heads, float* to, int64_t pitch) {
    widen(conversion.source.dtype, token_row.source + head * conversion.source.head_stride_bytes,
          conversion.source.head_stride_bytes, heads, conversion.head_size, to, pitch);
    float* end = to + heads * pitch;
    if (conversion.source.scale_dtype != DType::invalid) {
      for (int64_t h = 0; h < heads; ++h)
        multiply_scales(conversion, token_row, head + h, to + h * pitch);
    }
    if (conversion.source.is_turned()) {
      for (int64_t h = 0; h < heads; ++h) turn_back(conversion, head + h, to + h * pitch);
    }
    if (conversion.norm != nullptr) {
      for (float* row = to; row != end; row += pitch) normalise(conversion, row);
    }
    const int64_t pairs = conversion.rope_dims / 2;
    if (pairs > 0 && conversion.interleaved) {
      for (float* row = to; row != end; row += pitch)
        rotate_neighbours(row + conversion.first_dim, token_row.cos_sin, pairs);
    } else if (pairs > 0) {
      rotate_halves(to + conversion.first_dim, heads, pitch, token_row.cos_sin, pairs);
    }
    if (!conversion.scales_channels()) return;
    for (int64_t h = 0; h < heads; ++h) scale_channels(conversion, head + h, to + h * pitch);
  }

  /// Rows of floats turned where they lie.
  static void turn(const Conversion& conversion, float* rows, int64_t heads, int64_t pitch) {
    for (int64_t h = 0; h < heads; ++h)
      HadamardRows<I>::turn(rows + h * pitch, conversion.head_size, conversion.target.hadamard);
  }
  /// Rows that `From` reads turned, to rows of floats that are split: of blocks of whole double
  /// registers.
  template <class From>
  static void turn_split(const Conversion& conversion, const std::byte* from, int64_t stride_bytes,
                         int64_t heads, float* to, int64_t pitch) {
    for (int64_t h = 0; h < heads; ++h, from += stride_bytes, to += pitch) {
      HadamardRows<I>::template turn_from<SplitOrder<I>>(
          SplitReader<From>{from}, to, conversion.head_size, conversion.target.hadamard);
    }
  }

  /// Rows that are rotated by halves and nothing else but turned, in whole double registers: no
  /// second pass over the floats.
  static constexpr int double_width = 2 * W;
  static bool only_rotates(const Conversion& conversion) {
    return conversion.rope_dims > 0 && !conversion.interleaved && conversion.norm == nullptr &&
           conversion.source.scale_dtype == DType::invalid && !conversion.source.is_turned() &&
           !conversion.scales_channels() && conversion.rope_dims % (2 * double_width) == 0 &&
           conversion.first_dim % double_width == 0 && conversion.head_size % double_width == 0;
  }
  /// Whole double registers of angles, split.
  static void split_angles(const float* angles, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += double_width) {
      const F a = V::load(angles + i), b = V::load(angles + i + W);
      V::store(to + i, SplitOrder<I>::evens(a, b));
      V::store(to + i + W, SplitOrder<I>::odds(a, b));
    }
  }
  /// `heads` rows of the source, read by `From` and stored in the order of its registers, `pitch`
  /// apart. Requires only_rotates().
  template <class From>
  static void rotated(const Conversion& conversion, const std::byte* from, int64_t heads,
                      const float* angles, float* to, int64_t pitch) {
    const bool is_usual =
        conversion.rope_dims == usual_length && conversion.head_size == usual_length;
    for (; heads > 0; --heads, from += conversion.source.head_stride_bytes, to += pitch) {
      if (is_usual) {
        rotate_double<From>(from, angles, to, 0, usual_length / 2);
        continue;
      }
      for (int64_t i = 0; i < conversion.first_dim; i += double_width)
        copy_double<From>(from, to, i);
      rotate_double<From>(from, angles, to, conversion.first_dim, conversion.rope_dims / 2);
      for (int64_t i = conversion.first_dim + conversion.rope_dims; i < conversion.head_size;
           i += double_width)
        copy_double<From>(from, to, i);
    }
  }

 private:
  struct Rows {
    const std::byte* from;
    int64_t stride_bytes;
    int64_t rows;
    int64_t n;
    float* to;
    int64_t pitch;
  };

  template <class From>
  struct SplitReader {
    template <int R>
    FOLIO_ALWAYS_INLINE void operator()(int64_t i, F (&x)[R]) const {
      for (int r = 0; r < R; r += 2)
        load_pair<I, From, SplitOrder<I>>(from + (i + r * W) * From::bytes, x[r], x[r + 1]);
    }
    const std::byte* from;
  };

  template <DType D>
  static void widen_as(const Rows& rows) {
    using Stored = StoredLanes<I, D>;
    for (int64_t r = 0; r < rows.rows; ++r) {
      const std::byte* from = rows.from + r * rows.stride_bytes;
      float* to = rows.to + r * rows.pitch;
      int64_t left = rows.n;
      for (; left >= W; left -= W, from += W * Stored::bytes, to += W)
        V::store(to, Stored::load(from));
      if (left == 0) continue;
      unsigned char rest[W * Stored::bytes] = {};
      __builtin_memcpy(rest, from, static_cast<size_t>(left) * Stored::bytes);
      V::store(to, Stored::load(rest));
    }
  }

  template <DType D>
  static void widen_packed(const Rows& rows) {
    using Lanes = Packed<I, D>;
    for (int64_t r = 0; r < rows.rows; ++r) {
      const std::byte* const from = rows.from + r * rows.stride_bytes;
      float* const to = rows.to + r * rows.pitch;
      int64_t i = 0;
      for (; i + W <= rows.n; i += W) V::store(to + i, Lanes::load(from, i));
      if (i < rows.n) V::store(to + i, Lanes::load_end(from, i, rows.n - i));
    }
  }

  template <DType D>
  static void widen_blocks(const Rows& rows) {
    using Block = Blocks<I, D>;
    for (int64_t r = 0; r < rows.rows; ++r) {
      const std::byte* from = rows.from + r * rows.stride_bytes;
      float* const to = rows.to + r * rows.pitch;
      for (int64_t i = 0; i < rows.n; i += Block::elements, from += row_bytes(D, Block::elements))
        Block::for_each(from, [to, i](int element, F v) { V::store(to + i + element, v); });
    }
  }

  template <class From>
  FOLIO_ALWAYS_INLINE static void rotate_double(const std::byte* from, const float* angles,
                                                float* to, int64_t begin, int64_t pairs) {
    for (int64_t i = 0; i < pairs; i += double_width) {
      const int64_t first = begin + i, second = first + pairs;
      F a[2], b[2];
      From::load(from + first * From::bytes, a[0], a[1]);
      From::load(from + second * From::bytes, b[0], b[1]);
      for (int k = 0; k < 2; ++k) {
        const F cosine = V::load(angles + i + k * W), sine = V::load(angles + pairs + i + k * W);
        V::store(to + first + k * W, a[k] * cosine - b[k] * sine);
        V::store(to + second + k * W, b[k] * cosine + a[k] * sine);
      }
    }
  }
  template <class From>
  FOLIO_ALWAYS_INLINE static void copy_double(const std::byte* from, float* to, int64_t i) {
    F a, b;
    From::load(from + i * From::bytes, a, b);
    V::store(to + i, a);
    V::store(to + i + W, b);
  }

  /// Up to W floats of memory that may end behind them; zeros follow.
  static F load_some(const float* from, int64_t n) {
    if (n >= W) return V::load(from);
    float some[W] = {};
    __builtin_memcpy(some, from, static_cast<size_t>(n) * sizeof(float));
    return V::load(some);
  }
  static void store_some(float* to, F v, int64_t n) {
    if (n >= W) return V::store(to, v);
    float some[W];
    V::store(some, v);
    __builtin_memcpy(to, some, static_cast<size_t>(n) * sizeof(float));
  }

  static void multiply_scales(const Conversion& conversion, const TokenRow& token_row, int64_t head,
                              float* row) {
    const Format& f = conversion.source;
    const std::byte* at = token_row.source_scales + head * f.scale_head_stride_bytes;
    for (int64_t first = 0; first < conversion.head_size;
         first += f.granularity, at += f.granule_stride_bytes) {
      const int64_t n = conversion.head_size - first < f.granularity ? conversion.head_size - first
                                                                     : f.granularity;
      if (folio::detail::is_packed(f.dtype)) {
        const folio::detail::GranuleReading g = reading_of(f, at);
        for (int64_t i = 0; i < n; i += W) {
          const F x = V::load(row + first + i);
          store_some(row + first + i, (x - g.zero) * g.scale + g.minimum, n - i);
        }
        continue;
      }
      const F scale = V::splat(detail::load_scale(at, f.scale_dtype) * f.tensor_scale);
      for (int64_t i = 0; i < n; i += W)
        store_some(row + first + i, V::load(row + first + i) * scale, n - i);
    }
  }

  static void turn_back(const Conversion& conversion, int64_t head, float* row) {
    const Format& f = conversion.source;
    const int64_t n = conversion.head_size;
    if (f.hadamard.block != 0) HadamardRows<I>::turn_back(row, n, f.hadamard);
    if (f.channel_scales == nullptr) return;
    multiply(row, f.channel_scales + head * n, n);
  }
  static void scale_channels(const Conversion& conversion, int64_t head, float* row) {
    const int64_t n = conversion.head_size;
    if (conversion.query_scales != nullptr)
      multiply(row, conversion.query_scales + head / conversion.heads_per_scale * n, n);
    if (conversion.target.channel_scales == nullptr) return;
    const float* const scales = conversion.target.channel_scales + head * n;
    for (int64_t i = 0; i < n; i += W)
      store_some(row + i, V::load(row + i) / load_some(scales + i, n - i), n - i);
  }
  static void multiply(float* row, const float* factors, int64_t n) {
    for (int64_t i = 0; i < n; i += W)
      store_some(row + i, V::load(row + i) * load_some(factors + i, n - i), n - i);
  }

  static void normalise(const Conversion& conversion, float* row) {
    const int64_t n = conversion.head_size;
    const float* const shifts = conversion.norm_shift;
    if (shifts != nullptr) centre(row, n);
    const float mean = mean_of(row, n, [](F x) { return x * x; });
    const F factor = V::splat(1.0f / I::square_root(mean + conversion.norm_eps));
    for (int64_t i = 0; i < n; i += W) {
      const F y = V::load(row + i) * factor * load_some(conversion.norm + i, n - i);
      V::store(row + i, shifts == nullptr ? y : y + load_some(shifts + i, n - i));
    }
  }
  static void centre(float* row, int64_t n) {
    const F mean = V::splat(mean_of(row, n, [](F x) { return x; }));
    for (int64_t i = 0; i < n; i += W) V::store(row + i, V::load(row + i) - mean);
  }

  /// Chain c adds what `of` makes of elements c, c + 16, ...; chains c and c + 8 are added, then c
  /// and c + 4, and so on.
  template <class Of>
  static float mean_of(float* row, int64_t n, Of of) {
    for (int64_t i = n; i % chains != 0; ++i) row[i] = 0.0f;
    F sums[chains / W] = {};
    for (int64_t i = 0; i < n; i += chains) {
      for (int c = 0; c < chains / W; ++c) {
        const F x = V::load(row + i + static_cast<int64_t>(c) * W);
        sums[c] = sums[c] + of(x);
      }
    }
    for (int half = chains / W / 2; half > 0; half /= 2)
      for (int c = 0; c < half; ++c) sums[c] = sums[c] + sums[c + half];
    return V::sum(sums[0]) / static_cast<float>(n);
  }

  /// Pairs (i, i + pairs) of `heads` rows; an angle is read once for all.
  static void rotate_halves(float* rows, int64_t heads, int64_t pitch, const float* cos_sin,
                            int64_t pairs) {
    for (int64_t i = 0; i < pairs; i += W) {
      const F cosine = load_some(cos_sin + i, pairs - i),
              sine = load_some(cos_sin + pairs + i, pairs - i);
      float* row = rows + i;
      for (int64_t h = 0; h < heads; ++h, row += pitch) {
        const F a = V::load(row), b = V::load(row + pairs);
        store_some(row, a * cosine - b * sine, pairs - i);
        store_some(row + pairs, b * cosine + a * sine, pairs - i);
      }
    }
  }

  /// Pairs (2 i, 2 i + 1).
  static void rotate_neighbours(float* row, const float* cos_sin, int64_t pairs) {
    for (int64_t i = 0; i < pairs; i += W) {
      const F cosine = load_some(cos_sin + i, pairs - i),
              sine = load_some(cos_sin + pairs + i, pairs - i);
      float* at = row + 2 * i;
      const F first = V::load(at), second = V::load(at + W);
      const F a = SplitOrder<I>::evens(first, second), b = SplitOrder<I>::odds(first, second);
      const F x = a * cosine - b * sine, y = b * cosine + a * sine;
      store_some(at, SplitOrder<I>::first(x, y), 2 * (pairs - i));
      if (2 * (pairs - i) > W) store_some(at + W, SplitOrder<I>::second(x, y), 2 * (pairs - i) - W);
    }
  }
};

}  // namespace folio::inline v1::rows
