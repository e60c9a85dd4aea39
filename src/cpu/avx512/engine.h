// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/engine.h: the engine of both AVX-512 kernels: one source for f32 and for pairs of
/// bf16.
///
/// A task's rows lie in blocks (layout.h) of one KV head. For each tile and head: rows of K and V
/// where they lie or staged (row_loader.h), then per block scores, weights, outputs. The next
/// head's or tile's rows are staged between the products of the first block. Rows do not influence
/// one another and every product adds in one order: per_query. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/products.h"
#include "cpu/avx512/row_loader.h"
#include "cpu/avx512/softmax.h"
#include "cpu/avx512/upcoming.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1::avx512 {

template <class I>
class Engine : public Layout<I::per_word> {
 public:
  using Base = Layout<I::per_word>;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }
  struct Math {
    static float exp(float x) { return exp2_one(x); }
    using Units = skeleton::Log2Units;
    static void fold(float* to, const float* from, int n, float keep, float add) {
      for (int d = 0; d < n; d += lanes) {
        const __m512 kept = _mm512_mul_ps(_mm512_load_ps(to + d), splat(keep));
        __m512 part = _mm512_load_ps(from + d);
        if (mutant() == Mutant::partials_in_bf16) part = cut_to_bf16(part);
        _mm512_store_ps(to + d, _mm512_fmadd_ps(part, splat(add), kept));
      }
    }
  };

  Engine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        s_(Base::scratch_at(memory, view.problem)),
        steps_(Base::steps(problem_)),
        width_(Base::width(problem_)),
        is_few_(view.head_rows <= Base::few_rows),
        padded_rows_(static_cast<int>(skeleton::round_up(view.head_rows, lanes))),
        factor_(__builtin_fabsf(problem_.scale)),
        has_key_scales_(is_per_row(view.args.key)),
        has_value_scales_(!problem_.value_in_key && is_per_row(view.args.value)),
        upcoming_(view, is_few_),
        keys_(plane(view.args.key), view.batch.table,
              {problem_.value_in_key ? problem_.v_head_size : 0, upcoming_.is_fetching()}, s_.keys),
        values_(plane(problem_.value_in_key ? view.args.key : view.args.value), view.batch.table,
                {problem_.v_head_size, upcoming_.is_fetching()}, s_.values) {}

  static int tiles_at_once() { return 1; }
  static bool begins_rows() { return false; }
  [[nodiscard]] int state_row(int r) const {
    if (mutant() == Mutant::heads_interleaved)
      return r % view_.task.heads * padded_rows_ + r / view_.task.heads;
    return r / view_.head_rows * padded_rows_ + r % view_.head_rows;
  }

  void load_queries() const {
    __builtin_memset(
        s_.q, 0,
        static_cast<size_t>(view_.task.heads) * static_cast<size_t>(padded_rows_ * steps_) * 4);
    for (int r = 0; r < view_.rows; ++r) {
      const std::byte* words = view_.query(r);
      if constexpr (I::per_word == 1) {
        I::widen_query(problem_.q_dtype, words, s_.row, steps_);
        words = reinterpret_cast<const std::byte*>(s_.row);
      }
      const int h = r / view_.head_rows, local = r % view_.head_rows;
      pack_query(words, h, local);
    }
  }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    if (loaded_ != &tile) {
      begin(tile, 0);
      finish();
    }
    const int heads = view_.task.heads;
    for (int h = 0; h < heads; ++h) {
      stage_ ^= 1;
      key_groups_ = keys_.groups(stage_);
      value_groups_ = problem_.value_in_key ? key_groups_ : values_.groups(stage_);
      if (has_key_scales_) gather_scales(view_.args.key, tile, h, s_.key_scales);
      if (has_value_scales_) gather_scales(view_.args.value, tile, h, s_.value_scales);
      loaded_ = h + 1 < heads ? &tile : known > 1 ? tiles[1] : nullptr;
      if (loaded_ != nullptr) begin(*loaded_, h + 1 < heads ? h + 1 : 0);
      request(known > 1 ? tiles[1] : nullptr, h);
      attend(state, tile, h);
      finish();
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[576];
    I::natural_order(output, factor, row, width_);
    I::narrow_output(problem_.out_dtype, row, to, problem_.v_head_size);
  }

 private:
  using P = Products<I>;
  using S = Softmax<I>;
  using Base::row_block;
  static constexpr int masked_rows = Tuning<I::per_word>::masked_rows;

  /// Scales that a kernel of 16-bit operands can apply to scores and weights: they do not vary
  /// along the row.
  static bool is_per_row(const PagedKVView& view) {
    return I::per_word == 2 && view.scales.data != nullptr &&
           (view.scales.granularity >= view.head_size || view.scales.granule_stride_bytes == 0);
  }
  /// Without the scales that are not applied to elements.
  static PagedKVView plane(PagedKVView view) {
    if (is_per_row(view)) view.scales = {};
    return mutant() == Mutant::dense_page_stride ? with_dense_pages(view) : view;
  }
  [[nodiscard]] int64_t query_stride(int block) const {
    const int left = padded_rows_ - block * row_block;
    return left < row_block ? left : row_block;
  }
  [[nodiscard]] uint32_t* query_block(int head, int block) const {
    return s_.q + int64_t{head * padded_rows_ + block * row_block} * steps_;
  }

  /// The words of local row `row` of head h.
  void pack_query(const std::byte* words, int h, int row) const {
    const int block = row / row_block;
    const uint32_t sign = problem_.scale < 0.0f ? I::sign_bits : 0;
    if (is_few_) {
      uint32_t* const to = query_block(h, block) + int64_t{row} * 4;
      const int64_t four = int64_t{few_padded(view_.head_rows)} * 4;
      for (int i = 0; i < steps_; ++i)
        to[i / 4 * four + i % 4] = load_word(words + int64_t{i} * 4) ^ sign;
      return;
    }
    const int64_t stride = query_stride(block);
    uint32_t* const to = query_block(h, block) + row % row_block;
    for (int i = 0; i < steps_; ++i) to[i * stride] = load_word(words + int64_t{i} * 4) ^ sign;
  }

  /// Says what comes after head h: the stage being loaded, and the next tile.
  void request(const KeyTile* next, int h) {
    if (!upcoming_.is_fetching()) return;
    const bool is_known = loaded_ != nullptr;
    upcoming_.begin(is_known ? keys_.fetches(stage_ ^ 1) : nullptr,
                    is_known && !problem_.value_in_key ? values_.fetches(stage_ ^ 1) : nullptr,
                    next, h);
  }
  void begin(const KeyTile& tile, int h) {
    keys_.begin(tile, view_.task.head + h, stage_ ^ 1);
    if (!problem_.value_in_key) values_.begin(tile, view_.task.head + h, stage_ ^ 1);
    is_loading_ = true;
  }
  /// One piece of what comes next, of K and of V.
  void step() {
    if (!is_loading_) return;
    const bool more_keys = keys_.step(), more_values = !problem_.value_in_key && values_.step();
    is_loading_ = more_keys || more_values;
  }
  void finish() {
    while (is_loading_) step();
  }

  void gather_scales(const PagedKVView& view, const KeyTile& tile, int h, float* to) const {
    for (int k = 0; k < tile_keys; ++k) to[k] = 0.0f;
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      for (int i = 0; i < run.rows; ++i)
        if ((tile.seen >> (run.first + i) & 1) != 0)
          to[run.first + i] = PageCursor::scale(view, run, i, view_.task.head + h, 0);
    }
  }

  void attend(const skeleton::State& state, const KeyTile& tile, int h) {
    for (int begin = 0; begin < view_.head_rows; begin += row_block) {
      const int end = begin + row_block < view_.head_rows ? begin + row_block : view_.head_rows;
      const skeleton::Coverage covered = view_.coverage(begin, end, tile, mutant());
      if (covered == skeleton::Coverage::none) continue;
      if (covered == skeleton::Coverage::all) {
        attend_rows(state, tile, h, begin, end, false);
      } else {
        for (int part = begin; part < end; part += masked_rows)
          attend_rows(state, tile, h, part, part + masked_rows < end ? part + masked_rows : end,
                      true);
      }
    }
  }

  /// Local rows [begin, end) of a block. Those that see nothing of the tile keep their state.
  void attend_rows(const skeleton::State& state, const KeyTile& tile, int h, int begin, int end,
                   bool is_masked) {
    const int vectors = (end - begin + lanes - 1) / lanes;
    int keys = tile_keys;
    if (is_masked) {
      uint64_t any = 0;
      for (int r = 0; r < vectors * lanes; ++r) {
        seen_[r] = begin + r < end ? view_.seen_by_row(begin + r, tile, mutant()) : 0;
        any |= seen_[r];
      }
      if (any == 0) return;
      keys =
          static_cast<int>(skeleton::round_up(64 - __builtin_clzll(any), P::keys_beside(vectors)));
    }
    score(h, begin, vectors, keys);
    for (int v = 0; v < vectors; ++v)
      weigh(state, tile, h, begin + v * lanes, end, v, keys, is_masked);
    Pace pace = upcoming_.beside_values(P::value_steps(end - begin, keys, width_));
    P::values(s_.weights, value_groups_, keys,
              state.output + int64_t{h * padded_rows_ + begin} * width_, end - begin, width_, pace);
  }

  void score(int h, int begin, int vectors, int keys) {
    const int block = begin / row_block;
    ScoreCall call;
    call.q = query_block(h, block) + begin % row_block;
    call.q_stride = query_stride(block);
    call.steps = steps_;
    Pace pace = upcoming_.beside_scores(view_.head_rows <= row_block,
                                        P::score_steps(is_few_, keys, steps_));
    call.pace = &pace;
    int together = P::keys_beside(vectors);
    for (int k = 0; k < keys; k += together) {
      const TileRows* const group = key_groups_ + k / TileGroups::group_rows;
      call.keys = *group;
      call.keys.data += k % TileGroups::group_rows * call.keys.stride_bytes;
      call.to = s_.scores + k * row_block;
      if (is_few_) {
        const int groups =
            k + lanes < keys ? P::groups_beside(view_.head_rows, call.keys.stride_bytes) : 1;
        call.more = groups > 1 ? group[1] : TileRows{};
        together = groups * lanes;
        P::scores_of_few(view_.head_rows, call);
      } else {
        P::scores(vectors, call);
      }
      step();
    }
  }

  /// The sixteen rows from `first` on, vector `v` of the block's scores.
  void weigh(const skeleton::State& state, const KeyTile& tile, int h, int first, int end, int v,
             int keys, bool is_masked) {
    float* const scores = s_.scores + v * lanes;
    Column c;
    c.rows = end - first < lanes ? end - first : lanes;
    if (has_key_scales_) S::scale(s_.key_scales, scores, keys);
    c.factor = factor_ * log2_e;
    if (view_.has_terms) {
      add_terms(tile, h, first, c.rows, scores, keys);
      c.factor = 1.0f;
    }
    if (is_masked) S::mask(seen_ + v * lanes, scores, keys);
    c.scores = scores;
    c.weights = s_.weights + v * lanes;
    c.keys = keys;
    c.value_scales = has_value_scales_                          ? s_.value_scales
                     : problem_.value_in_key && has_key_scales_ ? s_.key_scales
                                                                : nullptr;
    const int64_t at = h * padded_rows_ + first;
    c.maximum = state.maximum + at;
    c.denominator = state.denominator + at;
    c.output = state.output + at * width_;
    c.width = width_;
    S::weigh(c);
  }

  void add_terms(const KeyTile& tile, int h, int first, int rows, float* scores, int keys) const {
    skeleton::LogitTerms terms[lanes];
    for (int r = 0; r < lanes; ++r)
      terms[r] = view_.terms_of(h * view_.head_rows + first + (r < rows ? r : 0), tile.first);
    S::add_terms(terms, factor_, scores, keys);
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const Scratch s_;
  const int steps_;
  const int width_;
  const bool is_few_;
  const int padded_rows_;  // of each head
  const float factor_;
  const bool has_key_scales_;  // applied to scores and weights
  const bool has_value_scales_;
  Upcoming upcoming_;
  Plane<I, true> keys_;
  Plane<I, false> values_;
  const TileRows* key_groups_ = nullptr;
  const TileRows* value_groups_ = nullptr;
  // what the stage after this one holds, for the head that comes next
  const KeyTile* loaded_ = nullptr;
  int stage_ = 1;
  bool is_loading_ = false;
  uint64_t seen_[row_block];
};

}  // namespace folio::inline v1::avx512
