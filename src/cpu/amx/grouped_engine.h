// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped_engine.h: the engine of the AMX kernel for grouped heads: rows of q against K and V staged as B tiles.
///
///     tile of 64 keys, KV head:   stage K -> scores -> stage V -> weights -> values,   16 rows at a time
///
/// With few rows, memory decides: K and V are staged in turn into the same 16 KB or so, which stay in the first cache, and a pacer
/// fetches the rows of the next head or tile through all five steps. Rows are independent of one another and of the place they have in a
/// task: per_query. ISA-safe: templates on a tag type with a tile vocabulary.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/grouped_layout.h"
#include "cpu/amx/grouped_products.h"
#include "cpu/amx/grouped_softmax.h"
#include "cpu/amx/stage.h"
#include "cpu/amx/tile.h"
#include "cpu/convert_rows.h"
#include "cpu/mutant.h"
#include "cpu/skeleton/task_runner.h"

namespace folio {
inline namespace v1 {
namespace amx {

/// What an instruction set's own type is derived from: it adds `Tile`.
struct GroupedTarget {
  static constexpr int width = 16;  // floats per register
  static constexpr int score_vectors = 4;
  static constexpr Mutant mutant = Mutant::none;
  template <class F>
  static FOLIO_ALWAYS_INLINE F fma(F a, F b, F c) {
    return reinterpret_cast<F>(
        _mm512_maskz_fmadd_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
  }
  template <class U>
  static FOLIO_ALWAYS_INLINE U widen16(const void* from) {
    return reinterpret_cast<U>(_mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(static_cast<const __m256i*>(from))));
  }
  template <class U>
  static FOLIO_ALWAYS_INLINE U widen8(const void* from) {
    return reinterpret_cast<U>(_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
};

template <class I, class Sizes>
class GroupedEngine : public GroupedMemory<Sizes> {
 public:
  using Math = GroupedMath<I>;
  static constexpr Mutant mutant = Mutant::none;

  GroupedEngine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        scratch_(memory),
        key_view_(view.args.key),
        value_view_(view.problem.value_in_key ? view.args.key : view.args.value),
        key_(key_view_, view.problem.key.head_size, Sizes::depth, PlaneStage<I>::key_stage(key_view_.dtype)),
        value_(value_view_, view.problem.v_head_size, Sizes::v_depth, PlaneStage<I>::value_stage(value_view_.dtype)),
        head_places_(static_cast<int>(skeleton::round_up(view.head_rows, row_tile))),
        scale_(view.problem.scale < 0.0f ? -view.problem.scale : view.problem.scale) {
    scales_.key = key_.has_scales() ? scratch_.key_scales : nullptr;
    scales_.value = value_.has_scales() ? scratch_.value_scales : nullptr;
    set_pace();
  }

  static int tiles_at_once() { return 1; }
  [[nodiscard]] int place(int r) const { return r / view_.head_rows * head_places_ + r % view_.head_rows; }

  /// Queries as A tiles; rows and dims that there are not are zero. A negative scale changes their sign.
  void load_queries() const {
    const int sign = view_.problem.scale < 0.0f ? static_cast<int>(0x80008000u) : 0;
    const int row_bytes = view_.problem.key.head_size * 2;
    for (int h = 0; h < view_.task.heads; ++h)
      for (int row = 0; row < head_places_; ++row) {
        const std::byte* const from = row < view_.head_rows ? view_.query(h * view_.head_rows + row) : nullptr;
        std::byte* to = queries_of(h * head_places_ + row) + row % row_tile * 64;
        for (int at = 0; at < Sizes::depth * 2; at += 64, to += tile_bytes) {
          const int left = from != nullptr ? row_bytes - at : 0;
          const __m512i dims = left > 0 ? load_bytes(from + at, left) : _mm512_setzero_si512();
          _mm512_store_si512(to, left > 0 ? _mm512_xor_si512(dims, _mm512_set1_epi32(sign)) : dims);
        }
      }
  }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    for (int h = 0; h < view_.task.heads; ++h) {
      begin_pace(tile, known > 1 ? tiles[1] : nullptr, h);
      if (scales_.key != nullptr) key_.gather_scales(tile, view_.task.head + h, scratch_.key_scales);
      if (scales_.value != nullptr) value_.gather_scales(tile, view_.task.head + h, scratch_.value_scales);
      key_.find_rows(tile, view_.task.head + h, key_rows_);
      value_.find_rows(tile, view_.task.head + h, value_rows_);
      key_.stage(key_rows_, scratch_.keys, pacer_, pace_.key);
      if (head_places_ == row_tile) {
        attend_few(state, tile, h);
      } else {
        attend_many(state, tile, h);
      }
      pacer_.finish();
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[Sizes::v_depth];
    const __m512 f = _mm512_set1_ps(factor), zero = _mm512_setzero_ps();
    const __m512i first =
        _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);  // value_column of dims 0 to 15
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    for (int d = 0; d < Sizes::v_depth; d += 32) {
      const __m512 a = _mm512_maskz_add_ps(every, _mm512_maskz_mul_ps(every, _mm512_loadu_ps(output + d), f), zero);
      const __m512 b = _mm512_maskz_add_ps(every, _mm512_maskz_mul_ps(every, _mm512_loadu_ps(output + d + 16), f), zero);
      _mm512_store_ps(row + d, _mm512_maskz_permutex2var_ps(every, a, first, b));
      _mm512_store_ps(row + d + 16, _mm512_maskz_permutex2var_ps(every, a, second, b));
    }
    Rows<I>::narrow(view_.problem.out_dtype, row, to, view_.problem.v_head_size);
  }

 private:
  using Tile = typename I::Tile;
  using Products = GroupedProducts<I, Sizes::depth, Sizes::v_depth>;
  using Softmax = GroupedSoftmax<I>;
  static constexpr __mmask16 every = 0xffff;

  [[nodiscard]] std::byte* queries_of(int place) const {
    return scratch_.queries + place / row_tile * Products::query_tile_bytes;
  }

  /// One row tile: V takes K's place once the scores are known.
  void attend_few(const skeleton::State& state, const KeyTile& tile, int head) {
    const int place = head * head_places_;
    Products::scores(queries_of(place), scratch_.keys, scratch_.scores, pacer_, pace_.scores);
    value_.stage(value_rows_, scratch_.keys, pacer_, pace_.value);
    weigh(state, tile, place, 0, view_.head_rows, view_.coverage(0, view_.head_rows, tile));
    Products::values(scratch_.weights, scratch_.keys, output_of(state, place), pacer_, pace_.values);
  }

  void attend_many(const skeleton::State& state, const KeyTile& tile, int head) {
    value_.stage(value_rows_, scratch_.values, pacer_, pace_.value);
    for (int row = 0; row < view_.head_rows; row += row_tile) {
      const int end = row + row_tile < view_.head_rows ? row + row_tile : view_.head_rows;
      const skeleton::Coverage coverage = view_.coverage(row, end, tile);
      if (coverage == skeleton::Coverage::none) continue;
      const int place = head * head_places_ + row;
      Products::scores(queries_of(place), scratch_.keys, scratch_.scores, pacer_, pace_.scores);
      weigh(state, tile, place, row, end, coverage);
      Products::values(scratch_.weights, scratch_.values, output_of(state, place), pacer_, pace_.values);
    }
  }

  static float* output_of(const skeleton::State& state, int place) { return state.output + int64_t{place} * Sizes::v_depth; }

  /// Scores of the local rows [begin, end), which lie at `place`, to weights. Rows that are not there keep old weights: their output is
  /// never read.
  void weigh(const skeleton::State& state, const KeyTile& tile, int place, int begin, int end, skeleton::Coverage coverage) {
    const bool is_plain = coverage == skeleton::Coverage::all && !view_.has_terms;
    const int first = place / head_places_ * view_.head_rows;  // of this head, among the rows of the task
    for (int r = begin; r < end; ++r, ++place) {
      typename Softmax::Row row{scratch_.scores + (r - begin) * tile_keys, scratch_.weights + (r - begin) * tile_keys,
                                state.maximum + place, state.denominator + place, 1.0f};
      bool moved;
      if (is_plain) {
        moved = Softmax::plain(row, scale_, scales_);
      } else {
        const skeleton::LogitTerms terms = view_.terms_of(first + r, tile.first);
        moved = Softmax::edge(row, scale_, scales_, view_.seen_by_row(r, tile), view_.has_terms ? &terms : nullptr);
      }
      if (moved) rescale(output_of(state, place), row.factor);
      pacer_.tick(pace_.weights);
    }
  }

  static void rescale(float* output, float factor) {
    const __m512 f = _mm512_set1_ps(factor);
    for (int d = 0; d < Sizes::v_depth; d += 16)
      _mm512_store_ps(output + d, _mm512_maskz_mul_ps(every, _mm512_load_ps(output + d), f));
  }

  /// Lines of each tick, so that they spread over the five steps about as time does.
  struct Pace {
    int key, scores, weights, value, values;
  };

  void set_pace() {
    const int key_lines = lines_of(key_view_.dtype, view_.problem.key.head_size);
    const int value_lines = lines_of(value_view_.dtype, view_.problem.v_head_size);
    const int lines = tile_keys * (key_lines + value_lines);
    const int row_tiles = head_places_ / row_tile;
    const auto share = [lines](int percent, int ticks) { return (lines * percent + 50 * ticks) / (100 * ticks); };
    pace_.key = share(40, 16 * key_lines);
    pace_.value = share(15, 16 * value_lines);
    pace_.scores = share(20, 4 * Products::k_steps * row_tiles);
    pace_.values = share(20, Sizes::v_depth / 8 * row_tiles);
    pace_.weights = share(12, view_.head_rows);
  }
  static int lines_of(DType dtype, int head_size) { return (head_size * bit_width(dtype) / 8 + 63) / 64; }

  /// Of token-major rows, which hold all heads of a token, each head's turn fetches a part of the next tile's; otherwise the rows of
  /// the head that comes next.
  void begin_pace(const KeyTile& tile, const KeyTile* next, int head) {
    const int heads = view_.task.heads, first = view_.task.head;
    const PagedKVView* const views[2] = {&key_view_, &value_view_};
    const int sizes[2] = {view_.problem.key.head_size, view_.problem.v_head_size};
    for (int i = 0; i < (view_.problem.value_in_key ? 1 : 2); ++i) {
      const bool is_token_major = views[i]->head_stride_bytes < views[i]->slot_stride_bytes;
      Share share{0, tile_keys, first + head + 1, first + head + 2};
      const KeyTile* from = &tile;
      if (is_token_major) {
        share = {tile_keys * head / heads, tile_keys * (head + 1) / heads, first, first + heads};
        from = next;
      } else if (head + 1 == heads) {
        share = {0, tile_keys, first, first + 1};
        from = next;
      }
      pacer_.plane[i].begin(*views[i], sizes[i] * bit_width(views[i]->dtype) / 8, from, share);
    }
  }

  const skeleton::TaskView& view_;
  const GroupedScratch<Sizes> scratch_;
  const PagedKVView& key_view_;
  const PagedKVView& value_view_;
  const PlaneStage<I> key_;
  const PlaneStage<I> value_;
  const int head_places_;  // rows of a head with padding
  const float scale_;
  const TileScope<Tile> tiles_;
  TileScales scales_;
  Pace pace_;
  Pacer<I> pacer_;
  RowAddresses key_rows_;
  RowAddresses value_rows_;
};

/// Kernel::run and Kernel::finish for the sizes that hold the problem's.
template <class I>
void run_grouped(const KernelCall& call, const Task& task, void* memory, std::byte* partials) {
  visit_grouped_sizes(call.problem->key.head_size, call.problem->v_head_size, [&](auto sizes) {
    skeleton::TaskRunner<GroupedEngine<I, decltype(sizes)>>::run(call, task, memory, partials);
  });
}
template <class I>
void finish_grouped(const KernelCall& call, const Task& task, void* memory, const std::byte* partials) {
  visit_grouped_sizes(call.problem->key.head_size, call.problem->v_head_size, [&](auto sizes) {
    skeleton::TaskRunner<GroupedEngine<I, decltype(sizes)>>::finish(call, task, memory, partials);
  });
}

}  // namespace amx
}  // namespace v1
}  // namespace folio
