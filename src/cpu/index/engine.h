// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/engine.h: the engine of the portable index kernel: every problem of the supported
/// set in f32, one source for every instruction set.
///
/// Keys of a tile are staged as f32, scaled, by the portable attention kernel's stage, and
/// transposed strip by strip. ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/convert/rows.h"
#include "cpu/index/products.h"
#include "cpu/index/scratch.h"
#include "cpu/index/view.h"
#include "cpu/portable/stage.h"
#include "cpu/skeleton/tile_rows.h"
#include "cpu/skeleton/turned_rows.h"

namespace folio::inline v1::indexer {

template <class I>
class PortableIndexEngine {
 public:
  using InstructionSet = I;
  static int32_t queries(const IndexProblem& problem) { return queries_of(problem); }
  static int64_t scratch_bytes(const IndexProblem& problem) {
    return scratch_at(nullptr, problem).bytes;
  }

  PortableIndexEngine(const IndexView& view, void* memory)
      : view_(view), problem_(view.problem), s_(scratch_at(memory, view.problem)) {}

  void load_queries() const {
    for (int t = 0; t < view_.queries; ++t) {
      for (int h = 0; h < problem_.q_heads; ++h) load_query(t, h);
      float* const weights = s_.weights + int64_t{t} * problem_.q_heads;
      if (problem_.has_weights) {
        const std::byte* const from = view_.weights(t);
        Rows<I>::widen(problem_.weight_dtype, &from, 1, weights, 0, problem_.q_heads);
      } else {
        for (int h = 0; h < problem_.q_heads; ++h) weights[h] = 1.0f;
      }
    }
  }

  void score(const KeyTile& tile, const KeyTile* next, float* scores) {
    if (pointers_of_ != &tile) find_rows(tile, *now_);
    pointers_of_ = next;
    if (next != nullptr) find_rows(*next, *next_);
    for (int i = 0; i < view_.queries * tile_keys; ++i) scores[i] = 0.0f;
    for (int head = 0; head < problem_.key.num_heads; ++head) {
      stage(head, next != nullptr ? next_ : nullptr);
      if (problem_.relu) {
        add<true>(tile, head, scores);
      } else {
        add<false>(tile, head, scores);
      }
    }
    skeleton::RowPointers* const done = now_;
    now_ = next_;
    next_ = done;
  }

 private:
  using V = Simd<I>;
  using P = Products<I>;
  static constexpr int W = V::W;

  void load_query(int t, int h) const {
    const std::byte* const from = view_.query(t, h);
    const int n = problem_.key.head_size;
    float* const to = s_.q + (int64_t{t} * problem_.q_heads + h) * s_.head;
    if (skeleton::is_turned(problem_.key) && !problem_.q_is_turned) {
      skeleton::TurnedRows<I>::turn_query(view_.args.key, h / view_.group, problem_.q_dtype, from,
                                          to);
    } else {
      Rows<I>::widen(problem_.q_dtype, &from, 1, to, s_.head, n);
    }
    for (int d = 0; d < n; ++d) to[d] *= problem_.scale;
  }

  void find_rows(const KeyTile& tile, skeleton::RowPointers& to) const {
    skeleton::find_rows(view_.args.key, tile, 0, I::mutant, to);
  }

  /// Rows of one head of K, transposed.
  void stage(int head, const skeleton::RowPointers* ahead) const {
    portable::Scratch rows;
    rows.values = s_.rows;
    rows.v_head = s_.head;
    portable::Stage<I>::values(rows, view_.args.key, *now_, {head, problem_.key.num_heads, ahead},
                               tile_keys);
    const int n = problem_.key.head_size;
    for (int key = 0; key < tile_keys; key += W) {
      float* const strip =
          s_.keys + int64_t{key} / P::strip_keys * P::strip_keys * s_.head + key % P::strip_keys;
      for (int d = 0; d < n; d += W) transpose(key, d, strip + int64_t{d} * P::strip_keys);
    }
  }
  void transpose(int key, int d, float* to) const {
    typename V::F block[W];
    for (int i = 0; i < W; ++i) block[i] = V::load(s_.rows + int64_t{key + i} * s_.head + d);
    V::transpose(block);
    for (int i = 0; i < W; ++i) V::store(to + int64_t{i} * P::strip_keys, block[i]);
  }

  /// The q heads of one head of K.
  template <bool Relu>
  void add(const KeyTile& tile, int head, float* scores) const {
    const int first = head * view_.group;
    for (int strip = 0; strip < P::strips; ++strip) {
      const int key = strip * P::strip_keys;
      if ((tile.seen >> key & (~uint64_t{0} >> (tile_keys - P::strip_keys))) == 0) continue;
      const float* const keys = s_.keys + int64_t{key} * s_.head;
      for (int t = 0; t < view_.queries; ++t) {
        const int64_t row = int64_t{t} * problem_.q_heads + first;
        const typename P::Heads heads{s_.q + row * s_.head, s_.weights + row, view_.group, s_.head};
        P::template add<Relu>(heads, keys, problem_.key.head_size,
                              scores + int64_t{t} * tile_keys + key);
      }
    }
  }

  const IndexView& view_;
  const IndexProblem& problem_;
  const Scratch s_;
  skeleton::RowPointers pointers_[2];
  skeleton::RowPointers* now_ = &pointers_[0];
  skeleton::RowPointers* next_ = &pointers_[1];
  const KeyTile* pointers_of_ = nullptr;  // the tile that now_ belongs to
};

}  // namespace folio::inline v1::indexer
