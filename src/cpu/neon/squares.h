// SPDX-License-Identifier: Apache-2.0
/// src/cpu/neon/squares.h: the operands of the portable engine in bf16, for processors that
/// multiply 2 x 4 by 4 x 2 of it at once (BFMMLA).
///
///     q        [pairs of rows][depth / 4][2 rows][4 dims]       of a head after the other
///     keys     [32 pairs of keys][depth / 4][2 keys][4 dims]
///     values   [v_depth / 2][16][2 columns][4 keys]
///     weights  [pairs of rows][16][2 rows][4 keys]              of one head
///     scores   [rows][64]                                       f32: logits, then probabilities
///
/// A register of sums is two rows of two keys, or columns. Each sum is one chain of such products
/// in ascending order of dims, or keys, so rows never influence one another. Rows of other types
/// are brought to float32 with their scales and rounded once. ISA-safe: templates on a tag type
/// with `multiply_squares` and `rounded_rows`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/portable/stage.h"
#include "cpu/skeleton/task_view.h"
#include "folio/core/element.h"

namespace folio::inline v1::portable {

template <class I>
class Squares {
  using V = Simd<I>;
  using F = typename V::F;
  static_assert(V::W == 4);
  typedef uint16_t H __attribute__((vector_size(16)));  // NOLINT(modernize-use-using)
  typedef uint32_t D __attribute__((vector_size(16)));  // NOLINT(modernize-use-using)
  static constexpr int quads = tile_keys / 4;
  static constexpr int square = 8;  // elements of an operand
  static constexpr int head_max = 576;

 public:
  static int width(const AttentionProblem& problem) {
    return static_cast<int>(skeleton::round_up(problem.v_head_size, 16));
  }
  static int64_t scratch_bytes(const AttentionProblem& problem) {
    return Memory(nullptr, problem).bytes;
  }

