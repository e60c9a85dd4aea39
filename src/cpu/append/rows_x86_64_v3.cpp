// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows_x86_64_v3.cpp: rows of tokens for x86-64-v3.
#include <immintrin.h>
#include "cpu/append/rows.h"
#include "cpu/append/writer.h"

namespace folio {
inline namespace v1 {
namespace {

struct Target {
  static constexpr int width = 8;
  static constexpr bool has_fma = true;
  template <class F>
  static F fma(F a, F b, F c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  template <class U>
  static U widen16(const void* from) {
    return reinterpret_cast<U>(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
  template <class U>
  static U widen8(const void* from) {
    return reinterpret_cast<U>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from))));
  }
  /// mask ? a : b, bit by bit
  template <class U>
  static U select(U mask, U a, U b) {
    return (mask & a) | (~mask & b);
  }
  template <class S, class F>
  static S to_integers(F x) {
    return reinterpret_cast<S>(_mm256_cvtps_epi32(x));
  }
  template <class U>
  static uint32_t largest_lane(U x) {
    const auto eight = reinterpret_cast<__m256i>(x);
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
  }
  static float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
  template <class U>
  static void stream(std::byte* to, U x) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(x));
  }
  static void fence() { _mm_sfence(); }

  /// Lanes below 2^16 (2^8) side by side. The instructions pack within 16 bytes; a permutation puts the parts in order.
  template <class U>
  static U pack16(U a, U b) {
    const __m256i words = _mm256_packus_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
    return reinterpret_cast<U>(_mm256_permute4x64_epi64(words, 0xd8));
  }
  template <class U>
  static U pack8(U a, U b, U c, U d) {
    const __m256i low = _mm256_packus_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
    const __m256i high = _mm256_packus_epi32(reinterpret_cast<__m256i>(c), reinterpret_cast<__m256i>(d));
    return in_order<U>(_mm256_packus_epi16(low, high));
  }
  template <class S>
  static auto pack8_signed(S a, S b, S c, S d) {
    using U = typename Simd<Target>::U;
    const __m256i low = _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
    const __m256i high = _mm256_packs_epi32(reinterpret_cast<__m256i>(c), reinterpret_cast<__m256i>(d));
    return in_order<U>(_mm256_packs_epi16(low, high));
  }

 private:
  template <class U>
  static U in_order(__m256i bytes) {
    return reinterpret_cast<U>(_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
};

}  // namespace

namespace x86_64_v3 {

void write_rows(const rows::Job* jobs, int num_jobs, const rows::Place* places, int64_t tokens) noexcept {
  rows::Writer<Target>::write(jobs, num_jobs, places, tokens);
}

void move_bytes(std::byte* to, const std::byte* from, int64_t bytes, bool streams) noexcept {
  rows::Writer<Target>::move(to, from, bytes, streams);
}

}  // namespace x86_64_v3
}  // namespace v1
}  // namespace folio
