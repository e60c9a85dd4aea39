// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/engine.h: the engine of the AMX kernel for grouped heads: rows of q against
/// K and V staged as B tiles.
///
///     few rows   tile of 64 keys, KV head:   stage K -> scores -> stage V -> weights -> values
///     many rows  tiles of 1,024 keys, KV head:   stage all -> for each 32 rows and tile: a job ->
///                                                attend_jobs
///
/// With few rows of a head, memory decides: K and V are staged in turn into the same 16 KB or so,
/// which stay in the first cache, and a pacer fetches the rows of the next head or tile through all
/// five steps. With many, staged tiles are used often and stay in the second cache. Rows are
/// independent of one another, of the place they have in a task, and both ways do the same
/// arithmetic: per_query. ISA-safe: templates on a tag type with a tile vocabulary.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/grouped/compute.h"
#include "cpu/amx/grouped/layout.h"
#include "cpu/amx/grouped/pace.h"
#include "cpu/amx/grouped/products.h"
#include "cpu/amx/grouped/queries.h"
#include "cpu/amx/grouped/stage.h"
#include "cpu/amx/tile/tile.h"
#include "cpu/avx512/output.h"
#include "cpu/convert/row_scales.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/state_math.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1::amx {

template <class I, class Sizes>
class GroupedEngine : public GroupedMemory<Sizes> {
 public:
  using InstructionSet = I;
  using Math = softmax::StateMath<I, skeleton::Log2Units>;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }

  GroupedEngine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        scratch_(memory),
        key_view_(view.args.key),
        value_view_(view.problem.value_in_key ? view.args.key : view.args.value),
        head_state_rows_(static_cast<int>(skeleton::round_up(view.head_rows, row_tile))),
        key_(key_view_, view.problem.key.head_size, scratch_.keys),
        value_(value_view_, view.problem.v_head_size,
               has_few_rows() ? scratch_.keys : scratch_.values),
        scale_((view.problem.scale < 0.0f ? -view.problem.scale : view.problem.scale) *
               skeleton::Log2Units::log2_e),
        tile_rows_(view.head_rows < row_tile ? view.head_rows : row_tile),
        tiles_(tile_rows_),
        queries_(view, scratch_.queries, head_state_rows_),
        pace_(view, head_state_rows_ / row_tile) {
    Tile::template zero<0>();  // keep_awake multiplies these before anything is loaded
    Tile::template zero<1>();
    Tile::template zero<7>();
    for (float& sum : scratch_.compute->sums) sum = 0.0f;
  }

  [[nodiscard]] int tiles_at_once() const { return has_few_rows() ? 1 : Scratch::tiles; }
  [[nodiscard]] bool begins_rows() const { return !has_few_rows(); }
  [[nodiscard]] int state_row(int r) const {
    return view_.padded_row(r, head_state_rows_, mutant());
  }

  void load_queries() const { queries_.load(); }

  void run(const skeleton::State& state, KeyTile* const* tiles, int count, int known) {
    if (const int64_t span = tiles[0]->first / skeleton::span_keys; span != span_) {
      span_ = span;
      for (bool& begun : begun_) begun = false;
    }
    for (int h = 0; h < view_.task.heads; ++h) {
      clear_padding(state, h);
      if (has_few_rows()) {
        pace_.begin(*tiles[0], known > 1 ? tiles[1] : nullptr, h);
        attend_few(state, *tiles[0], h);
        pace_.finish();
      } else {
        attend_many(state, tiles, count, h);
      }
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[Sizes::v_depth];
    for (int d = 0; d < Sizes::v_depth; d += 32)
      avx512::Output::unpacked(output + d, factor, row + d);
    Rows<I>::narrow(view_.problem.out_dtype, row, to, view_.problem.v_head_size);
  }

 private:
  using Tile = typename I::Tile;
  using Scratch = GroupedScratch<Sizes>;
  using Products = GroupedProducts<I, Sizes::depth, Sizes::v_depth>;
  using Weigher =
      Compute<Tile, Sizes::depth, Sizes::v_depth, row_tile, WeightLayout::beside_scores>;
  static constexpr int jobs_max = GroupedTuning::jobs_max;
  static_assert(int64_t{GroupedTuning::few_rows} * tile_keys * 4 <= sizeof ComputeScratch::scores,
                "few_rows: scores of all of them lie there at once");

  [[nodiscard]] bool has_few_rows() const { return head_state_rows_ <= GroupedTuning::few_rows; }
  [[nodiscard]] RowTile rows_at(const skeleton::State& state, int state_row) const {
    return {reinterpret_cast<const uint16_t*>(queries_.tiles_of(state_row)),
            state.output + int64_t{state_row} * Sizes::v_depth, state.maximum + state_row,
            state.denominator + state_row};
  }

  /// Rows that only fill the last tile of a head have a maximum, so that they are never done again.
  void clear_padding(const skeleton::State& state, int head) const {
    const int state_row = (head + 1) * head_state_rows_ - row_tile,
              rows = view_.head_rows - (head_state_rows_ - row_tile);
    const auto padding = static_cast<__mmask16>(0xffff << rows);
    _mm512_mask_storeu_ps(state.maximum + state_row, padding, _mm512_setzero_ps());
    _mm512_mask_storeu_ps(state.denominator + state_row, padding, _mm512_setzero_ps());
  }

  // ---- one tile, a few row tiles

  /// V takes K's place once the scores of all rows are known.
  void attend_few(const skeleton::State& state, const KeyTile& tile, int head) {
    const int kv_head = view_.task.head + head, state_row = head * head_state_rows_;
    StagedTile staged = gather_scales(tile, head, 0);
    std::byte* const keys_or_values = scratch_.keys;
    ComputeScratch& compute = *scratch_.compute;
    key_.load(tile, kv_head, 0, pace_.pacer, pace_.key);
    for (int row = 0; row < head_state_rows_; row += row_tile)
      Products::scores(queries_.tiles_of(state_row + row), keys_or_values,
                       compute.scores_of_few(row), pace_.pacer, pace_.scores);
    value_.load(tile, kv_head, 0, pace_.pacer, pace_.value);
    const bool is_whole = is_whole_for_all(tile);
    for (int row = 0; row < head_state_rows_; row += row_tile) {
      const int end = row + row_tile < view_.head_rows ? row + row_tile : view_.head_rows;
      staged.edge = is_whole ? nullptr : edge_of(tile, head, row, end, scratch_.edges);
      const RowTile rows = rows_at(state, state_row + row);
      keep_awake<I>();
      Weigher(scale_, compute).weigh_few({rows, staged}, row, tile_rows_);
      Products::values(compute.weights, keys_or_values, rows.output, pace_.pacer, pace_.values);
    }
  }

  // ---- many tiles, many row tiles

  void attend_many(const skeleton::State& state, KeyTile* const* tiles, int count, int head) {
    StagedTile staged[Scratch::tiles];
    for (int t = 0; t < count; ++t) {
      staged[t] = gather_scales(*tiles[t], head, t);
      key_.load(*tiles[t], view_.task.head + head, t, pace_.pacer, 0);
      value_.load(*tiles[t], view_.task.head + head, t, pace_.pacer, 0);
    }
    bool is_whole[Scratch::tiles];  // all rows see all of the tile, and nothing joins the scores
    for (int t = 0; t < count; ++t) is_whole[t] = is_whole_for_all(*tiles[t]);
    TileJob jobs[jobs_max];
    int count_of_jobs = 0, edges = 0;
    for (int row = 0; row < head_state_rows_; row += 2 * row_tile) {
      const bool is_half = head_state_rows_ - row <= row_tile;
      if (is_half) attend_jobs_of<2 * row_tile>(jobs, count_of_jobs, edges);
      const int end = row + 2 * row_tile < view_.head_rows ? row + 2 * row_tile : view_.head_rows;
      for (int t = 0; t < count; ++t) {
        const skeleton::Coverage coverage =
            is_whole[t] ? skeleton::Coverage::all : view_.coverage(row, end, *tiles[t], mutant());
        if (coverage == skeleton::Coverage::none) continue;
        if (count_of_jobs == jobs_max || edges == Scratch::edges_max) {
          if (is_half) {
            attend_jobs_of<row_tile>(jobs, count_of_jobs, edges);
          } else {
            attend_jobs_of<2 * row_tile>(jobs, count_of_jobs, edges);
          }
        }
        const int state_row = head * head_state_rows_ + row;
        TileJob& job = jobs[count_of_jobs++];
        job.rows = rows_at(state, state_row);
        job.tile = staged[t];
        job.is_first = !begun_[state_row / row_tile];
        begun_[state_row / row_tile] = true;
        if (coverage == skeleton::Coverage::all && !view_.has_terms) continue;
        job.tile.edge = edge_of(*tiles[t], head, row, end, scratch_.edges + edges++);
      }
      if (is_half) attend_jobs_of<row_tile>(jobs, count_of_jobs, edges);
    }
    attend_jobs_of<2 * row_tile>(jobs, count_of_jobs, edges);
  }

  /// Jobs are kept until there are enough of them: where they begin and end nothing overlaps.
  template <int Rows>
  void attend_jobs_of(const TileJob* jobs, int& count, int& edges) {
    if (count > 0)
      attend_jobs<Tile, Sizes::depth, Sizes::v_depth, Rows>(jobs, count, scale_, *scratch_.compute);
    count = edges = 0;
  }

  /// The tile in place t of scratch memory, with its scales.
  __attribute__((noinline)) StagedTile gather_scales(const KeyTile& tile, int head, int t) {
    const int kv_head = view_.task.head + head;
    StagedTile staged;
    staged.keys = reinterpret_cast<const uint16_t*>(scratch_.keys + t * Scratch::key_bytes);
    staged.values = reinterpret_cast<const uint16_t*>(scratch_.values + t * Scratch::value_bytes);
    if (key_view_.scales.data != nullptr) {
      RowScales<I>::gather(key_view_, tile, kv_head, scratch_.key_scales + t * tile_keys);
      staged.key_scales = scratch_.key_scales + t * tile_keys;
    }
    if (value_view_.scales.data != nullptr) {
      RowScales<I>::gather(value_view_, tile, kv_head, scratch_.value_scales + t * tile_keys);
      staged.value_scales = scratch_.value_scales + t * tile_keys;
    }
    return staged;
  }

  /// Of the local rows [begin, end), at `edge`. What a row sees follows from its token.
  const Edge* edge_of(const KeyTile& tile, int head, int begin, int end, Edge* edge) const {
    edge->has_terms = view_.has_terms;
    for (int i = end - begin; i < 2 * row_tile; ++i) {
      edge->seen[i] = 0;
      // compute adds the terms of rows that only fill a tile, too
      if (view_.has_terms) edge->terms[i] = {};
    }
    int left = view_.group - (view_.task.row_begin + begin) % view_.group;  // of the token's rows
    uint64_t seen = view_.seen_by_row(begin, tile, mutant());
    for (int r = begin; r < end; ++r, --left) {
      if (left == 0) {
        seen = view_.seen_by_row(r, tile, mutant());
        left = view_.group;
      }
      edge->seen[r - begin] = seen;
      if (!view_.has_terms) continue;
      edge->terms[r - begin] = view_.terms_of(head * view_.head_rows + r, tile.first, mutant());
      if (mutant() == Mutant::softcap_ignored) edge->terms[r - begin].softcap = 0.0f;
    }
    return edge;
  }
  /// All rows see the whole tile and nothing joins the scores.
  [[nodiscard]] bool is_whole_for_all(const KeyTile& tile) const {
    return !view_.has_terms &&
           view_.coverage(0, view_.head_rows, tile, mutant()) == skeleton::Coverage::all;
  }

  const skeleton::TaskView& view_;
  const Scratch scratch_;
  const PagedKVView& key_view_;
  const PagedKVView& value_view_;
  const int head_state_rows_;  // rows of a head with padding
  StagedPlane<I, true, Sizes::depth, Scratch::tiles> key_;
  StagedPlane<I, false, Sizes::v_depth, Scratch::tiles> value_;
  const float scale_;    // to log2 units
  const int tile_rows_;  // of an A operand that are computed
  const TileScope<Tile> tiles_;
  const GroupedQueries<I, Sizes> queries_;
  GroupedPace<I, Sizes, Products> pace_;
  int64_t span_ = -1;                         // of the tiles that ran last
  bool begun_[grouped_rows / row_tile] = {};  // row tiles that have had a job in it
};

/// Kernel::run and Kernel::finish for the sizes that hold the problem's, of one piece.
template <class I, Piece P>
void run_grouped(const KernelCall& call, const Task& task, void* memory, std::byte* partials) {
  visit_grouped_sizes(call.problem->key.head_size, call.problem->v_head_size, [&](auto sizes) {
    using Sizes = decltype(sizes);
    if constexpr (piece_of<Sizes> == P)
      skeleton::TaskRunner<GroupedEngine<I, Sizes>>::run(call, task, memory, partials);
  });
}
template <class I, Piece P>
void finish_grouped(const KernelCall& call, const Task& task, void* memory,
                    const std::byte* partials) {
  visit_grouped_sizes(call.problem->key.head_size, call.problem->v_head_size, [&](auto sizes) {
    using Sizes = decltype(sizes);
    if constexpr (piece_of<Sizes> == P)
      skeleton::TaskRunner<GroupedEngine<I, Sizes>>::finish(call, task, memory, partials);
  });
}

}  // namespace folio::inline v1::amx
