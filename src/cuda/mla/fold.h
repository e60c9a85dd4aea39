// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/fold.h: accumulators of a part, and the result of a task's rows that parts are
/// folded into.
///
/// Every warp holds its columns of all rows as accumulators of m16n8k16: lane l has rows
/// l / 4 + 8i (cuda/attention/fragments.h).
#pragma once

#include <cstdint>

#include "cuda/attention/fold.h"
#include "cuda/attention/fragments.h"
#include "cuda/attention/output_row.h"
#include "cuda/mla/config.h"
#include "cuda/mla/rows.h"

namespace folio::cuda::mla {

/// Accumulators of the warp's columns of all rows.
template <class C>
struct Columns {
  float x[C::row_tiles][C::column_tiles][4];

  FOLIO_DEVICE void clear() {
    FOLIO_UNROLL
    for (int m = 0; m < C::row_tiles; ++m) {
      FOLIO_UNROLL
      for (int j = 0; j < C::column_tiles; ++j) {
        FOLIO_UNROLL
        for (int e = 0; e < 4; ++e) x[m][j][e] = 0.0f;
      }
    }
  }
  /// This lane's part of 16 columns of row l / 4 + 8i.
  [[nodiscard]] FOLIO_DEVICE FourFloats of(int i, int g) const {
    return fragment_part(x[i / 2], i % 2, g);
  }
};

/// Of rows l / 4 + 8i; those with i >= C::first_kept lie in shared memory between parts.
template <class C, class Thread>
class Result {
 public:
  static constexpr int columns = 2 * C::column_tiles;  // of a lane, in each of its rows
  static constexpr int lane_rows = C::lane_rows;
  using Row = FoldState<columns>;

  FOLIO_DEVICE Result(Thread& t, int warp) : lane_(t.lane()), warp_(warp) {}

  /// As without keys.
  FOLIO_DEVICE void clear(Thread& t, int32_t count) {
    Row row;
    row.clear();
    FOLIO_UNROLL
    for (int i = 0; i < lane_rows; ++i) {
      if (i < C::first_kept)
        rows_[i] = row;
      else if (8 * i < count)
        keep(t, i, row);
    }
  }
  /// Folds a part in: the next in ascending order.
  FOLIO_DEVICE void fold(Thread& t, int32_t count, const MaxSum (&rows)[lane_rows],
                         const Columns<C>& part) {
    for_rows(t, count,
             [&](int i, Row& row) { row.fold(t, rows[i], [&](int g) { return part.of(i, g); }); });
  }
  /// Folds partials [first, first + partials) of the workspace.
  FOLIO_DEVICE void fold_stored(Thread& t, const AttendCall& call, int32_t first, int32_t partials,
                                int32_t count) {
    for_rows(t, count, [&](int i, Row& row) {
      if (number(i) < count) PartialsOf(call).fold(t, first, partials, place(i), row);
    });
  }

  /// A part to partial `partial` of the workspace. Columns lie there as lanes hold them: nobody
  /// else reads them.
  FOLIO_DEVICE void store_part(Thread& t, const AttendCall& call, int32_t partial, int32_t count,
                               const MaxSum (&rows)[lane_rows], const Columns<C>& part) const {
    FOLIO_UNROLL
    for (int i = 0; i < lane_rows; ++i)
      if (number(i) < count)
        PartialsOf(call).store(t, partial, place(i), rows[i], [&](int g) { return part.of(i, g); });
  }
  /// What was folded so far, likewise.
  FOLIO_DEVICE void store(Thread& t, const AttendCall& call, int32_t partial, int32_t count) {
    for_rows(t, count, [&](int i, Row& row) {
      if (number(i) < count) PartialsOf(call).store(t, partial, place(i), row);
    });
  }

  /// Output and lse of the rows.
  FOLIO_DEVICE void write(Thread& t, const AttendCall& call, const TaskRows& rows) {
    for_rows(t, rows.count(), [&](int i, Row& row) {
      exchange_columns(t, row.out);
      if (number(i) >= rows.count()) return;
      const OutputRow place{rows.sequence.first_query + rows.token_of(number(i)),
                            rows.q_head_of(number(i))};
      write_row(t, call, place, column(), 16, row);
    });
  }

 private:
  using PartialsOf = Partials<C::rows, C::v_head_size, columns, 16>;

  /// The first of this lane's columns of output rows.
  [[nodiscard]] FOLIO_DEVICE int column() const {
    return warp_ * C::columns + fragment_column(lane_);
  }
  [[nodiscard]] FOLIO_DEVICE int number(int i) const { return (lane_ >> 2) + 8 * i; }
  [[nodiscard]] FOLIO_DEVICE RowPlace place(int i) const { return {number(i), column()}; }

  /// body(i, row) for each of the lane's rows, of all lanes alike; not where no lane has one.
  template <class Body>
  FOLIO_DEVICE void for_rows(Thread& t, int32_t count, Body body) {
    FOLIO_UNROLL
    for (int i = 0; i < lane_rows; ++i) {
      if (8 * i >= count) return;
      if (i < C::first_kept) {
        body(i, rows_[i]);
      } else {
        Row row = kept(t, i);
        body(i, row);
        keep(t, i, row);
      }
    }
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t kept_at(Thread& t, int i, int g) const {
    return t.shared_base() + C::kept_at +
           static_cast<uint32_t>((i - C::first_kept) * C::kept_row_bytes +
                                 (g * C::threads + t.thread()) * 16);
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t kept_sum_at(Thread& t, int i) const {
    return kept_at(t, i, columns / 4) - static_cast<uint32_t>(t.thread()) * 8;
  }
  FOLIO_DEVICE Row kept(Thread& t, int i) const {
    Row row;
    const auto sum = t.template load_shared<MaxSum>(kept_sum_at(t, i));
    row.max = sum.max;
    row.sum = sum.sum;
    FOLIO_UNROLL
    for (int g = 0; g < columns / 4; ++g) {
      const auto four = t.template load_shared<FourFloats>(kept_at(t, i, g));
      FOLIO_UNROLL
      for (int e = 0; e < 4; ++e) row.out[4 * g + e] = four.x[e];
    }
    return row;
  }
  FOLIO_DEVICE void keep(Thread& t, int i, const Row& row) const {
    t.store_shared(kept_sum_at(t, i), MaxSum{row.max, row.sum});
    FOLIO_UNROLL
    for (int g = 0; g < columns / 4; ++g) t.store_shared(kept_at(t, i, g), row.four(g));
  }

  const int lane_, warp_;
  Row rows_[C::first_kept > 0 ? C::first_kept : 1];
};

}  // namespace folio::cuda::mla
