// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/engine.h: the engine of both AVX-512 kernels: one source for f32 and for pairs of
/// bf16.
///
/// A task's rows lie in blocks (layout.h) of one KV head. For each tile and head: rows of K and V
/// where they lie or staged (head_loader.h), then per block scores, weights, outputs; few rows of
/// all heads together where they lie side by side (few_heads.h). The next head's or tile's rows are
/// staged between the products of the first block. Rows do not influence one another and every
/// product adds in one order: per_query. ISA-safe: templates on a tag type.
#pragma once

#include <type_traits>

#include "cpu/avx512/few_heads.h"
#include "cpu/avx512/head_loader.h"
#include "cpu/avx512/products.h"
#include "cpu/avx512/queries.h"
#include "cpu/avx512/softmax.h"
#include "cpu/avx512/upcoming.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/lane_rows.h"
#include "cpu/softmax/state_math.h"
#include "cpu/softmax/terms.h"

namespace folio::inline v1::avx512 {

template <class I>
class Engine : public Layout<I::per_word> {
 public:
  using Base = Layout<I::per_word>;
  using InstructionSet = I;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }
  struct Math : softmax::StateMath<I, skeleton::Log2Units> {
    static float exp(float x) { return exp2_one(x); }
  };

  Engine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        s_(Base::scratch_at(memory, view.problem)),
        steps_(Base::steps(problem_)),
        width_(Base::width(problem_)),
        is_few_(view.head_rows <= Base::few_rows),
        padded_rows_(Base::padded_rows(view.head_rows)),
        factor_(__builtin_fabsf(problem_.scale)),
        queries_(view, s_.q),
        has_key_scales_(HeadLoader<I>::is_per_row(view.args.key)),
        has_value_scales_(!problem_.value_in_key && HeadLoader<I>::is_per_row(view.args.value)),
        upcoming_(view, is_few_),
        loader_(view, s_, is_few_),
        few_(view, s_, queries_,
             {.key = loader_.key_type(),
              .value = loader_.value_type(),
              .scales = {.keys = has_key_scales_ ? s_.key_scales : nullptr,
                         .values = has_value_scales_                          ? s_.value_scales
                                   : problem_.value_in_key && has_key_scales_ ? s_.key_scales
                                                                              : nullptr}}) {}

  static int tiles_at_once() { return 1; }
  static bool begins_rows() { return true; }
  [[nodiscard]] int state_row(int r) const { return view_.padded_row(r, padded_rows_, mutant()); }

  void load_queries() const { queries_.load(s_.keys); }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    const KeyTile* const next = known > 1 ? tiles[1] : nullptr;
    if (loaded_ != &tile) {
      loader_.begin(tile, 0);
      if (loader_.is_in_place() && upcoming_.is_by_tile()) {  // all heads at once
        upcoming_.begin_tile(tile, next, few_.is_one_go());
        return few_.attend_together(state, loader_.begun(tile), upcoming_);
      }
      loader_.finish();
    }
    const int heads = view_.task.heads;
    const KeyTile* const after = upcoming_.is_by_tile() ? nullptr : next;
    for (int h = 0; h < heads; ++h) {
      loader_.advance();
      few_.gather_scales(tile, h, 0);
      loaded_ = h + 1 < heads ? &tile : after;
      if (loaded_ != nullptr) loader_.begin(*loaded_, h + 1 < heads ? h + 1 : 0);
      request(next, h);
      attend(state, loader_.computed(tile), h);
      loader_.finish();
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    if constexpr (I::per_word == 2) {
      if (problem_.out_dtype == DType::bf16 && width_ == problem_.v_head_size &&
          I::natural_bf16(output, factor, to, width_))
        return;
    }
    alignas(64) float row[576];
    I::natural_order(output, factor, row, width_);
    Rows<I>::narrow(problem_.out_dtype, row, to, problem_.v_head_size);
  }

 private:
  using P = Products<I>;
  using S = Softmax<I>;
  using Base::row_block;
  static constexpr int masked_rows = Tuning<I::per_word>::masked_rows;

  /// Says what comes after head h: the stage being loaded, and the next tile.
  void request(const KeyTile* next, int h) {
    if (!upcoming_.is_fetching()) return;
    const bool is_known = loaded_ != nullptr;
    upcoming_.begin(is_known ? loader_.key_lines() : nullptr,
                    is_known ? loader_.value_lines() : nullptr, loaded_, next, h);
  }

  void attend(const skeleton::State& state, const FewTile& at, int h) {
    if (is_few_) {
      for (int i = 0; loader_.is_loading() && i < TileGroups::num_groups; ++i) loader_.step();
      return few_.attend(state, at, h, upcoming_);
    }
    for (int begin = 0; begin < view_.head_rows; begin += row_block) {
      const int end = begin + row_block < view_.head_rows ? begin + row_block : view_.head_rows;
      const skeleton::Coverage covered = view_.coverage(begin, end, at.tile, mutant());
      if (covered == skeleton::Coverage::none) continue;
      if (covered == skeleton::Coverage::all) {
        attend_rows(state, at, h, begin, end, false);
      } else {
        for (int part = begin; part < end; part += masked_rows)
          attend_rows(state, at, h, part, part + masked_rows < end ? part + masked_rows : end,
                      true);
      }
    }
  }

