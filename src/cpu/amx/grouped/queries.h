// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/queries.h: the queries of a task as A tiles.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/grouped/layout.h"
#include "cpu/amx/grouped/stage_keys.h"
#include "cpu/amx/stage_convert.h"
#include "cpu/convert/rows.h"
#include "cpu/profile.h"
#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::amx {

/// `to`: [row tile][depth / 32][16 rows][32 dims]. Each head's rows are `head_state_rows` with
/// padding.
template <class I, class Sizes>
class GroupedQueries {
 public:
  GroupedQueries(const skeleton::TaskView& view, std::byte* to, int head_state_rows)
      : view_(view), to_(to), head_state_rows_(head_state_rows) {}

  /// The tiles of the rows that begin with row `state_row` of a State.
  [[nodiscard]] std::byte* tiles_of(int state_row) const {
    return to_ + state_row / row_tile * tiles_bytes;
  }

  /// Rows and dims that there are not are zero. A negative scale changes the queries' sign.
  void load() const {
    const int ahead = machine_profile().rows.queries_ahead;
    const auto query_bytes =
        static_cast<int>(row_bytes(view_.problem.q_dtype, view_.problem.key.head_size));
    alignas(64) bf16 converted[Sizes::depth];
    skeleton::RowWalk at(view_), coming(view_);
    for (int i = 0; i < ahead && coming.row < view_.rows; ++i) coming.next();
    for (int h = 0; h < view_.task.heads; ++h)
      for (int row = 0; row < head_state_rows_; ++row) {
        const std::byte* from = nullptr;
        if (row < view_.head_rows) {
          from = in_bf16(view_.query(at.token, at.q_head), converted);
          at.next();
          if (coming.row < view_.rows) {
            const std::byte* const next = view_.query(coming.token, coming.q_head);
            for (int i = 0; i < query_bytes; i += 64) __builtin_prefetch(next + i);
            coming.next();
          }
        }
        store(from, tiles_of(h * head_state_rows_ + row) + row % row_tile * 64);
      }
  }

 private:
  static constexpr int64_t tiles_bytes = Sizes::depth / 32 * tile_bytes;

  /// The query where it lies, or converted.
  const std::byte* in_bf16(const std::byte* query, bf16* to) const {
    if (view_.problem.q_dtype == DType::bf16) return query;
    Rows<I>::template row_to<bf16>(view_.problem.q_dtype)(query, to, view_.problem.key.head_size);
    return reinterpret_cast<const std::byte*>(to);
  }

  /// Zeros from null.
  void store(const std::byte* from, std::byte* to) const {
    const __m512i sign =
        _mm512_set1_epi32(view_.problem.scale < 0.0f ? static_cast<int>(0x80008000u) : 0);
    const int row_bytes = view_.problem.key.head_size * 2;
    for (int at = 0; at < Sizes::depth * 2; at += 64, to += tile_bytes) {
      const int left = from != nullptr ? row_bytes - at : 0;
      _mm512_store_si512(to, left > 0 ? _mm512_xor_si512(load_bytes(from + at, left), sign)
                                      : _mm512_setzero_si512());
    }
  }

  const skeleton::TaskView& view_;
  std::byte* const to_;
  const int head_state_rows_;
};

}  // namespace folio::inline v1::amx
