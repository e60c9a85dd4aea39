// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/fold.h: the result of a task's rows, over 16 columns of each tile of two: how spans
/// are folded into it, and how it is written.
///
/// Every warp holds its columns of all rows as accumulators of m16n8k16: lane l has rows l / 4 + 8i,
/// columns 2 (l % 4) and the next of each eight. There is one way to fold, `Result::add`, whether a
/// span comes from registers or from the workspace: same order, same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/mla/config.h"
#include "cuda/mla/rows.h"

namespace folio::cuda::mla {

struct alignas(8) Two {
  float x[2];
};

/// Accumulators of the warp's columns of 32 rows.
template <class C>
struct Columns {
  float x[2][C::column_tiles][4];

  FOLIO_DEVICE void clear() {
    FOLIO_UNROLL
    for (int m = 0; m < 2; ++m) {
      FOLIO_UNROLL
      for (int j = 0; j < C::column_tiles; ++j) {
        FOLIO_UNROLL
        for (int e = 0; e < 4; ++e) x[m][j][e] = 0;
      }
    }
  }
};

template <class C, class Thread>
class Result {
 public:
  FOLIO_DEVICE explicit Result(Thread& t)
      : lane_(t.lane()), warp_(t.warp()), column_(warp_ * C::columns + (lane_ & 3) * 2) {
    clear();
  }
  FOLIO_DEVICE void clear() {
    columns_.clear();
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) rows_[i] = {minus_infinity(), 0.0f};
  }

  /// The next span in ascending order. `row(r)` gives row r's MaxSum, `two(r, c)` columns c and
  /// c + 1 of it; they are not asked for of rows from `count` on, nor of rows that saw nothing.
  template <class Row, class TwoOf>
  FOLIO_DEVICE void add(Thread& t, int32_t count, Row row, TwoOf two) {
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = (lane_ >> 2) + 8 * i;
      if (r >= count) continue;
      const MaxSum part = row(i, r);
      if (part.sum == 0.0f) continue;
      MaxSum& total = rows_[i];
      const float top = fmaxf(total.max, part.max);
      const float base = top == minus_infinity() ? 0.0f : top;
      const float keep = t.exp2(total.max - base), add = t.exp2(part.max - base);
      total = {top, total.sum * keep + part.sum * add};
      FOLIO_UNROLL
      for (int j = 0; j < C::column_tiles; ++j) {
        const Two its = two(i, r, j);
        float* mine = &columns_.x[i / 2][j][i % 2 * 2];
        mine[0] = mine[0] * keep + its.x[0] * add;
        mine[1] = mine[1] * keep + its.x[1] * add;
      }
    }
  }

  /// A span, or a task's spans, to the workspace.
  FOLIO_DEVICE void store(Thread& t, const AttendCall& call, int32_t partial, int32_t count,
                          const MaxSum (&rows)[4], const Columns<C>& columns) const {
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = (lane_ >> 2) + 8 * i;
      if (r >= count) continue;
      const int64_t row = int64_t{partial} * C::rows + r;
      if (warp_ == 0 && (lane_ & 3) == 0) t.store(call.partial_rows + row, rows[i]);
      if (rows[i].sum == 0.0f) continue;
      FOLIO_UNROLL
      for (int j = 0; j < C::column_tiles; ++j)
        t.store(reinterpret_cast<Two*>(call.partials + row * C::v_head_size + column_ + j * 8),
                Two{{columns.x[i / 2][j][i % 2 * 2], columns.x[i / 2][j][i % 2 * 2 + 1]}});
    }
  }
  FOLIO_DEVICE void store(Thread& t, const AttendCall& call, int32_t partial, int32_t count) const {
    store(t, call, partial, count, rows_, columns_);
  }
  /// Adds partials [first, first + partials) of the workspace.
  FOLIO_DEVICE void add_stored(Thread& t, const AttendCall& call, int32_t first, int32_t partials,
                               int32_t count) {
    for (int32_t p = first; p < first + partials; ++p) {
      const int64_t rows = int64_t{p} * C::rows;
      add(
          t, count, [&](int, int r) { return t.load(call.partial_rows + rows + r); },
          [&](int, int r, int j) {
            return t.load(reinterpret_cast<const Two*>(call.partials + (rows + r) * C::v_head_size +
                                                       column_ + j * 8));
          });
    }
  }

  /// Output and lse of the rows; the sink logit joins here, once.
  FOLIO_DEVICE void write(Thread& t, const AttendCall& call, const TaskRows& rows) {
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = (lane_ >> 2) + 8 * i;
      if (r >= rows.count()) continue;
      const int32_t q_head = rows.q_head_of(r);
      const int64_t row = rows.sequence.first_query + rows.token_of(r);
      const bool is_empty = rows_[i].sum == 0.0f;
      float top = rows_[i].max, sum = rows_[i].sum, sink = minus_infinity();
      if (call.problem.sink_logits) {
        sink = t.read(call.args.sink_logits + q_head);
        const float s = to_log2(sink);
        if (s != minus_infinity()) {
          const float joined = fmaxf(s, top);
          sum = sum * t.exp2(top - joined) + t.exp2(s - joined);
          top = joined;
        }
      }
      const float factor =
          is_empty ? 0.0f : (rows_[i].max == top ? 1.0f : t.exp2(rows_[i].max - top)) / sum;
      auto* to = static_cast<std::byte*>(call.args.out.data) + row * call.args.out.stride_bytes[0] +
                 q_head * call.args.out.stride_bytes[1];
      FOLIO_UNROLL
      for (int j = 0; j < C::column_tiles; ++j) {
        const float* from = &columns_.x[i / 2][j][i % 2 * 2];
        write_two(t, call.problem.out_dtype, to, column_ + j * 8, from[0] * factor + 0.0f,
                  from[1] * factor + 0.0f);
      }
      if (call.args.lse == nullptr || warp_ != 0 || (lane_ & 3) != 0) continue;
      t.store(call.args.lse + row * call.problem.q_heads + q_head,
              is_empty ? sink : to_natural(top) + t.log2(sum) * ln_2);
    }
  }

 private:
  FOLIO_DEVICE static void write_two(Thread& t, DType dtype, std::byte* row, int column, float low,
                                     float high) {
    if (dtype == DType::f32) {
      auto* const to = reinterpret_cast<float*>(row) + column;
      if (reinterpret_cast<uintptr_t>(to) % 8 == 0)
        return t.store(reinterpret_cast<Two*>(to), Two{{low, high}});
      t.store(to, low);
      return t.store(to + 1, high);
    }
    const uint32_t pair = dtype == DType::bf16 ? t.template pack<DType::bf16>(low, high)
                                               : t.template pack<DType::f16>(low, high);
    auto* const to = reinterpret_cast<uint16_t*>(row) + column;
    if (reinterpret_cast<uintptr_t>(to) % 4 == 0)
      return t.store(reinterpret_cast<uint32_t*>(to), pair);
    t.store(to, static_cast<uint16_t>(pair));
    t.store(to + 1, static_cast<uint16_t>(pair >> 16));
  }

  const int lane_, warp_;
  const int column_;  // the first of this lane's
  MaxSum rows_[4];    // of rows l / 4 + 8i
  Columns<C> columns_;
};

}  // namespace folio::cuda::mla
