// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_layer.h: a layer of a group over the pool's arena: what `append` writes through
/// the group's table follows from token and position, and `attend` reads it back.
///
/// What it should have read is computed densely: K and V of each token of the sequence, the mask
/// key by key, softmax in double. A page that was given up too early, given to another or found by
/// mistake makes another result. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/attention/mask.h"
#include "folio/cache/paged_kv_view.h"
#include "pool/pool_helpers.h"

namespace folio::test {

/// A sequence in a step, which computes its tokens [begin, end).
struct StepRow {
  SequenceId id;
  const Tokens* tokens = nullptr;  ///< of the whole sequence, those of the step too
  int32_t begin = 0, end = 0;
};

class GroupLayer {
 public:
  /// `number` of the layer among all: no two have equal K or V.
  GroupLayer(const KVPlanes& planes, uint32_t group, int32_t number, const Mask& mask)
      : planes_(planes), group_(group), number_(number), mask_(mask) {}

  /// K and V of the rows' new tokens; a failure becomes folio::Error.
  void append(const PagePool& pool, std::span<const StepRow> rows) const;
  /// Attention of the rows' new tokens is that of the dense reference, as far as rounding allows.
  void expect_right(const PagePool& pool, std::span<const StepRow> rows) const;

  [[nodiscard]] const KVPlanes& planes() const { return planes_; }
  /// An element of K (plane 0), V (1) or q (2), in [-1, 1] and exact in bf16.
  [[nodiscard]] float element(int32_t plane, TokenId token, int32_t position, int32_t head,
                              int32_t dim) const;

 private:
  struct Answer;  // what came out for one token

  [[nodiscard]] std::vector<float> rows_of(int32_t plane, std::span<const StepRow> rows,
                                           int32_t heads) const;
  /// As a reader of the cache sees it.
  void stored(int32_t plane, TokenId token, int32_t position, int32_t head, double* out) const;
  void expect_row(const StepRow& row, int32_t position, const Answer& answer) const;

  KVPlanes planes_;
  uint32_t group_;
  int32_t number_;
  Mask mask_;
};

}  // namespace folio::test
