// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent_values.h: V of latent heads as B tiles, and its columns back in their natural order.
///
/// The rows of two keys are interleaved word by word within each 128-bit lane: one low and one high unpack for 32 dims. So the first tile of
/// 32 columns holds dims 0-3, 8-11, 16-19, 24-27 and the second the others, until the output is written.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent_layout.h"
#include "cpu/amx/stage_convert.h"

namespace folio {
inline namespace v1 {
namespace amx {

template <class I, class Sizes>
class ValueTiles {
 public:
  /// Rows that nobody sees must be zeros already.
  void begin(const TileRows (&groups)[Sizes::pass_tiles][4], int count, std::byte* to) {
    groups_ = groups;
    to_ = to;
    pair_ = 0;
    pairs_ = count * tile_keys / 2;
  }
  [[nodiscard]] bool is_done() const { return pair_ == pairs_; }

  /// Stages two keys.
  __attribute__((noinline)) void step() {
    const TileRows& group = groups_[pair_ / 32][pair_ / 8 % 4];
    const std::byte* const a = group.data + pair_ % 8 * 2 * group.stride_bytes;
    const std::byte* const b = a + group.stride_bytes;
    std::byte* const to = to_ + pair_ / 16 * Sizes::value_step_bytes + pair_ % 16 * 64;
    for (int chunk = 0; chunk < Sizes::v_tiles / 2; ++chunk) {
      const __m512i x = _mm512_loadu_si512(a + chunk * 64), y = _mm512_loadu_si512(b + chunk * 64);
      _mm512_store_si512(to + 2 * chunk * operand_tile_bytes, unpack_low<16>(x, y));
      _mm512_store_si512(to + (2 * chunk + 1) * operand_tile_bytes, unpack_high<16>(x, y));
    }
    ++pair_;
  }

  /// to [32] = from * factor + 0 (no negative zero), from having the order of two tiles.
  static FOLIO_ALWAYS_INLINE void natural_order(const float* from, float factor, float* to) {
    const __m512 f = _mm512_set1_ps(factor), zero = _mm512_setzero_ps();
    const __m512 a = _mm512_maskz_add_ps(every, _mm512_maskz_mul_ps(every, _mm512_loadu_ps(from), f), zero);
    const __m512 b = _mm512_maskz_add_ps(every, _mm512_maskz_mul_ps(every, _mm512_loadu_ps(from + 16), f), zero);
    const __m512i first = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
    const __m512i second = _mm512_set_epi32(31, 30, 29, 28, 15, 14, 13, 12, 27, 26, 25, 24, 11, 10, 9, 8);
    _mm512_storeu_ps(to, _mm512_maskz_permutex2var_ps(every, a, first, b));
    _mm512_storeu_ps(to + 16, _mm512_maskz_permutex2var_ps(every, a, second, b));
  }

  /// output [rows][width] *= factors [rows]. Denormal results become zero, as a multiplication of tiles would make them anyway.
  static __attribute__((noinline)) void rescale(float* output, const float* factors, int rows) {
    const __m512 smallest = _mm512_set1_ps(1.17549435e-38f);
    for (int r = 0; r < rows; ++r) {
      if (factors[r] == 1.0f) continue;
      const __m512 factor = _mm512_set1_ps(factors[r]);
      float* const row = output + int64_t{r} * Sizes::width;
      for (int d = 0; d < Sizes::v_depth; d += 16) {
        const __m512 x = _mm512_maskz_mul_ps(every, _mm512_loadu_ps(row + d), factor);
        const __mmask16 kept = _mm512_cmp_ps_mask(_mm512_abs_ps(x), smallest, _CMP_NLT_UQ);
        _mm512_storeu_ps(row + d, _mm512_maskz_mov_ps(kept, x));
      }
    }
  }

 private:
  static constexpr __mmask16 every = 0xffff;

  const TileRows (*groups_)[4] = nullptr;
  std::byte* to_ = nullptr;
  int pair_ = 0;
  int pairs_ = 0;
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
