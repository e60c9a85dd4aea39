// SPDX-License-Identifier: Apache-2.0
/// bench/loops_x86_64_v4.cpp: reading, copying and multiplying with AVX-512.
#include <immintrin.h>

#include "loops.h"

namespace folio::bench {
namespace {

struct Isa {
  typedef uint64_t Vec __attribute__((vector_size(64), may_alias));
};

template <class Store>
void copy(std::byte* to, const std::byte* from, int64_t bytes, Store store) {
  for (int64_t i = 0; i < bytes; i += 64)
    store(reinterpret_cast<__m512i*>(to + i),
          _mm512_load_si512(reinterpret_cast<const __m512i*>(from + i)));
}

}  // namespace

PatternList read_patterns_x86_64_v4() {
  return {all_patterns<Isa>, static_cast<int>(sizeof all_patterns<Isa> / sizeof(ReadPattern))};
}

void copy_x86_64_v4(std::byte* to, const std::byte* from, int64_t bytes) {
  copy(to, from, bytes, [](__m512i* at, __m512i value) { _mm512_store_si512(at, value); });
}

void copy_non_temporal_x86_64_v4(std::byte* to, const std::byte* from, int64_t bytes) {
  copy(to, from, bytes, [](__m512i* at, __m512i value) { _mm512_stream_si512(at, value); });
  _mm_sfence();
}

int64_t fma_x86_64_v4(int64_t rounds, float* sink) {
  return fma_chains(rounds, sink, _mm512_set1_ps(1.0f),
                    [](auto a, auto b, auto c) { return _mm512_fmadd_ps(a, b, c); });
}

}  // namespace folio::bench
