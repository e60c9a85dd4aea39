// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/queries.h: the queries of a task as the products read them: a word of each of
/// many rows side by side.
///
///     16 rows x 16 words, from where q lies ─ transposed in registers ─▶ [word][rows of the block]
///
/// Rows of a step lie scattered in q: they are requested before their turn. ISA-safe: templates on
/// a tag type.
#pragma once

#include <type_traits>

#include "cpu/avx512/layout.h"
#include "cpu/avx512/vectors.h"
#include "cpu/convert/rows.h"
#include "cpu/profile.h"
#include "cpu/skeleton/task_view.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::avx512 {

/// Some rows of a head: words [step][stride].
struct QueryRows {
  const uint32_t* words = nullptr;
  int64_t stride = 0;
};

template <class I>
class Queries {
 public:
  FOLIO_ALWAYS_INLINE Queries(const skeleton::TaskView& view, uint32_t* memory)
      : view_(view),
        memory_(memory),
        steps_(Base::steps(view.problem)),
        padded_rows_(Base::padded_rows(view.head_rows)) {}

  /// Those of head h from local row `row` on, as far as the block goes.
  [[nodiscard]] QueryRows rows(int h, int row) const {
    const int block = row / row_block;
    return {block_of(h, block) + row % row_block, stride(block)};
  }

  /// `spare`: 16 rows of the operands, where q is of another type.
  void load(std::byte* spare) const {
    const int ahead = machine_profile().rows.queries_ahead;
    skeleton::RowWalk at(view_), coming(view_);
    for (int i = 0; i < ahead && coming.row < view_.rows; ++i) coming.next();
    for (int h = 0; h < view_.task.heads; ++h)
      for (int first = 0; first < view_.head_rows; first += lanes) {
        const std::byte* rows[lanes];
        const int left = view_.head_rows - first, count = left < lanes ? left : lanes;
        for (int i = 0; i < count; ++i, at.next()) {
          rows[i] = view_.query(at.token, at.q_head);
          if (coming.row < view_.rows) {
            fetch(view_.query(coming.token, coming.q_head));
            coming.next();
          }
        }
        if (view_.problem.q_dtype != operand_type) convert(rows, count, spare);
        const int block = first / row_block;
        pack(rows, count, block_of(h, block) + first % row_block, stride(block));
      }
  }

 private:
  using Base = Layout<I::per_word>;
  using V = Simd<I>;
  using Operand = std::conditional_t<I::per_word == 1, float, bf16>;
  static constexpr int row_block = Base::row_block;
  static constexpr DType operand_type = dtype_of<Operand>;

  [[nodiscard]] int64_t stride(int block) const {
    const int left = padded_rows_ - block * row_block;
    return left < row_block ? left : row_block;
  }
  [[nodiscard]] uint32_t* block_of(int head, int block) const {
    return memory_ + int64_t{head * padded_rows_ + block * row_block} * steps_;
  }

  void fetch(const std::byte* row) const {
    const int64_t bytes = folio::row_bytes(view_.problem.q_dtype, view_.problem.key.head_size);
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i);
  }
  void convert(const std::byte* (&rows)[lanes], int count, std::byte* spare) const {
    const auto row_to = Rows<I>::template row_to<Operand>(view_.problem.q_dtype);
    for (int i = 0; i < count; ++i) {
      std::byte* const to =
          spare + int64_t{i} * Base::padded(view_.problem.key.head_size) * Base::element_bytes;
      row_to(rows[i], reinterpret_cast<Operand*>(to), view_.problem.key.head_size);
      rows[i] = to;
    }
  }

  /// Up to 16 rows, zeros beside them. A negative scale changes their sign.
  [[gnu::noinline]] void pack(const std::byte* const (&rows)[lanes], int count, uint32_t* to,
                              int64_t stride) const {
    const __m512i sign =
        _mm512_set1_epi32(static_cast<int32_t>(view_.problem.scale < 0.0f ? I::sign_bits : 0));
    const __mmask16 kept = first_lanes(stride);
    for (int word = 0; word < steps_; word += lanes, to += lanes * stride) {
      const int words = steps_ - word < lanes ? steps_ - word : lanes;
      typename V::F x[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        const __m512i row =
            i < count ? _mm512_maskz_loadu_epi32(first_lanes(words), rows[i] + int64_t{word} * 4)
                      : _mm512_setzero_si512();
        x[i] = reinterpret_cast<typename V::F>(_mm512_xor_si512(row, sign));
      }
      V::transpose(x);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        if (i < words)
          _mm512_mask_storeu_epi32(to + i * stride, kept, reinterpret_cast<__m512i>(x[i]));
    }
  }
  static __mmask16 first_lanes(int64_t count) {
    return static_cast<__mmask16>(count < lanes ? (1u << count) - 1 : 0xffffu);
  }

  const skeleton::TaskView& view_;
  uint32_t* const memory_;
  const int steps_;
  const int padded_rows_;  // of each head
};

}  // namespace folio::inline v1::avx512