  Squares(const skeleton::TaskView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        s_(memory, view.problem),
        width_(width(view.problem)),
        head_pairs_((view.head_rows + 1) / 2) {}

  void load_queries() const {
    alignas(16) bf16 row[head_max];
    for (int h = 0; h < view_.task.heads; ++h)
      for (int r = 0; r < 2 * head_pairs_; ++r) {
        const bool is_row = r < view_.head_rows;
        if (is_row)
          Rows<I>::template row_to<bf16>(problem_.q_dtype)(view_.query(h * view_.head_rows + r),
                                                           row, problem_.key.head_size);
        bf16* const to = query_pair(h * head_pairs_ + r / 2) + r % 2 * 4;
        for (int d = 0; d < problem_.key.head_size; d += 4)
          for (int i = 0; i < 4; ++i) to[d * 2 + i] = is_row ? row[d + i] : bf16{};
      }
  }

  void stage_keys(const KeyTile& tile, const RowPointers& at, const Turn& turn) const {
    find_scales(view_.args.key, at, turn, s_.key_scales);
    if (problem_.value_in_key) find_scales(view_.args.key, at, turn, s_.value_scales);
    for (int first = 0; first < tile_keys; first += 4) {
      if ((tile.seen >> first & 15) == 0 && !problem_.value_in_key)
        continue;  // scores are not read
      const bf16* row[4];
      find_rows(view_.args.key, at, turn, first, row);
      for (int pair = 0; pair < 2; ++pair)
        put_keys(row[2 * pair], row[2 * pair + 1], first / 2 + pair);
      if (problem_.value_in_key) put_values(row, first / 4);
    }
  }
  void stage_values(const RowPointers& at, const Turn& turn, int keys) const {
    find_scales(view_.args.value, at, turn, s_.value_scales);
    for (int first = 0; first < keys; first += 4) {
      const bf16* row[4];
      find_rows(view_.args.value, at, turn, first, row);
      put_values(row, first / 4);
    }
  }

  void scores(int begin, int) const {
    const int first = begin / view_.head_rows * head_pairs_;
    for (int pair = 0; pair < head_pairs_; pair += 4)
      with_count<4>(head_pairs_ - pair,
                    [&](auto count) { score_pairs<count.value>(first + pair, begin + 2 * pair); });
  }
  [[nodiscard]] float* scores_of(int r) const { return s_.scores + int64_t{r} * tile_keys; }
  [[nodiscard]] float& rescale(int r) const { return s_.rescale[r]; }

  void values(float* output, int begin, int end, int keys) const {
    const int count = (keys + 3) / 4;
    for (int pair = 0; pair < head_pairs_; ++pair)
      round_weights(begin + 2 * pair, end, pair, count);
    for (int pair = 0; pair < head_pairs_; pair += 4)
      with_count<4>(head_pairs_ - pair, [&](auto pairs) {
        value_pairs<pairs.value>(output, begin + 2 * pair, end, pair, count);
      });
  }

 private:
  struct Memory {
    Memory(void* at, const AttentionProblem& problem) {
      const int64_t depth = problem.key.head_size, v_depth = problem.v_head_size;
      skeleton::Parts parts(at);
      q = parts.take<bf16>(int64_t{2} * row_tile * depth);
      keys = parts.take<bf16>(tile_keys * depth);
      values = parts.take<bf16>(tile_keys * v_depth);
      weights = parts.take<bf16>(int64_t{row_tile} * tile_keys);
      rows = parts.take<bf16>(int64_t{4} * head_max);
      floats = parts.take<float>(head_max);
      scores = parts.take<float>(int64_t{row_tile + 1} * tile_keys);
      rescale = parts.take<float>(row_tile);
      key_scales = parts.take<float>(tile_keys);
      value_scales = parts.take<float>(tile_keys);
      bytes = parts.bytes();
    }
    bf16* q;
    bf16* keys;
    bf16* values;
    bf16* weights;
    bf16* rows;     // [4][head_max], on their way
    float* floats;  // [head_max], a row on its way
    float* scores;
    float* rescale;
    float* key_scales;    // [64], of scores
    float* value_scales;  // [64], of weights
    int64_t bytes;
  };
  alignas(16) static constexpr bf16 zeros[head_max] = {};

  template <int N>
  struct Count {
    static constexpr int value = N;
  };
  /// call(Count<min(n, Most)>()).
  template <int Most, class Call>
  FOLIO_ALWAYS_INLINE static void with_count(int n, Call call) {
    if constexpr (Most > 1) {
      if (n < Most) return with_count<Most - 1>(n, call);
    }
    call(Count<Most>());
  }

  [[nodiscard]] bf16* query_pair(int pair) const {
    return s_.q + int64_t{pair} * 2 * problem_.key.head_size;
  }
  [[nodiscard]] bf16* key_pair(int pair) const {
    return s_.keys + int64_t{pair} * 2 * problem_.key.head_size;
  }
  static H load(const bf16* from) { return V::template load_as<H>(from); }
  static void store(bf16* to, const H& x) {
    __builtin_memcpy(static_cast<void*>(to), &x, sizeof x);
  }

  // ---- Rows to operands

  /// Four rows of a head as bf16: where they lie, or brought to it; zeros of keys nobody sees.
  void find_rows(const PagedKVView& view, const RowPointers& at, const Turn& turn, int first,
                 const bf16* (&row)[4]) const {
    const bool is_stored = view.dtype == DType::bf16 && view.scales.data == nullptr;
    for (int i = 0; i < 4; ++i) {
      skeleton::prefetch_row(view, turn, first + i);
      const std::byte* const from = skeleton::row_of_head(view, at, turn, first + i);
      row[i] = from == nullptr ? zeros
               : is_stored     ? reinterpret_cast<const bf16*>(from)
                               : in_bf16(view, at, turn, first + i, from, s_.rows + i * head_max);
    }
  }
  /// Elements as they are stored, which bf16 holds, or with scales that vary along the row.
  const bf16* in_bf16(const PagedKVView& view, const RowPointers& at, const Turn& turn, int key,
                      const std::byte* from, bf16* to) const {
    if (!scales_vary(view)) {
      Rows<I>::template row_to<bf16>(view.dtype)(from, to, view.head_size);
      return to;
    }
    Stage<I>::fetch(view, at, turn, key, 1, s_.floats, 0);
    for (int d = 0; d < view.head_size; d += 8)
      store(to + d,
            I::template rounded_rows<H>(V::load(s_.floats + d), V::load(s_.floats + d + 4)));
    return to;
  }
  static bool scales_vary(const PagedKVView& view) {
    return view.scales.data != nullptr && view.scales.granularity < view.head_size;
  }
  /// What scores, or weights, are multiplied by.
  static void find_scales(const PagedKVView& view, const RowPointers& at, const Turn& turn,
                          float* to) {
    const bool have_scales = view.scales.data != nullptr && !scales_vary(view);
    for (int k = 0; k < tile_keys; ++k)
      to[k] = have_scales && at.row[k] != nullptr ? scale_of_row(view, at, turn, k) : 1.0f;
  }
  static float scale_of_row(const PagedKVView& view, const RowPointers& at, const Turn& turn,
                            int k) {
    const TileRun& run = *at.run[k];
    const TileRows rows = PageCursor::scale_rows(view, run, at.head + turn.head);
    return Stage<I>::reading_at(view, rows.data + (k - run.first) * rows.stride_bytes).scale;
  }
  void put_keys(const bf16* a, const bf16* b, int pair) const {
    bf16* to = key_pair(pair);
    for (int d = 0; d < problem_.key.head_size; d += 8, to += 2 * square) {
      const H x = load(a + d), y = load(b + d);
      store(to, __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11));
      store(to + square, __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15));
    }
  }
  void put_values(const bf16* const (&row)[4], int quad) const {
    constexpr int64_t pair = int64_t{quads} * square;  // of columns
    bf16* to = s_.values + quad * square;
    for (int d = 0; d < problem_.v_head_size; d += 8, to += 4 * pair) {
      const H a = load(row[0] + d), b = load(row[1] + d), c = load(row[2] + d),
              e = load(row[3] + d);
      put_columns(__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
                  __builtin_shufflevector(c, e, 0, 8, 1, 9, 2, 10, 3, 11), to, to + pair);
      put_columns(__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15),
                  __builtin_shufflevector(c, e, 4, 12, 5, 13, 6, 14, 7, 15), to + 2 * pair,
                  to + 3 * pair);
    }
  }
  /// Of four columns two rows each.
  static void put_columns(const H& ab, const H& ce, bf16* first, bf16* second) {
    const D x = reinterpret_cast<D>(ab), y = reinterpret_cast<D>(ce);
    store(first, reinterpret_cast<H>(__builtin_shufflevector(x, y, 0, 4, 1, 5)));
    store(second, reinterpret_cast<H>(__builtin_shufflevector(x, y, 2, 6, 3, 7)));
  }

  // ---- Products

  static F first_rows(const F& x, const F& y) { return __builtin_shufflevector(x, y, 0, 1, 4, 5); }
  static F second_rows(const F& x, const F& y) { return __builtin_shufflevector(x, y, 2, 3, 6, 7); }

  /// `Pairs` pairs of rows from `pair` on, of which the first is row `row`: all 64 keys. What lies
  /// behind the head's last row are scores that nobody has computed yet, or room.
  template <int Pairs>
  void score_pairs(int pair, int row) const {
    constexpr int columns = 4;  // pairs of keys
    const int64_t stride = int64_t{2} * problem_.key.head_size;
    for (int key = 0; key < tile_keys; key += 2 * columns) {
      F sum[Pairs][columns] = {};
      const bf16* q = query_pair(pair);
      const bf16* k = key_pair(key / 2);
      for (int d = 0; d < problem_.key.head_size; d += 4, q += square, k += square) {
        H keys[columns];
        for (int c = 0; c < columns; ++c) keys[c] = load(k + c * stride);
        for (int p = 0; p < Pairs; ++p) {
          const H rows = load(q + p * stride);
          for (int c = 0; c < columns; ++c)
            sum[p][c] = I::multiply_squares(sum[p][c], rows, keys[c]);
        }
      }
      for (int p = 0; p < Pairs; ++p) {
        float* const to = scores_of(row + 2 * p) + key;
        for (int c = 0; c < columns; c += 2) {
          const F scale = V::load(s_.key_scales + key + 2 * c) * problem_.scale;
          V::store(to + 2 * c, first_rows(sum[p][c], sum[p][c + 1]) * scale);
          V::store(to + tile_keys + 2 * c, second_rows(sum[p][c], sum[p][c + 1]) * scale);
        }
      }
    }
  }

  /// Those of two rows, the second of which may be none.
  void round_weights(int row, int end, int pair, int count) const {
    bf16* to = s_.weights + int64_t{pair} * quads * square;
    const float *const a = scores_of(row), *const b = scores_of(row + 1);
    for (int quad = 0; quad < count; ++quad, to += square) {
      const F scale = V::load(s_.value_scales + 4 * quad);
      const F second = row + 1 < end ? V::load(b + 4 * quad) * scale : F{};
      store(to, I::template rounded_rows<H>(V::load(a + 4 * quad) * scale, second));
    }
  }

  template <int Pairs>
  void value_pairs(float* output, int row, int end, int pair, int count) const {
    constexpr int columns = 4;  // pairs of them
    constexpr int64_t stride = int64_t{quads} * square;
    for (int d = 0; d < problem_.v_head_size; d += 2 * columns) {
      F sum[Pairs][columns];
      for (int p = 0; p < Pairs; ++p) load_output(output, row + 2 * p, end, d, sum[p]);
      const bf16* weights = s_.weights + pair * stride;
      const bf16* value = s_.values + d / 2 * stride;
      for (int quad = 0; quad < count; ++quad, weights += square, value += square) {
        H v[columns];
        for (int c = 0; c < columns; ++c) v[c] = load(value + c * stride);
        for (int p = 0; p < Pairs; ++p) {
          const H w = load(weights + p * stride);
          for (int c = 0; c < columns; ++c) sum[p][c] = I::multiply_squares(sum[p][c], w, v[c]);
        }
      }
      for (int p = 0; p < Pairs; ++p) store_output(output, row + 2 * p, end, d, sum[p]);
    }
  }
  void load_output(const float* output, int row, int end, int d, F (&sum)[4]) const {
    const float* const a = output + int64_t{row} * width_ + d;
    for (int c = 0; c < 4; c += 2) {
      const F x = V::load(a + 2 * c) * s_.rescale[row];
      const F y = row + 1 < end ? V::load(a + width_ + 2 * c) * s_.rescale[row + 1] : F{};
      sum[c] = first_rows(x, y);
      sum[c + 1] = second_rows(x, y);
    }
  }
  void store_output(float* output, int row, int end, int d, const F (&sum)[4]) const {
    float* const a = output + int64_t{row} * width_ + d;
    for (int c = 0; c < 4; c += 2) {
      V::store(a + 2 * c, first_rows(sum[c], sum[c + 1]));
      if (row + 1 < end) V::store(a + width_ + 2 * c, second_rows(sum[c], sum[c + 1]));
    }
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const Memory s_;
  const int width_;
  const int head_pairs_;
};

}  // namespace folio::inline v1::portable
