// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/integer_engine.h: the engine of the kernel that multiplies integers: K and V of
/// i8 as they are stored, q and weights rounded to 8 bits.
///
/// Scales of K multiply sums, those of V weights before they are rounded. A task's rows lie in
/// blocks of 8 of one KV head; for each tile and head the products of each block are requested
/// beside (upcoming.h) what the next head or tile needs. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/integer_products.h"
#include "cpu/avx512/integer_rounding.h"
#include "cpu/avx512/output.h"
#include "cpu/avx512/row_loader.h"
#include "cpu/avx512/upcoming.h"
#include "cpu/convert/row_scales.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/state_math.h"
#include "cpu/softmax/terms.h"

namespace folio::inline v1::avx512 {

template <class I>
class IntegerEngine : public IntegerLayout {
 public:
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }
  struct Math : softmax::StateMath<I, skeleton::Log2Units> {
    static float exp(float x) { return exp2_one(x); }
  };

  IntegerEngine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        s_(scratch_at(memory, view.problem)),
        chunks_(problem_.key.head_size / chunk),
        width_(width(problem_)),
        is_few_(view.head_rows <= block_rows),
        padded_rows_(static_cast<int>(skeleton::round_up(view.head_rows, block_rows))),
        products_rows_(is_few_ ? few_padded(view.head_rows) : block_rows),
        has_value_scales_(view.args.value.scales.data != nullptr),
        upcoming_(view, is_few_),
        keys_(plane(view.args.key), view.batch.table, options(problem_.key.head_size), s_.keys),
        values_(plane(view.args.value), view.batch.table, options(width_), s_.values) {
    for (int k = 0; k < tile_keys; k += lanes) _mm512_store_ps(s_.key_scales + k, splat(1.0f));
  }

  static int tiles_at_once() { return 1; }
  static bool begins_rows() { return true; }
  [[nodiscard]] int state_row(int r) const { return view_.padded_row(r, padded_rows_, mutant()); }

  void load_queries() const {
    const int columns = problem_.key.head_size;
    __builtin_memset(s_.q, 0, static_cast<size_t>(view_.task.heads * padded_rows_ * columns) * 4);
    const float sign = problem_.scale < 0.0f ? -1.0f : 1.0f;
    const auto widen = Rows<I>::template row_to<float>(problem_.q_dtype);
    for (skeleton::RowWalk at(view_); at.row < view_.rows; at.next()) {
      widen(view_.query(at.token, at.q_head), s_.row, columns);
      const int row = at.row / view_.head_rows * padded_rows_ + at.row % view_.head_rows;
      int32_t sum = 0;
      s_.steps[row] = IntegerRounding<I>::query(s_.row, columns, sign, s_.bytes_of_row, sum);
      s_.corrections[row] = -128 * sum;
      Products::pack_query(s_.bytes_of_row, chunks_, products_rows_, row % block_rows,
                           query_block(row / block_rows * block_rows));
    }
  }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    const KeyTile* const next = known > 1 ? tiles[1] : nullptr;
    if (loaded_ != &tile) bring(tile, 0, stage_ ^ 1);
    const int heads = view_.task.heads;
    for (int h = 0; h < heads; ++h) {
      stage_ ^= 1;
      gather_scales(tile, h);
      loaded_ = h + 1 < heads ? &tile : next;
      if (loaded_ != nullptr) bring(*loaded_, h + 1 < heads ? h + 1 : 0, stage_ ^ 1);
      if (upcoming_.is_fetching())
        upcoming_.begin(loaded_ != nullptr ? &keys_.fetches(stage_ ^ 1) : nullptr,
                        loaded_ != nullptr ? &values_.fetches(stage_ ^ 1) : nullptr, loaded_, next,
                        h);
      for (int begin = 0; begin < view_.head_rows; begin += block_rows) {
        const int end = begin + block_rows;
        attend(state, tile, h, begin, end < view_.head_rows ? end : view_.head_rows);
      }
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[head_size_max];
    Products::natural_order(output, factor, row, width_);
    Rows<I>::narrow(problem_.out_dtype, row, to, problem_.v_head_size);
  }

 private:
  using Products = IntegerProducts<I>;

  static PagedKVView plane(PagedKVView view) {
    view.scales = {};
    return mutant() == Mutant::dense_page_stride ? with_dense_pages(view) : view;
  }
  [[nodiscard]] static RowOptions options(int columns) {
    return {.read_as_vectors = columns, .is_as_stored = true};
  }
  /// Of the block that begins with row `row` of the state.
  [[nodiscard]] int8_t* query_block(int row) const {
    return s_.q + int64_t{row} * problem_.key.head_size * 4;
  }

