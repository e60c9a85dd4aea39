// SPDX-License-Identifier: Apache-2.0
/// bench/loops_x86_64_v3.cpp: reading, copying and multiplying with AVX2.
#include <immintrin.h>

#include "loops.h"

namespace folio::bench {
namespace {

struct Isa {
  typedef uint64_t Vec __attribute__((vector_size(32), may_alias));
};

template <class Store>
void copy(std::byte* to, const std::byte* from, int64_t bytes, Store store) {
  for (int64_t i = 0; i < bytes; i += 32)
    store(reinterpret_cast<__m256i*>(to + i),
          _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i)));
}

}  // namespace

PatternList read_patterns_x86_64_v3() {
  return {all_patterns<Isa>, static_cast<int>(sizeof all_patterns<Isa> / sizeof(ReadPattern))};
}

void copy_x86_64_v3(std::byte* to, const std::byte* from, int64_t bytes) {
  copy(to, from, bytes, [](__m256i* at, __m256i value) { _mm256_store_si256(at, value); });
}

void copy_non_temporal_x86_64_v3(std::byte* to, const std::byte* from, int64_t bytes) {
  copy(to, from, bytes, [](__m256i* at, __m256i value) { _mm256_stream_si256(at, value); });
  _mm_sfence();
}

int64_t fma_x86_64_v3(int64_t rounds, float* sink) {
  return fma_chains(rounds, sink, _mm256_set1_ps(1.0f),
                    [](auto a, auto b, auto c) { return _mm256_fmadd_ps(a, b, c); });
}

}  // namespace folio::bench