  /// Local rows [begin, end) of a block. Those that see nothing of the tile keep their state.
  void attend_rows(const skeleton::State& state, const FewTile& at, int h, int begin, int end,
                   bool is_masked) {
    const int vectors = (end - begin + lanes - 1) / lanes;
    int keys = tile_keys;
    if (is_masked) {
      const uint64_t any = find_seen(at.tile, begin, end);
      if (any == 0) return;
      keys =
          static_cast<int>(skeleton::round_up(64 - __builtin_clzll(any), P::keys_beside(vectors)));
    }
    TrailingWeights<I> trail;
    const bool trails = !is_masked && can_trail(begin, end) &&
                        trail.begin(column(state, h, begin, row_block, keys), s_.denominators);
    score(at.keys, h, begin, vectors, keys, trails ? &trail : nullptr);
    if (!trails || !trail.finish(s_.highest)) {
      for (int v = 0; v < vectors; ++v)
        weigh(state, at.tile, h, begin + v * lanes, end, v, keys, is_masked);
    }
    P::values(s_.weights, at.values, keys,
              state.output + int64_t{h * padded_rows_ + begin} * width_, end - begin, width_);
  }

  /// What each of the local rows [begin, end) sees of the tile, which follows from its token, and
  /// what any does; nothing beside them.
  uint64_t find_seen(const KeyTile& tile, int begin, int end) {
    int left = view_.group - (view_.task.row_begin + begin) % view_.group;  // of the token's rows
    uint64_t seen = view_.seen_by_row(begin, tile, mutant()), any = seen;
    for (int r = begin; r < end; ++r, --left) {
      if (left == 0) {
        any |= seen = view_.seen_by_row(r, tile, mutant());
        left = view_.group;
      }
      seen_[r - begin] = seen;
    }
    for (int i = end - begin; i % lanes != 0; ++i) seen_[i] = 0;
    return any;
  }

  /// Whether weights are made of products alone.
  [[nodiscard]] bool can_trail(int begin, int end) const {
    return P::can_trail && end - begin == row_block && !has_key_scales_ && !has_value_scales_ &&
           !view_.has_terms;
  }

  /// trail: weighs what is scored, all but the last keys; or null.
  void score(const TileRows* groups, int h, int begin, int vectors, int keys,
             TrailingWeights<I>* trail) {
    const QueryRows rows = queries_.rows(h, begin);
    ScoreCall<I> call;
    call.trail = trail;
    call.q = rows.words;
    call.q_stride = rows.stride;
    call.steps = steps_;
    call.highest = s_.highest;
    for (int v = 0; v < vectors; ++v)
      _mm512_store_ps(s_.highest + v * lanes, splat(minus_infinity));
    const int together = P::keys_beside(vectors);
    Pace pace = upcoming_.beside_scores(view_.head_rows <= row_block,
                                        P::score_steps(vectors, keys, steps_));
    call.pace = &pace;
    for (int k = 0; k < keys; k += together) {
      const TileRows* const group = groups + k / TileGroups::group_rows;
      call.keys = *group;
      call.keys.data += k % TileGroups::group_rows * call.keys.stride_bytes;
      call.to = s_.scores + k * row_block;
      if (!P::is_paced(vectors)) pace.step();
      if (trail != nullptr && k > 0) {
        P::scores_and_weights(call);
        trail->advance();
      } else {
        P::scores(vectors, call);
      }
      loader_.step();
    }
  }

  /// The sixteen rows from `first` on, vector `v` of the block's scores.
  void weigh(const skeleton::State& state, const KeyTile& tile, int h, int first, int end, int v,
             int keys, bool is_masked) {
    float* const scores = s_.scores + v * lanes;
    if (has_key_scales_) S::scale(s_.key_scales, scores, keys);
    Column c = column(state, h, first, end - first < lanes ? end - first : lanes, keys);
    if (view_.has_terms) add_terms(tile, h, first, c.rows, scores, keys);
    if (is_masked) mask(scores, keys, seen_ + v * lanes);
    if (!is_masked && !has_key_scales_ && !view_.has_terms) c.highest = s_.highest + v * lanes;
    c.scores += v * lanes;
    c.weights += v * lanes;
    S::weigh(c);
  }
  [[gnu::noinline]] static void mask(float* scores, int keys, const uint64_t* seen) {
    softmax::LaneRows<I>{scores, row_block, keys}.hide(seen);
  }
  /// Local rows from `first` on and their state; scores and weights of the block's first rows.
  [[nodiscard]] Column column(const skeleton::State& state, int h, int first, int rows,
                              int keys) const {
    Column c;
    c.scores = s_.scores;
    c.weights = s_.weights;
    c.rows = rows;
    c.written = static_cast<int>(skeleton::round_up(rows, 4));
    c.keys = keys;
    c.factor = view_.has_terms ? 1.0f : factor_ * log2_e;
    c.value_scales = has_value_scales_                          ? s_.value_scales
                     : problem_.value_in_key && has_key_scales_ ? s_.key_scales
                                                                : nullptr;
    const int64_t at = h * padded_rows_ + first;
    c.maximum = state.maximum + at;
    c.denominator = state.denominator + at;
    c.output = state.output + at * width_;
    c.width = width_;
    return c;
  }

  void add_terms(const KeyTile& tile, int h, int first, int rows, float* scores, int keys) const {
    const auto terms_of = [&](int r) {
      return view_.terms_of(h * view_.head_rows + first + (r < rows ? r : 0), tile.first, mutant());
    };
    softmax::Terms<I, skeleton::Log2Units>::of_rows(scores, row_block, keys, factor_, terms_of);
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const Scratch s_;
  const int steps_;
  const int width_;
  const bool is_few_;
  const int padded_rows_;  // of each head
  const float factor_;
  const Queries<I> queries_;
  const bool has_key_scales_;  // applied to scores and weights
  const bool has_value_scales_;
  Upcoming upcoming_;
  HeadLoader<I> loader_;
  FewHeads<I> few_;
  const KeyTile* loaded_ = nullptr;  // what the loader has begun, for the head that comes next
  uint64_t seen_[row_block];
};

}  // namespace folio::inline v1::avx512