  void bring(const KeyTile& tile, int h, int stage) {
    if (keys_.begin(tile, view_.task.head + h, stage)) keys_.finish();
    if (values_.begin(tile, view_.task.head + h, stage)) values_.finish();
  }

  /// Brings the scales of head h.
  [[gnu::noinline]] void gather_scales(const KeyTile& tile, int h) const {
    const auto bring_scales = [&](const PagedKVView& view, float* to) {
      if (view.scales.data != nullptr) RowScales<I>::gather(view, tile, view_.task.head + h, to);
    };
    bring_scales(view_.args.key, s_.key_scales);
    bring_scales(view_.args.value, s_.value_scales);
  }

  /// Local rows [begin, end) of a head, a block. Those that see nothing keep their state.
  void attend(const skeleton::State& state, const KeyTile& tile, int h, int begin, int end) {
    const skeleton::Coverage covered = view_.coverage(begin, end, tile, mutant());
    if (covered == skeleton::Coverage::none) return;
    uint64_t seen[block_rows], any = 0;
    for (int r = begin; r < end; ++r) {
      seen[r - begin] =
          covered == skeleton::Coverage::all ? ~uint64_t{0} : view_.seen_by_row(r, tile, mutant());
      any |= seen[r - begin];
    }
    if (any == 0) return;
    const int groups = (64 - __builtin_clzll(any) + lanes - 1) / lanes;
    const int first = h * padded_rows_ + begin;
    Pace pace = upcoming_.beside_scores(is_few_, Products::score_steps(groups, chunks_));
    Products::scores(products_rows_, groups,
                     {.q = query_block(first),
                      .corrections = s_.corrections + first,
                      .chunks = chunks_,
                      .groups = keys_.groups(stage_),
                      .key_scales = s_.key_scales,
                      .pace = &pace,
                      .to = s_.scores});
    bool has_negative = false;
    for (int r = begin; r < end; ++r)
      has_negative |= weigh(state, tile, h, r, r - begin, seen[r - begin]);
    multiply_values(state.output + int64_t{first} * width_, end - begin, groups * lanes,
                    has_negative);
  }

  /// Local row r, row i of its block.
  bool weigh(const skeleton::State& state, const KeyTile& tile, int h, int r, int i,
             uint64_t seen) const {
    const int at = h * padded_rows_ + r;
    IntegerRow row;
    row.logits = s_.scores + i * tile_keys;
    row.factor = s_.steps[at] * __builtin_fabsf(problem_.scale);
    if (view_.has_terms) {
      add_terms(tile, h, r, row.factor, row.logits);
      row.factor = 1.0f;
    } else {
      row.factor *= log2_e;
    }
    row.seen = seen;
    row.value_scales = has_value_scales_ ? s_.value_scales : nullptr;
    for (int sign = 0; sign < 2; ++sign) {
      row.weights[sign] = s_.weights[sign] + i * tile_keys;
      row.units[sign] = s_.units[sign] + i;
    }
    row.maximum = state.maximum + at;
    row.denominator = state.denominator + at;
    row.output = state.output + int64_t{at} * width_;
    row.width = width_;
    return IntegerRounding<I>::weigh(row);
  }
  [[gnu::noinline]] void add_terms(const KeyTile& tile, int h, int r, float factor,
                                   float* logits) const {
    const auto scale = [&](int) { return Simd<I>::splat(factor); };
    softmax::Terms<I, skeleton::Log2Units>::of_row(
        logits, scale, view_.terms_of(h * view_.head_rows + r, tile.first, mutant()));
  }

  void multiply_values(float* output, int rows, int keys, bool has_negative) {
    Pace pace = upcoming_.beside_values(Products::value_steps(products_rows_, keys, width_));
    for (int sign = 0; sign < (has_negative ? 2 : 1); ++sign)
      Products::values(products_rows_, {.weights = s_.weights[sign],
                                        .units = s_.units[sign],
                                        .rows = rows,
                                        .groups = values_.groups(stage_),
                                        .keys = keys,
                                        .width = width_,
                                        .pace = &pace,
                                        .output = output});
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const IntegerScratch s_;
  const int chunks_;
  const int width_;
  const bool is_few_;
  const int padded_rows_;    // of each head
  const int products_rows_;  // of a block
  const bool has_value_scales_;
  Upcoming upcoming_;
  Plane<I, true> keys_;
  Plane<I, false> values_;
  // what the stage after this one holds, for the head that comes next
  const KeyTile* loaded_ = nullptr;
  int stage_ = 1;
};

}  // namespace folio::inline v1::avx512
