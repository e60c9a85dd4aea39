// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/fold.h: states of softmax over parts of the keys become one, by the only
/// function that does it: in registers, through shared memory or through partials, always in
/// ascending order of keys. Same order, same function: same bits.
///
/// All threads of a block fold together: each owns `columns` columns of one row, four by four,
/// `stride` apart, so that a warp reads whole lines.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"

namespace folio::cuda {

struct alignas(16) FourFloats {
  float x[4] = {};
};

FOLIO_DEVICE float minus_infinity() { return -__builtin_huge_valf(); }

/// Where a thread's columns of a row begin.
struct RowPlace {
  int row = 0;
  int column = 0;
};

/// Which row and columns of a [Rows][Columns] result a thread owns. Threads beyond what there is to
/// do own nothing: row == Rows.
template <int Rows, int Columns, int Threads>
struct FoldPlace : RowPlace {
  static constexpr int threads_per_row =
      Threads / Rows < Columns / 4 ? Threads / Rows : Columns / 4;
  static constexpr int stride = threads_per_row * 4;
  static constexpr int columns = Columns / threads_per_row;
  static_assert(threads_per_row >= 1 && Columns % stride == 0);

  FOLIO_DEVICE explicit FoldPlace(int thread)
      : RowPlace{thread < Rows * threads_per_row ? thread / threads_per_row : Rows,
                 thread % threads_per_row * 4} {}
  [[nodiscard]] FOLIO_DEVICE bool is_used() const { return row < Rows; }
};

/// The state of this thread's columns of a row, in the log2 domain.
template <int Columns>
struct FoldState {
  float max, sum, out[Columns];

  FOLIO_DEVICE void clear() {
    max = minus_infinity();
    sum = 0.0f;
    FOLIO_UNROLL
    for (int c = 0; c < Columns; ++c) out[c] = 0.0f;
  }

  /// Columns 4g .. 4g + 3 of this thread's.
  [[nodiscard]] FOLIO_DEVICE FourFloats four(int g) const {
    return {{out[4 * g], out[4 * g + 1], out[4 * g + 2], out[4 * g + 3]}};
  }

  /// Adds the state of the keys that follow: `part(g)` gives its columns 4g .. 4g + 3 of this
  /// thread's. A part without keys changes nothing, whatever its columns hold.
  template <class Thread, class Part>
  FOLIO_DEVICE void fold(Thread& t, const MaxSum& part_row, Part part) {
    if (part_row.max == minus_infinity()) return;
    const float top = fmaxf(max, part_row.max);
    const float mine = t.exp2(max - top), its = t.exp2(part_row.max - top);
    max = top;
    sum = sum * mine + part_row.sum * its;
    FOLIO_UNROLL
    for (int g = 0; g < Columns / 4; ++g) {
      const FourFloats four = part(g);
      FOLIO_UNROLL
      for (int e = 0; e < 4; ++e) out[4 * g + e] = out[4 * g + e] * mine + four.x[e] * its;
    }
  }
};

/// Partials of one list, [Rows][Columns] each: what tasks of a split leave for the last of them. A
/// thread owns `Owned` columns of a row, four by four, `Stride` apart.
template <int Rows, int Columns, int Owned, int Stride>
struct Partials {
  MaxSum* rows;
  float* values;

  FOLIO_DEVICE explicit Partials(const AttendCall& call)
      : rows(call.partial_rows), values(call.partials) {}

  /// Writes this thread's columns of partial `partial`, and with column 0 the row's sums; `part` as
  /// in FoldState::fold.
  template <class Thread, class Part>
  FOLIO_DEVICE void store(Thread& t, int64_t partial, const RowPlace& place, const MaxSum& sums,
                          Part part) const {
    float* const to = values + (partial * Rows + place.row) * Columns + place.column;
    FOLIO_UNROLL
    for (int g = 0; g < Owned / 4; ++g)
      t.store(reinterpret_cast<FourFloats*>(to + g * Stride), part(g));
    if (place.column == 0) t.store(rows + partial * Rows + place.row, sums);
  }
  template <class Thread>
  FOLIO_DEVICE void store(Thread& t, int64_t partial, const RowPlace& place,
                          const FoldState<Owned>& state) const {
    store(t, partial, place, MaxSum{state.max, state.sum}, [&](int g) { return state.four(g); });
  }

  /// Folds partials [first, first + count) in ascending order.
  template <class Thread>
  FOLIO_DEVICE void fold(Thread& t, int64_t first, int32_t count, const RowPlace& place,
                         FoldState<Owned>& state) const {
    for (int64_t partial = first; partial < first + count; ++partial) {
      const float* const from = values + (partial * Rows + place.row) * Columns + place.column;
      state.fold(t, t.load(rows + partial * Rows + place.row), [&](int g) {
        return t.load(reinterpret_cast<const FourFloats*>(from + g * Stride));
      });
    }
  }
};

/// Counts this block's arrival at a split whose partials all its threads have stored. True, for all
/// threads, if it is the last: then all partials are visible to it, and the counter is ready again.
/// `flag_at`: 4 bytes of shared memory, which nobody uses until the next sync_block.
template <class Thread>
FOLIO_DEVICE bool arrive_last(Thread& t, const AttendCall& call, int32_t split, int32_t tasks,
                              uint32_t flag_at) {
  t.sync_block();
  if (t.thread() == 0) {
    uint32_t* const counter = call.arrivals + split;
    const uint32_t before = t.add_acq_rel(counter, 1u) - arrivals_ready;
    if (before >= static_cast<uint32_t>(tasks)) t.fail("workspace not prepared");
    const bool is_last = before + 1 == static_cast<uint32_t>(tasks);
    if (is_last) t.store(counter, uint32_t{arrivals_ready});
    t.store_shared(flag_at, static_cast<uint32_t>(is_last));
  }
  t.sync_block();
  return t.template load_shared<uint32_t>(flag_at) != 0;
}

}  // namespace folio::cuda
