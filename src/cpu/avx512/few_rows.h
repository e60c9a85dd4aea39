// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/few_rows.h: scores of at most 8 rows: lanes = 16 keys.
///
///     16 bytes of each key ─ quarters ─▶ 4 vectors of 4 keys ─ turn ─▶ 4 of 16 keys x 4 bytes
///     ─ words (stored.h) ─▶ one word of all 16 keys, times that word of each row, broadcast
///
/// Groups of 16 keys lie beside one another in a tile, so that a broadcast serves them all and
/// there are chains of sums enough. The chain of a score is that of Products::scores, word by word,
/// so bits are too. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/layout.h"
#include "cpu/avx512/requests.h"
#include "cpu/avx512/stored.h"
#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

/// What a tile multiplies.
struct FewCall {
  const uint32_t* q = nullptr;       // [steps][rows]
  int rows = 0;                      // 1, 2, 4 or 8
  int steps = 0;                     // words of a row: whole 16 bytes as they are stored
  const TileRows* groups = nullptr;  // of 16 keys
  Pace* pace = nullptr;              // one step for each group and 16 bytes
  const float* scales = nullptr;     // of the scores of each key, [16 of each group]; or null
  float* to = nullptr;               // [rows][64 keys]
};

template <class I, class Stored>
class FewRows {
 public:
  static void scores(int groups, FewCall call) {
    for (int left = groups; left > 0;) {
      const int count = left == 1 ? 1 : groups_beside(call);
      count == 1 ? scores_of<1>(call) : scores_of<2>(call);
      left -= count;
      call.groups += count;
      call.to += count * lanes;
      if (call.scales != nullptr) call.scales += count * lanes;
    }
  }
  /// Steps at which a call for so many groups requests lines.
  static int64_t score_steps(int groups, int steps) {
    return int64_t{groups} * (steps / (4 * Stored::words_each));
  }

 private:
  /// Groups whose scores are computed together: two beside 8 rows or where keys are widened, so
  /// that loads of q serve both and there are chains enough, unless 32 rows would not stay in the
  /// cache for want of sets.
  static int groups_beside(const FewCall& call) {
    const bool is_near = call.groups->stride_bytes <= Tuning<I::per_word>::paired_stride_max;
    return is_near && (call.rows == 8 || Stored::is_widened) ? 2 : 1;
  }

  template <int Groups>
  static void scores_of(const FewCall& call) {
    if (call.rows == 1) return tile<Groups, 1>(call);
    if (call.rows == 2) return tile<Groups, 2>(call);
    call.rows == 4 ? tile<Groups, 4>(call) : tile<Groups, 8>(call);
  }

  template <int Groups, int Rows>
  [[gnu::noinline]] static void tile(const FewCall& call) {
    constexpr int each = Stored::words_each;
    const Stored stored;
    __m512 sum[Groups][Rows];
    for (auto& group : sum)
      for (__m512& row : group) row = _mm512_setzero_ps();
    const std::byte* quarter[Groups][4];
    for (int g = 0; g < Groups; ++g)
      for (int i = 0; i < 4; ++i)
        quarter[g][i] = call.groups[g].data + i * 4 * call.groups[g].stride_bytes;
    Pace pace = *call.pace;
    const uint32_t* q = call.q;
    for (int left = call.steps; left > 0; left -= 4 * each, q += 4 * each * Rows) {
      __m512i four_bytes[Groups][4];
#pragma GCC unroll 2
      for (int g = 0; g < Groups; ++g) {
        const int64_t stride = call.groups[g].stride_bytes;
        load(quarter[g], stride, four_bytes[g]);
        pace.step();
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) quarter[g][i] += 16;
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        __m512i word[Groups][each];
#pragma GCC unroll 2
        for (int g = 0; g < Groups; ++g) stored.words(four_bytes[g][i], word[g]);
#pragma GCC unroll 4
        for (int w = 0; w < each; ++w)
#pragma GCC unroll 8
          for (int r = 0; r < Rows; ++r) {
            const __m512i of_row = broadcast(q + (i * each + w) * Rows + r);
#pragma GCC unroll 2
            for (int g = 0; g < Groups; ++g)
              sum[g][r] = I::multiply_add(word[g][w], of_row, sum[g][r]);
          }
      }
    }
    *call.pace = pace;
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g) {
      const __m512 scale =
          call.scales != nullptr ? _mm512_load_ps(call.scales + g * lanes) : splat(1.0f);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r)
        _mm512_store_ps(call.to + r * tile_keys + g * lanes, _mm512_mul_ps(sum[g][r], scale));
    }
  }

  /// 16 bytes of each of 16 keys, as 4 bytes of all of them.
  FOLIO_ALWAYS_INLINE static void load(const std::byte* const (&quarter)[4], int64_t stride,
                                       __m512i (&to)[4]) {
    __m512 x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm512_castsi512_ps(quarters(quarter[0] + i * stride, quarter[1] + i * stride,
                                          quarter[2] + i * stride, quarter[3] + i * stride));
    }
    turn_quarters(x);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) to[i] = _mm512_castps_si512(x[i]);
  }
  /// 16 bytes from each.
  FOLIO_ALWAYS_INLINE static __m512i quarters(const std::byte* a, const std::byte* b,
                                              const std::byte* c, const std::byte* d) {
    const auto piece = [](const std::byte* from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    };
    __m512i all = _mm512_zextsi128_si512(piece(a));
    all = _mm512_maskz_inserti32x4(all_lanes, all, piece(b), 1);
    all = _mm512_maskz_inserti32x4(all_lanes, all, piece(c), 2);
    return _mm512_maskz_inserti32x4(all_lanes, all, piece(d), 3);
  }
};

}  // namespace folio::inline v1::avx512
