// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/engine.h: the engine of the AMX kernel for latent (MLA) heads: each row of
/// the cache is read once for K and V.
///
///     pass of up to 192 keys:  scores of all pairs of row tiles -> weights -> values, K and V
///                              being the rows where they lie
///
/// What is no matrix product is done between the steps of one: rows of the next pass are fetched,
/// the softmax of a pair is computed during the scores of the next, V is staged a chunk ahead of
/// its use. Rows are independent of one another and of the place they have in a task: per_query.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent/fetch.h"
#include "cpu/amx/latent/keys.h"
#include "cpu/amx/latent/layout.h"
#include "cpu/amx/latent/products.h"
#include "cpu/amx/latent/queries.h"
#include "cpu/amx/latent/softmax.h"
#include "cpu/amx/latent/values.h"
#include "cpu/amx/tile/tile.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/state_math.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1::amx {

template <class I, class S>
class LatentEngine : public LatentMemory<S> {
 public:
  using Sizes = S;
  using InstructionSet = I;
  using Math = softmax::StateMath<I, typename LatentSoftmax<I, S>::Units>;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }

  LatentEngine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        scratch_(memory),
        softmax_(view, scratch_),
        head_state_rows_(static_cast<int>(skeleton::round_up(view.head_rows, tile_rows))),
        pairs_((head_state_rows_ + Sizes::pair_rows - 1) / Sizes::pair_rows),
        is_staged_(uses_staged_values(view.problem)),
        queries_(view, scratch_.queries, head_state_rows_),
        keys_(view, scratch_.stages) {
    // What is read 2 bytes before a tile of weights is the last word of the tile before it.
    for (int64_t end = 0; end <= Sizes::pairs_max * Sizes::pair_weight_bytes;
         end += operand_tile_bytes)
      scratch_.weights[end - 1] = scratch_.weights[end - 2] = std::byte{0};
  }

  static int tiles_at_once() { return Sizes::pass_tiles; }
  static bool begins_rows() { return false; }
  [[nodiscard]] int state_row(int r) const {
    if (mutant() == Mutant::heads_interleaved)
      return r % view_.task.heads * head_state_rows_ + r / view_.task.heads;
    return r / view_.head_rows * head_state_rows_ + r % view_.head_rows;
  }

  void load_queries() const { queries_.load(); }

  void run(const skeleton::State& state, KeyTile* const* tiles, int count, int known) {
    const int next = known - count < Sizes::pass_tiles ? known - count : Sizes::pass_tiles;
    for (int h = 0; h < view_.task.heads; ++h) {
      keys_.load(tiles, count, h);
      if (h + 1 < view_.task.heads) {
        begin_fetch(tiles, count, count, view_.task.head + h + 1);
      } else {
        begin_fetch(tiles + count, next, count, view_.task.head);
      }
      pass(state, tiles, count, h);
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[Sizes::v_depth];
    for (int d = 0; d < Sizes::v_depth; d += 32)
      Output::natural_order(output + d, is_staged_, factor, row + d);
    Rows<I>::narrow(view_.problem.out_dtype, row, to, view_.problem.v_head_size);
  }

 private:
  using Tile = typename I::Tile;
  using Products = LatentProducts<Tile, Sizes>;
  using Output = LatentOutput<I, Sizes>;

  /// What products do between their steps: they fetch, and every few steps do a step of side work.
  enum class SideWork : uint8_t { none, softmax, values };
  struct Work {
    LatentEngine& engine;
    SideWork side;
    int period;  // steps for a unit
    int wait = 1;

    FOLIO_ALWAYS_INLINE void fetch() { engine.fetch_.step(); }
    FOLIO_ALWAYS_INLINE void step() {
      fetch();
      if (side == SideWork::none || --wait != 0) return;
      wait = period;
      if (side == SideWork::softmax && engine.softmax_.steps_left() != 0) engine.softmax_.step();
      if (side == SideWork::values && !engine.values_.is_done()) engine.values_.step();
    }
  };

  [[nodiscard]] int row_tiles_of(int pair) const {
    return head_state_rows_ - pair * Sizes::pair_rows > tile_rows ? 2 : 1;
  }
  [[nodiscard]] std::byte* weights_of(int pair) const {
    return scratch_.weights + pair * Sizes::pair_weight_bytes;
  }
  [[nodiscard]] float* factors_of(int pair) const {
    return scratch_.factors + pair * Sizes::pass_tiles * Sizes::pair_rows;
  }

  /// Begins to fetch tiles, as much at each step of this pass's products as it takes to be through
  /// in time.
  void begin_fetch(KeyTile* const* tiles, int tiles_to_fetch, int tiles_of_pass, int head) {
    const int columns = is_staged_ ? Sizes::chunks : 2 * Sizes::chunks;
    fetch_.begin(view_.args.key, tiles, tiles_to_fetch, head,
                 pairs_ * tiles_of_pass * 4 * (Sizes::k_steps + columns));
  }

  // ---- a pass over up to 192 keys for one head

  void pass(const skeleton::State& state, KeyTile* const* tiles, int count, int head) {
    const int first_state_row = head * head_state_rows_;
    int turn = 0;
    for (uint32_t& tiles_of_pair : rescaled_) tiles_of_pair = 0;
    for (int p = 0; p < pairs_; ++p) {
      const int state_row = first_state_row + p * Sizes::pair_rows;
      const int64_t tile_weights = (is_staged_ ? 4 : 8) * operand_tile_bytes;
      for (int t = 0; t < count; ++t, turn ^= 1) {
        scores(t, queries_.tiles_of(state_row), row_tiles_of(p), scratch_.scores[turn]);
        finish_softmax();
        softmax_pair_ = p;
        softmax_tile_ = t;
        softmax_.begin({tiles[t], scratch_.scores[turn], state.maximum + state_row,
                        state.denominator + state_row, weights_of(p) + t * tile_weights,
                        factors_of(p) + t * Sizes::pair_rows,
                        head * view_.head_rows + p * Sizes::pair_rows, (head + 1) * view_.head_rows,
                        row_tiles_of(p)});
      }
    }
    finish_softmax();
    float* const output = state.output + int64_t{first_state_row} * Sizes::width;
    if (is_staged_) {
      values_staged(output, count);
    } else {
      for (int p = 0; p < pairs_; ++p)
        values_in_place(output + int64_t{p} * Sizes::pair_rows * Sizes::width, count, p);
    }
  }

  /// Scores of a tile of keys for a pair of row tiles, and the softmax that has begun.
  void scores(int tile, const std::byte* queries, int row_tiles, float* to) {
    const int steps = softmax_.steps_left();
    const int period = steps != 0 ? 2 * Sizes::k_steps / steps : 1;
    Work work{*this, steps != 0 ? SideWork::softmax : SideWork::none, period, period};
    if (row_tiles == 2) {
      Products::template scores<2>(keys_.groups() + tile * 4, queries, to, work);
    } else {
      Products::template scores<1>(keys_.groups() + tile * 4, queries, to, work);
    }
  }

  void finish_softmax() {
    while (softmax_.steps_left() != 0) softmax_.step();
    if (softmax_.is_rescaled) rescaled_[softmax_pair_] |= 1u << softmax_tile_;
    softmax_.is_rescaled = false;
  }

  /// Calls multiply(begin, end) for the tiles of the pass; where the maximum of a row moved,
  /// columns [0, n) of the pair's output are rescaled before that tile's values join them.
  template <class Multiply>
  void for_each_stretch(int pair, int count, float* output, int n, const Multiply& multiply) const {
    int begin = 0;
    for (uint32_t left = rescaled_[pair]; left != 0; left &= left - 1) {
      const int tile = __builtin_ctz(left);
      if (begin != tile) multiply(begin, tile);
      Output::rescale(output, factors_of(pair) + tile * Sizes::pair_rows,
                      row_tiles_of(pair) * tile_rows, n);
      begin = tile;
    }
    multiply(begin, count);
  }

  void values_in_place(float* output, int count, int pair) {
    Work work{*this, SideWork::none, 1};
    for_each_stretch(pair, count, output, Sizes::v_depth, [&](int begin, int end) {
      const std::byte* const weights = weights_of(pair) + begin * 4 * Sizes::group_weight_bytes;
      for (int c = 0; c < Sizes::chunks; ++c) {
        if (row_tiles_of(pair) == 2) {
          Products::template values_in_place<2>(keys_.groups() + begin * 4, (end - begin) * 4, c,
                                                weights, output + c * 32, work);
        } else {
          Products::template values_in_place<1>(keys_.groups() + begin * 4, (end - begin) * 4, c,
                                                weights, output + c * 32, work);
        }
      }
    });
  }

  /// A chunk of columns for all pairs. Where the last pair has used a part of the stage, the next
  /// chunk's is put.
  void values_staged(float* output, int count) {
    values_.begin(keys_.groups(), count * 4, 0, scratch_.values);
    while (!values_.is_done()) values_.step();
    for (int c = 0; c < Sizes::chunks; ++c)
      for (int p = 0; p < pairs_; ++p) {
        const bool stages = p + 1 == pairs_ && c + 1 < Sizes::chunks;
        if (stages) values_.begin(keys_.groups(), count * 4, c + 1, scratch_.values);
        Work work{*this, stages ? SideWork::values : SideWork::none, 1};
        float* const block = output + int64_t{p} * Sizes::pair_rows * Sizes::width + c * 32;
        for_each_stretch(p, count, block, 32, [&](int begin, int end) {
          const std::byte* const staged = scratch_.values + begin * 4 * operand_tile_bytes;
          const std::byte* const weights = weights_of(p) + begin * 4 * operand_tile_bytes;
          if (row_tiles_of(p) == 2) {
            Products::template values_staged<2>(staged, (end - begin) * 2, weights, block, work);
          } else {
            Products::template values_staged<1>(staged, (end - begin) * 2, weights, block, work);
          }
        });
      }
  }

  const skeleton::TaskView& view_;
  const typename Sizes::Scratch scratch_;
  LatentSoftmax<I, Sizes> softmax_;
  LatentValues<I, Sizes> values_;
  const int head_state_rows_;  // rows of a head with padding
  const int pairs_;            // of row tiles of a head
  const bool is_staged_;
  const LatentQueries<I, Sizes> queries_;
  LatentKeys<I, Sizes> keys_;
  const TileScope<Tile> tiles_;
  // of each pair, bit t: rows are rescaled before tile t
  uint32_t rescaled_[Sizes::pairs_max] = {};
  int softmax_pair_ = 0;  // what softmax works on
  int softmax_tile_ = 0;
  LatentFetch<I, Sizes> fetch_;
};

/// Kernel::run and Kernel::finish for the sizes that hold the problem's.
template <class I>
void run_latent(const KernelCall& call, const Task& task, void* memory, std::byte* partials) {
  if (is_small_latent(call.problem->key.head_size, call.problem->v_head_size))
    return skeleton::TaskRunner<LatentEngine<I, SmallLatent>>::run(call, task, memory, partials);
  skeleton::TaskRunner<LatentEngine<I, LargeLatent>>::run(call, task, memory, partials);
}
template <class I>
void finish_latent(const KernelCall& call, const Task& task, void* memory,
                   const std::byte* partials) {
  if (is_small_latent(call.problem->key.head_size, call.problem->v_head_size))
    return skeleton::TaskRunner<LatentEngine<I, SmallLatent>>::finish(call, task, memory, partials);
  skeleton::TaskRunner<LatentEngine<I, LargeLatent>>::finish(call, task, memory, partials);
}

}  // namespace folio::inline v1::amx
