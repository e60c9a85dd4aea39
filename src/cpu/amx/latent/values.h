// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/values.h: V of latent heads as staged B tiles, and rows of output in their
/// natural order.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent/layout.h"
#include "cpu/amx/transpose.h"
#include "cpu/avx512/output.h"
#include "cpu/skeleton/mutant.h"

namespace folio::inline v1::amx {

/// Interleaves rows of keys k and k + 16, a chunk of 32 columns at a time: a low and a high unpack
/// within 128-bit lanes. So the first tile of a chunk holds dims 0-3, 8-11, 16-19 and 24-27, the
/// second the others.
template <class I, class Sizes>
class LatentValues {
 public:
  /// Rows of `groups` that nobody sees must be zeros already.
  void begin(const TileRows* groups, int count, int chunk, std::byte* to) {
    groups_ = groups;
    end_ = groups + count;
    column_bytes_ = chunk * 64;
    to_ = to;
  }
  [[nodiscard]] bool is_done() const { return groups_ == end_; }

  /// Stages 32 keys: two tiles.
  __attribute__((noinline)) void step() {
    const int first = I::mutant == Mutant::value_order_wrong ? 1 : 0;
    const TileRows low = groups_[first], high = groups_[1 - first];
    const std::byte* const a = low.data + column_bytes_;
    const std::byte* const b = high.data + column_bytes_;
    for (int key = 0; key < 16; ++key) {
      const __m512i x = _mm512_loadu_si512(a + key * low.stride_bytes),
                    y = _mm512_loadu_si512(b + key * high.stride_bytes);
      _mm512_store_si512(to_ + key * 64, unpack_low<16>(x, y));
      _mm512_store_si512(to_ + operand_tile_bytes + key * 64, unpack_high<16>(x, y));
    }
    groups_ += 2;
    to_ += 2 * operand_tile_bytes;
  }

 private:
  const TileRows* groups_ = nullptr;
  const TileRows* end_ = nullptr;
  int64_t column_bytes_ = 0;
  std::byte* to_ = nullptr;
};

template <class I, class Sizes>
struct LatentOutput {
  /// to [32] = from * factor + 0 (no negative zero). from: a chunk as its two tiles have it, of
  /// staged values or of values in place.
  static FOLIO_ALWAYS_INLINE void natural_order(const float* from, bool staged, float factor,
                                                float* to) {
    if (staged) return avx512::Output::unpacked(from, factor, to);
    const __m512 even = avx512::Output::scaled(_mm512_load_ps(from), factor);
    const __m512 odd = avx512::Output::scaled(_mm512_load_ps(from + 16), factor);
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_store_ps(to, _mm512_maskz_permutex2var_ps(every, even, first, odd));
    _mm512_store_ps(to + 16, _mm512_maskz_permutex2var_ps(every, even, second, odd));
  }

  /// output [rows][width], columns [0, n), *= factors [rows]. Denormal results become zero, as a
  /// product of tiles would make them anyway: whether one follows depends on what other rows see.
  static __attribute__((noinline)) void rescale(float* output, const float* factors, int rows,
                                                int n) {
    const __m512 smallest = _mm512_set1_ps(1.17549435e-38f);
    for (int r = 0; r < rows; ++r) {
      if (factors[r] == 1.0f) continue;
      const __m512 factor = _mm512_set1_ps(factors[r]);
      float* const row = output + int64_t{r} * Sizes::width;
      for (int d = 0; d < n; d += 16) {
        const __m512 x = _mm512_maskz_mul_ps(every, _mm512_loadu_ps(row + d), factor);
        const __mmask16 kept = _mm512_cmp_ps_mask(_mm512_abs_ps(x), smallest, _CMP_NLT_UQ);
        _mm512_storeu_ps(row + d, _mm512_maskz_mov_ps(kept, x));
      }
    }
  }

 private:
  static constexpr __mmask16 every = 0xffff;
};

}  // namespace folio::inline v1::amx
