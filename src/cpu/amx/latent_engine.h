// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent_engine.h: the engine of the AMX kernel for latent (MLA) heads: each row of the cache is read once for K and V.
///
///     K: multiplied where it lies (KVBuffer, staging is the page)     V: interleaved once per pass from the same rows
///     pass of up to 256 keys: scores of all row pairs -> weights -> values
///
/// What is no matrix product is done between the steps of one: rows of the next pass are fetched, V is staged during the first pair's
/// scores, the softmax of a pair during the scores of the next. Rows are independent of one another and of the place they have in a task:
/// per_query.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent_layout.h"
#include "cpu/amx/latent_products.h"
#include "cpu/amx/latent_softmax.h"
#include "cpu/amx/latent_values.h"
#include "cpu/amx/tile.h"
#include "cpu/convert_rows.h"
#include "cpu/mutant.h"
#include "cpu/skeleton/task_runner.h"
#include "folio/attention/kv_buffer.h"
#include "folio/attention/kv_buffer/in_place_loader.h"
#include "folio/attention/operand/view_operand.h"

namespace folio {
inline namespace v1 {
namespace amx {

/// KVBuffer's parameters: a tile of the pass that is worked on or of the next in each stage.
template <class I, class Sizes>
struct LatentKeys {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr int BN = tile_keys, BK = 32, depth = Sizes::depth, bk_smem = depth, reg_chunk_depth = BK;
  static constexpr int num_smem_stages = 2 * Sizes::pass_tiles;
  static constexpr bool transpose = true;
  static constexpr DType smem_dtype = DType::bf16;
  template <class Shape>
  using Loader = InPlaceLoader<Shape>;
};

/// What an instruction set's own type is derived from: it adds `Tile`.
struct LatentTarget {
  static constexpr int width = 16;  // floats per register
  static constexpr int score_vectors = 4;
  static constexpr Mutant mutant = Mutant::none;
  template <class F>
  static FOLIO_ALWAYS_INLINE F fma(F a, F b, F c) {
    return reinterpret_cast<F>(
        _mm512_maskz_fmadd_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
  }
};

template <class I, class S, DType Stored = DType::bf16>
class LatentEngine : public LatentMemory<S> {
 public:
  using Sizes = S;
  using Math = LatentMath<I>;
  static constexpr Mutant mutant = Mutant::none;

  LatentEngine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        scratch_(memory),
        softmax_(view, scratch_),
        operand_{view.args.key, view.batch.table, view.batch.context_lengths, 0},
        keys_(operand_, view.task.sequence, view.task.head, {reinterpret_cast<bf16*>(scratch_.stages), {}},
              view.sequence.context),
        head_places_(static_cast<int>(skeleton::round_up(view.head_rows, tile_rows))) {}

  static int tiles_at_once() { return Sizes::pass_tiles; }
  [[nodiscard]] int place(int r) const { return r / view_.head_rows * head_places_ + r % view_.head_rows; }

  /// Queries as B tiles; lanes without a row are zero.
  void load_queries() {
    const int sign = view_.problem.scale < 0.0f ? static_cast<int>(0x80008000u) : 0;
    const int row_bytes = view_.problem.key.head_size * 2;
    for (int h = 0; h < view_.task.heads; ++h)
      for (int first = 0; first < view_.head_rows; first += tile_rows)
        for (int step = 0; step < Sizes::k_steps; ++step) {
          __m512i rows[tile_rows];
          for (int i = 0; i < tile_rows; ++i) {
            const int count = first + i < view_.head_rows ? row_bytes - step * 64 : 0;
            const std::byte* const query = count > 0 ? view_.query(h * view_.head_rows + first + i) + step * 64 : nullptr;
            rows[i] = count > 0 ? _mm512_maskz_xor_epi32(0xffff, load_bytes(query, count), _mm512_set1_epi32(sign))
                                : _mm512_setzero_si512();
          }
          transpose_dwords(rows);
          std::byte* const to = queries_of(h * head_places_ + first) + step * operand_tile_bytes;
          for (int i = 0; i < tile_rows; ++i) _mm512_store_si512(to + i * 64, rows[i]);
        }
  }

  void run(const skeleton::State& state, KeyTile* const* tiles, int count, int known) {
    for (int h = 0; h < view_.task.heads; ++h) {
      if (!is_loaded(tiles, count, h)) {
        begin_loads(tiles, count, h);
        finish_loads();
      }
      bank_ ^= 1;  // what was loaded is now computed on
      if (h + 1 < view_.task.heads) {
        begin_loads(tiles, count, h + 1);
      } else {
        begin_loads(tiles + count, known - count < Sizes::pass_tiles ? known - count : Sizes::pass_tiles, 0);
      }
      pass(state, tiles, count, h);
      finish_loads();
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[Sizes::v_depth];
    for (int d = 0; d < Sizes::v_depth; d += 32) ValueTiles<I, Sizes>::natural_order(output + d, factor, row + d);
    Rows<I>::narrow(view_.problem.out_dtype, row, to, view_.problem.v_head_size);
  }

 private:
  using Operand = ViewMHAOperand<Stored>;
  using Keys = KVBuffer<Operand, LatentKeys<I, Sizes>>;
  using Tile = typename I::Tile;
  using Products = LatentProducts<Tile, Sizes>;

  /// What products do between their steps.
  struct Work {
    LatentEngine& engine;
    enum class Job : uint8_t { none, values, softmax } job;
    int period;  // steps of the product for a unit of the job
    int wait = 1;

    FOLIO_ALWAYS_INLINE void step() {
      engine.load_some();
      if (job == Job::none || --wait != 0) return;
      wait = period;
      if (job == Job::values && !engine.values_.is_done()) engine.values_.step();
      if (job == Job::softmax && !engine.softmax_.is_done()) engine.softmax_.step();
    }
  };
  using Job = typename Work::Job;

  [[nodiscard]] std::byte* queries_of(int place) const { return scratch_.queries + place / tile_rows * Sizes::query_tile_bytes; }

  // ---- loading: bank_ ^ 1 is being loaded, bank_ is computed on

  [[nodiscard]] bool is_loaded(KeyTile* const* tiles, int count, int head) const {
    if (load_head_ != head || load_count_ < count) return false;
    for (int i = 0; i < count; ++i)
      if (load_tiles_[i] != tiles[i]) return false;
    return true;
  }
  void begin_loads(KeyTile* const* tiles, int count, int head) {
    for (int i = 0; i < count; ++i) load_tiles_[i] = tiles[i];
    load_count_ = count;
    load_head_ = head;
    load_next_ = 0;
    is_loading_ = false;
    load_wait_ = 1;
  }
  /// One row of the next pass every few steps.
  FOLIO_ALWAYS_INLINE void load_some() {
    if (--load_wait_ != 0) return;
    load_wait_ = load_period_;
    load_row();
  }
  __attribute__((noinline)) bool load_row() {
    if (is_loading_ && keys_.load_from_dram_step()) return true;
    if (load_next_ == load_count_) {
      is_loading_ = false;
      return false;
    }
    keys_.kv_cache_iter.set_tile(*load_tiles_[load_next_], view_.task.head + load_head_);
    keys_.begin_load((bank_ ^ 1) * Sizes::pass_tiles + load_next_);
    ++load_next_;
    is_loading_ = true;
    return keys_.load_from_dram_step();
  }
  void finish_loads() {
    while (load_row()) {}
  }

  // ---- a pass over up to 256 keys for one head

  void pass(const skeleton::State& state, KeyTile* const* tiles, int count, int head) {
    TileRows groups[Sizes::pass_tiles][4];
    for (int t = 0; t < count; ++t)
      for (int g = 0; g < 4; ++g) groups[t][g] = keys_.loader().group(bank_ * Sizes::pass_tiles + t, g);
    const int pairs = (head_places_ + Sizes::pair_rows - 1) / Sizes::pair_rows;
    const int steps = pairs * count * (2 * Sizes::k_steps + Sizes::v_tiles);
    load_period_ = load_count_ > 0 ? steps / (load_count_ * tile_keys) : steps;
    if (load_period_ < 1) load_period_ = 1;
    values_.begin(groups, count, scratch_.values);
    scores(groups, count, head, 0, {*this, Job::values, 1});
    while (!values_.is_done()) values_.step();
    for (int p = 0; p < pairs; ++p) {
      const int first = head * head_places_ + p * Sizes::pair_rows;
      softmax_.begin(tiles, count, scratch_.scores[p % 2], row_tiles_of(p), head * view_.head_rows + p * Sizes::pair_rows,
                     (head + 1) * view_.head_rows, state.maximum + first, state.denominator + first);
      if (p + 1 < pairs)
        scores(groups, count, head, p + 1, {*this, Job::softmax, 2 * Sizes::k_steps * count / softmax_.units_left()});
      while (!softmax_.is_done()) softmax_.step();
      values(state.output + int64_t{first} * Sizes::width, count, row_tiles_of(p));
    }
  }

  [[nodiscard]] int row_tiles_of(int pair) const { return head_places_ - pair * Sizes::pair_rows > tile_rows ? 2 : 1; }

  void scores(const TileRows (&groups)[Sizes::pass_tiles][4], int count, int head, int pair, Work work) const {
    const std::byte* const queries = queries_of(head * head_places_ + pair * Sizes::pair_rows);
    for (int t = 0; t < count; ++t) {
      float* const to = scratch_.scores[pair % 2] + t * 2 * Sizes::score_tile;
      if (row_tiles_of(pair) == 2) {
        Products::template scores<2>(groups[t], queries, to, work);
      } else {
        Products::template scores<1>(groups[t], queries, to, work);
      }
    }
  }

  /// Where the maximum of a row moved, its output is rescaled before that tile's values join it.
  void values(float* output, int count, int row_tiles) {
    int begin = 0;
    for (uint32_t left = softmax_.rescaled_tiles; left != 0; left &= left - 1) {
      const int tile = __builtin_ctz(left);
      multiply(output, begin, 2 * tile, row_tiles);
      ValueTiles<I, Sizes>::rescale(output, scratch_.factors + tile * Sizes::pair_rows, row_tiles * tile_rows);
      begin = 2 * tile;
    }
    multiply(output, begin, 2 * count, row_tiles);
  }
  void multiply(float* output, int begin, int end, int row_tiles) {
    if (begin == end) return;
    Work work{*this, Job::none, 1};
    if (row_tiles == 2) {
      Products::template values<2>(scratch_.weights, scratch_.values, output, begin, end, work);
    } else {
      Products::template values<1>(scratch_.weights, scratch_.values, output, begin, end, work);
    }
  }

  const skeleton::TaskView& view_;
  const typename Sizes::Scratch scratch_;
  LatentSoftmax<I, Sizes> softmax_;
  ValueTiles<I, Sizes> values_;
  Operand operand_;
  Keys keys_;
  const int head_places_;  // rows of a head with padding
  const TileScope<Tile> tiles_;
  KeyTile* load_tiles_[Sizes::pass_tiles] = {};
  int load_count_ = 0;
  int load_head_ = -1;
  int load_next_ = 0;
  bool is_loading_ = false;
  int load_wait_ = 1;
  int load_period_ = 1;
  int bank_ = 0;
};

/// Kernel::run and Kernel::finish for the sizes that hold the problem's.
template <class I>
void run_latent(const KernelCall& call, const Task& task, void* memory, std::byte* partials) {
  if (is_small_latent(call.problem->key.head_size, call.problem->v_head_size))
    return skeleton::TaskRunner<LatentEngine<I, SmallLatent>>::run(call, task, memory, partials);
  skeleton::TaskRunner<LatentEngine<I, LargeLatent>>::run(call, task, memory, partials);
}
template <class I>
void finish_latent(const KernelCall& call, const Task& task, void* memory, const std::byte* partials) {
  if (is_small_latent(call.problem->key.head_size, call.problem->v_head_size))
    return skeleton::TaskRunner<LatentEngine<I, SmallLatent>>::finish(call, task, memory, partials);
  skeleton::TaskRunner<LatentEngine<I, LargeLatent>>::finish(call, task, memory, partials);
}

}  // namespace amx
}  // namespace v1
}  // namespace folio
