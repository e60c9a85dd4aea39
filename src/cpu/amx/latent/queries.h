// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/queries.h: the queries of a task as B tiles.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent/layout.h"
#include "cpu/amx/stage_convert.h"
#include "cpu/amx/transpose.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::amx {

/// `to`: [row tile][depth / 32][16 dim pairs][16 rows][2]. Each head's rows are `head_state_rows`
/// with padding.
template <class I, class Sizes>
class LatentQueries {
 public:
  LatentQueries(const skeleton::TaskView& view, std::byte* to, int head_state_rows)
      : view_(view), to_(to), head_state_rows_(head_state_rows) {}

  /// The tiles of the rows that begin with row `state_row` of a State.
  [[nodiscard]] std::byte* tiles_of(int state_row) const {
    return to_ + state_row / tile_rows * Sizes::query_tile_bytes;
  }

  /// Lanes without a row, and dims that there are not, are zero. A negative scale changes the
  /// queries' sign.
  void load() const {
    const int sign = view_.problem.scale < 0.0f ? static_cast<int>(0x80008000u) : 0;
    const int row_bytes = view_.problem.key.head_size * 2;
    const DType type = view_.problem.q_dtype;
    const auto convert = Rows<I>::template row_to<bf16>(type);
    alignas(64) bf16 converted[32];
    for (int h = 0; h < view_.task.heads; ++h)
      for (int first = 0; first < view_.head_rows; first += tile_rows)
        for (int step = 0; step < Sizes::k_steps; ++step) {
          __m512i rows[tile_rows];
          for (int i = 0; i < tile_rows; ++i) {
            const int count = first + i < view_.head_rows ? row_bytes - step * 64 : 0;
            const std::byte* query = nullptr;
            if (count > 0) {
              query = view_.query(h * view_.head_rows + first + i) +
                      folio::row_bytes(type, int64_t{step} * 32);
              if (type != DType::bf16) {
                convert(query, converted, count < 64 ? count / 2 : 32);
                query = reinterpret_cast<const std::byte*>(converted);
              }
            }
            rows[i] = count > 0 ? _mm512_maskz_xor_epi32(0xffff, load_bytes(query, count),
                                                         _mm512_set1_epi32(sign))
                                : _mm512_setzero_si512();
          }
          std::byte* const to = tiles_of(h * head_state_rows_ + first) + step * operand_tile_bytes;
          transpose_dwords(rows,
                           [to](int i, __m512i row) { _mm512_store_si512(to + i * 64, row); });
        }
  }

 private:
  const skeleton::TaskView& view_;
  std::byte* const to_;
  const int head_state_rows_;
};

}  // namespace folio::inline v1::amx
