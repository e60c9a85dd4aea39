// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/few_rows.h: scores of at most 8 rows: lanes = 16 keys.
///
///     16 bytes of each key ─ quarters ─▶ 4 vectors of 4 keys ─ turn ─▶ 4 of 16 keys x 4 bytes
///     ─ words (stored.h) ─▶ one word of all 16 keys, times that word of each row, broadcast
///
/// Groups of 16 keys lie beside one another in a tile, so that a broadcast serves them all and
/// there are chains of sums enough. Of rows far apart, which do not all stay in the first-level
/// cache, one group is taken at a time, and whole lines are turned: each is read once, not four
/// times. The chain of a score is that of Products::scores, word by word, so bits are too.
/// ISA-safe: templates on a tag type.
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
      const bool by_lines = turns_lines(call);
      with_rows(call.rows, [&]<int Rows>() {
        by_lines ? line_tile<Rows>(call) : count == 1 ? tile<1, Rows>(call) : tile<2, Rows>(call);
      });
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
  static constexpr int line_words = lanes * Stored::words_each;

  /// Whether 32 rows would not stay in the first-level cache for want of sets.
  static bool is_far(const FewCall& call) {
    return call.groups->stride_bytes > Tuning<I::per_word>::paired_stride_max;
  }
  /// Groups whose scores are computed together: two beside 8 rows or where keys are widened, so
  /// that loads of q serve both and there are chains enough.
  static int groups_beside(const FewCall& call) {
    return !is_far(call) && (call.rows == 8 || Stored::is_widened) ? 2 : 1;
  }
  /// Whether rows are whole lines, each better read once.
  static bool turns_lines(const FewCall& call) {
    return is_far(call) && call.steps % line_words == 0;
  }

  /// Calls use.operator()<rows>().
  template <class Use>
  FOLIO_ALWAYS_INLINE static void with_rows(int rows, Use use) {
    if (rows == 1) return use.template operator()<1>();
    if (rows == 2) return use.template operator()<2>();
    rows == 4 ? use.template operator()<4>() : use.template operator()<8>();
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
      multiply(stored, four_bytes, q, sum);
    }
    *call.pace = pace;
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g) store<Rows>(call, g, sum[g]);
  }

  /// One group, a line of each key at a time.
  template <int Rows>
  [[gnu::noinline]] static void line_tile(const FewCall& call) {
    const Stored stored;
    __m512 sum[1][Rows];
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) sum[0][r] = _mm512_setzero_ps();
    Pace pace = *call.pace;
    const uint32_t* q = call.q;
    const TileRows& keys = *call.groups;
    const std::byte* line = keys.data;
    for (int left = call.steps; left > 0; left -= line_words, line += 64) {
      __m512i four_bytes[4][1][4];
      load_lines(line, keys.stride_bytes, four_bytes);
      // no loop: g++ 12 would leave the array in memory
      next(stored, four_bytes[0], q, sum, pace);
      next(stored, four_bytes[1], q, sum, pace);
      next(stored, four_bytes[2], q, sum, pace);
      next(stored, four_bytes[3], q, sum, pace);
    }
    *call.pace = pace;
    store<Rows>(call, 0, sum[0]);
  }

  /// The words of 16 bytes of each key, times those of the rows.
  template <int Groups, int Rows>
  FOLIO_ALWAYS_INLINE static void multiply(const Stored& stored,
                                           const __m512i (&four_bytes)[Groups][4],
                                           const uint32_t* q, __m512 (&sum)[Groups][Rows]) {
    constexpr int each = Stored::words_each;
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
  /// The same of one group, and a step.
  template <int Rows>
  FOLIO_ALWAYS_INLINE static void next(const Stored& stored, const __m512i (&four_bytes)[1][4],
                                       const uint32_t*& q, __m512 (&sum)[1][Rows], Pace& pace) {
    pace.step();
    multiply(stored, four_bytes, q, sum);
    q += 4 * Stored::words_each * Rows;
  }

  /// Scores of group g.
  template <int Rows>
  FOLIO_ALWAYS_INLINE static void store(const FewCall& call, int g, const __m512 (&sum)[Rows]) {
    const __m512 scale =
        call.scales != nullptr ? _mm512_load_ps(call.scales + g * lanes) : splat(1.0f);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
      _mm512_store_ps(call.to + r * tile_keys + g * lanes, _mm512_mul_ps(sum[r], scale));
  }

  /// A line of each of 16 keys, as 4 bytes of all of them.
  FOLIO_ALWAYS_INLINE static void load_lines(const std::byte* line, int64_t stride,
                                             __m512i (&to)[4][1][4]) {
    __m512 x[4][4];  // [four keys][i]: bytes 4 i of all quarters
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        x[j][i] = _mm512_castsi512_ps(load_now(line + (j * 4 + i) * stride));
      turn_quarters(x[j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512 even[] = {quarters<0x88>(x[0][i], x[1][i]), quarters<0x88>(x[2][i], x[3][i])},
                   odd[] = {quarters<0xdd>(x[0][i], x[1][i]), quarters<0xdd>(x[2][i], x[3][i])};
      to[0][0][i] = _mm512_castps_si512(quarters<0x88>(even[0], even[1]));
      to[1][0][i] = _mm512_castps_si512(quarters<0x88>(odd[0], odd[1]));
      to[2][0][i] = _mm512_castps_si512(quarters<0xdd>(even[0], even[1]));
      to[3][0][i] = _mm512_castps_si512(quarters<0xdd>(odd[0], odd[1]));
    }
  }
  /// 0x88: the even quarters of both, 0xdd: the odd ones.
  template <int Which>
  FOLIO_ALWAYS_INLINE static __m512 quarters(__m512 a, __m512 b) {
    return _mm512_maskz_shuffle_f32x4(all_lanes, a, b, Which);
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
