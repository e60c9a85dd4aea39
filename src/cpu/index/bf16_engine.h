// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/bf16_engine.h: the engine of the index kernels that multiply pairs of bf16: what
/// stands around the products.
///
/// Keys of a tile are staged once, as they are stored where bf16 holds that exactly: their scale
/// joins the product, before relu. A product is a type
///
///     Product(rows, scratch)        rows of q that a head of K has in this task
///     add<Relu>(HeadRows, scores)   scores [queries][64] += the sums over the heads
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/amx/grouped/pacer.h"
#include "cpu/amx/grouped/stage.h"
#include "cpu/convert/row_scales.h"
#include "cpu/convert/rows.h"
#include "cpu/index/bf16_scratch.h"
#include "cpu/index/view.h"
#include "cpu/skeleton/tile_rows.h"
#include "cpu/skeleton/turned_rows.h"

namespace folio::inline v1::indexer {

/// What the queries of a task have of one head of K.
struct HeadRows {
  const bf16* q = nullptr;         // [queries][group][depth]
  const float* weights = nullptr;  // [queries][group]
  int queries = 0;
  int group = 0;
};

template <class I, class Product>
class Bf16IndexEngine {
 public:
  using InstructionSet = I;
  static int32_t queries(const IndexProblem& problem) {
    return queries_of(problem, bf16_task_rows);
  }
  static int64_t scratch_bytes(const IndexProblem& problem) {
    return bf16_scratch_at(nullptr, problem).bytes;
  }

  Bf16IndexEngine(const IndexView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        s_(bf16_scratch_at(memory, view.problem)),
        product_(view.queries * view.group, s_) {}

  void load_queries() const {
    for (int head = 0; head < problem_.key.num_heads; ++head) {
      for (int t = 0; t < view_.queries; ++t) {
        const int64_t row = first_row(head) + int64_t{t} * view_.group;
        for (int h = 0; h < view_.group; ++h)
          load_query(t, head * view_.group + h, s_.q + (row + h) * s_.depth);
        load_weights(t, head, s_.weights + row);
      }
    }
  }

  void score(const KeyTile& tile, const KeyTile* next, float* scores) {
    const PagedKVView& key = view_.args.key;
    amx::Pacer<I> pacer;
    pacer.plane[0].begin(key, static_cast<int>(row_bytes(key.dtype, key.head_size)), next,
                         {0, tile_keys, 0, problem_.key.num_heads});
    for (int i = 0; i < view_.queries * tile_keys; ++i) scores[i] = 0.0f;
    for (int head = 0; head < problem_.key.num_heads; ++head) {
      stage(tile, head, pacer);
      find_scales(tile, head);
      const HeadRows rows{s_.q + first_row(head) * s_.depth, s_.weights + first_row(head),
                          view_.queries, view_.group};
      if (problem_.relu && I::index_mutant != IndexMutant::relu_ignored) {
        product_.template add<true>(rows, scores);
      } else {
        product_.template add<false>(rows, scores);
      }
    }
    pacer.finish(lines_of_step);
  }

 private:
  static constexpr int lines_of_step = 4;  // fetched ahead for each four that are staged

  [[nodiscard]] int64_t first_row(int head) const {
    return int64_t{head} * view_.queries * view_.group;
  }

  void load_query(int t, int q_head, bf16* to) const {
    const std::byte* from = view_.query(t, q_head);
    DType dtype = problem_.q_dtype;
    const int n = problem_.key.head_size;
    alignas(64) float turned[amx::grouped_depth_max];
    if (skeleton::is_turned(problem_.key) && !problem_.q_is_turned) {
      skeleton::TurnedRows<I>::turn_query(view_.args.key, q_head / view_.group, dtype, from,
                                          turned);
      from = reinterpret_cast<const std::byte*>(turned);
      dtype = DType::f32;
    }
    Rows<I>::template row_to<bf16>(dtype)(from, to, n);
    __builtin_memset(static_cast<void*>(to + n), 0,
                     static_cast<size_t>(s_.depth - n) * sizeof(bf16));
  }

  /// Of the q heads of one head of K.
  void load_weights(int t, int head, float* to) const {
    const int first = head * view_.group;
    if (!problem_.has_weights) {
      for (int h = 0; h < view_.group; ++h) to[h] = 1.0f;
      return;
    }
    const std::byte* const from =
        view_.weights(t) + row_bytes(problem_.weight_dtype, int64_t{first});
    Rows<I>::widen(problem_.weight_dtype, &from, 1, to, 0, view_.group);
    if (I::index_mutant != IndexMutant::weight_of_next_head) return;
    const float of_first = to[0];
    for (int h = 0; h + 1 < view_.group; ++h) to[h] = to[h + 1];
    to[view_.group - 1] = of_first;
  }

  void stage(const KeyTile& tile, int head, amx::Pacer<I>& pacer) const {
    skeleton::RowPointers rows;
    skeleton::find_rows(view_.args.key, tile, head, I::mutant, rows);
    for (const std::byte*& row : rows.row)
      if (row == nullptr) row = amx::DeadRow<I>::zeros;
    switch (problem_.key.dtype) {
      case DType::i8: return stage_as<DType::i8>(rows.row, pacer);
      case DType::f8_e4m3: return stage_as<DType::f8_e4m3>(rows.row, pacer);
      case DType::f8_e5m2: return stage_as<DType::f8_e5m2>(rows.row, pacer);
      default: return stage_as<DType::bf16>(rows.row, pacer);
    }
  }
  /// Rows of other types than these are converted to bf16 first.
  template <DType D>
  [[gnu::noinline]] void stage_as(const std::byte* const* rows, amx::Pacer<I>& pacer) const {
    const int n = problem_.key.head_size;
    amx::FourRows<I> fours(rows, problem_.key.dtype, D, n);
    amx::KeyStage<I, D>::tile(fours, n, s_.depth / 32, s_.keys, pacer, lines_of_step);
  }

  /// What products are multiplied by.
  void find_scales(const KeyTile& tile, int head) const {
    if (view_.args.key.scales.data != nullptr) {
      RowScales<I>::gather(view_.args.key, tile, head, s_.scales);
      for (int k = 0; k < tile_keys; ++k) s_.scales[k] *= problem_.scale;
    } else {
      for (int k = 0; k < tile_keys; ++k) s_.scales[k] = problem_.scale;
    }
  }

  const IndexView& view_;
  const IndexProblem& problem_;
  const Bf16Scratch s_;
  Product product_;
};

}  // namespace folio::inline v1::indexer
