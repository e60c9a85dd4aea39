// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/runner.h: what all index kernels share around their engine: the walk over key
/// tiles, what each query sees of them, and where scores go.
///
/// An engine is a type that brings queries and keys into its own form and multiplies:
///
///     using InstructionSet               its tag type, whose index_mutant is a constant
///     static queries(problem)            of a task at the most
///     static scratch_bytes(problem)      its memory, 64-byte aligned
///     Engine(view, memory)
///     load_queries()                     once for a task: q, turned and scaled, and weights
///     score(tile, next, scores)          the weighted sum of heads of each query of the task and
///                                        each key of the tile, [queries][64]. `next` comes next,
///                                        null: none; it may be fetched meanwhile. Of keys that
///                                        are not in tile.seen it writes anything, and reads
///                                        nothing
///
/// A tile lies at an absolute multiple of 64 keys and a score is one chain of operations, so that
/// no bit depends on how work is cut. ISA-safe as far as the engine is: everything is a template on
/// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/index/collect.h"
#include "cpu/index/view.h"
#include "cpu/skeleton/state.h"

namespace folio::inline v1::indexer {

template <class Engine>
class IndexRunner {
  using I = typename Engine::InstructionSet;

 public:
  static IndexGeometry geometry(const IndexProblem& problem) {
    return {Engine::queries(problem), Memory(nullptr, problem).bytes};
  }

  static void score(const IndexCall& call, const IndexTask& task, void* scratch,
                    const ScoresTo& to) {
    const auto scores_at = [&to](const IndexView& view, int t) {
      return reinterpret_cast<float*>(to.data + view.row(t) * to.stride_bytes);
    };
    const Memory memory(scratch, *call.problem);
    IndexView view(call, task, memory.visible);
    for (int t = 0; t < view.queries; ++t) {
      float* const row = scores_at(view, t);
      for (int64_t j = task.key_begin; j < task.key_end; ++j)
        row[j - to.first_key] = -__builtin_inff();
    }
    walk(view, memory, [&](int t, int64_t first, uint64_t seen, const float* scores) {
      float* const row = scores_at(view, t);
      if (seen == ~uint64_t{0}) {
        __builtin_memcpy(row + (first - to.first_key), scores, tile_keys * sizeof(float));
        return;
      }
      for (uint64_t left = seen; left != 0; left &= left - 1) {
        const int key = __builtin_ctzll(left);
        row[first + key - to.first_key] = scores[key];
      }
    });
  }

  static void select(const IndexCall& call, const IndexTask& task, void* scratch, Top* tops,
                     uint64_t* spare) {
    const Memory memory(scratch, *call.problem);
    IndexView view(call, task, memory.visible);
    walk(view, memory, [&](int t, int64_t first, uint64_t seen, const float* scores) {
      if (I::index_mutant == IndexMutant::tile_end_left_out) seen &= ~uint64_t{0} >> 1;
      Collect<I>::tile(scores, static_cast<int32_t>(first), seen, tops[t], spare);
    });
  }

 private:
  struct Memory {
    Memory(void* at, const IndexProblem& problem) {
      skeleton::Parts parts(at);
      visible = parts.take<Visible>(Engine::queries(problem));
      tiles = parts.take<KeyTile>(2);
      scores = parts.take<float>(int64_t{Engine::queries(problem)} * tile_keys);
      engine = parts.take<std::byte>(Engine::scratch_bytes(problem));
      bytes = parts.bytes();
    }
    Visible* visible;
    KeyTile* tiles;
    float* scores;  // [queries][64]
    std::byte* engine;
    int64_t bytes;
  };

  /// take(t, first key, keys that query t sees, their scores) for each tile in ascending order.
  template <class Take>
  static void walk(IndexView& view, const Memory& memory, const Take& take) {
    view.find_visible(I::index_mutant);
    KeyTile *tile = &memory.tiles[0], *next = &memory.tiles[1];
    int64_t next_key = view.task.key_begin / tile_keys * tile_keys;
    if (!find(view, next_key, *tile)) return;
    Engine engine(view, memory.engine);
    engine.load_queries();
    for (bool has_tile = true; has_tile;) {
      const bool has_next = find(view, next_key, *next);
      engine.score(*tile, has_next ? next : nullptr, memory.scores);
      for (int t = 0; t < view.queries; ++t) {
        uint64_t seen = view.seen(t, tile->first);
        if (I::index_mutant != IndexMutant::dead_keys_kept) seen &= tile->seen;
        if (seen != 0) take(t, tile->first, seen, memory.scores + int64_t{t} * tile_keys);
      }
      KeyTile* const done = tile;
      tile = next;
      next = done;
      has_tile = has_next;
    }
  }

  /// The next tile of which some query sees a key that lies in a page; false: there is none.
  static bool find(const IndexView& view, int64_t& next_key, KeyTile& tile) {
    const PageCursor cursor(view.args.key, view.batch.table, view.task.sequence);
    for (; next_key < view.task.key_end; next_key += tile_keys) {
      tile.seen = view.seen_by_any(next_key);
      if (tile.seen == 0) continue;
      tile.first = next_key;
      cursor.find(tile);
      if (tile.seen == 0) continue;
      next_key += tile_keys;
      return true;
    }
    return false;
  }
};

}  // namespace folio::inline v1::indexer
