// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_entries.cpp: the parts, compiled for x86-64-v4.
#include "cpu/avx512_entries.h"

#include "cpu/avx512/products.h"
#include "cpu/avx512/widen.h"

namespace folio::test {
namespace {

struct InstructionSet {
  static constexpr int per_word = 1;
  static __m512 multiply_add(__m512i a, __m512i b, __m512 sum) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
};

}  // namespace

void avx512_exp2(int degree, const float* x, float* to) {
  const __m512 v = _mm512_loadu_ps(x);
  _mm512_storeu_ps(to, degree == 3 ? avx512::exp2<3>(v) : avx512::exp2<5>(v));
}

void avx512_widen(DType dtype, const void* from, float* to) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  switch (dtype) {
    case DType::bf16: return avx512::widen_row<DType::bf16>(bytes, to, 16);
    case DType::f16: return avx512::widen_row<DType::f16>(bytes, to, 16);
    case DType::i8: return avx512::widen_row<DType::i8>(bytes, to, 16);
    case DType::f8_e4m3: return avx512::widen_row<DType::f8_e4m3>(bytes, to, 16);
    default: return avx512::widen_row<DType::f8_e5m2>(bytes, to, 16);
  }
}

void avx512_scores(int vectors, const float* q, const float* keys, int steps, float* to) {
  using Products = avx512::Products<InstructionSet>;
  alignas(64) static thread_local float scores[16 * Products::row_block];
  alignas(64) static thread_local uint32_t rows[256 * 64];
  __builtin_memcpy(rows, q, static_cast<size_t>(steps) * 64 * 4);
  avx512::ScoreCall call;
  call.q = rows;
  call.q_stride = 64;
  call.steps = steps;
  avx512::Pace pace;
  call.pace = &pace;
  const int64_t stride = int64_t{steps} * 4;
  for (int k = 0; k < 16; k += Products::keys_beside(vectors)) {
    call.keys = {reinterpret_cast<const std::byte*>(keys) + k * stride, stride};
    call.to = scores + k * Products::row_block;
    Products::scores(vectors, call);
  }
  for (int k = 0; k < 16; ++k) __builtin_memcpy(to + k * 16, scores + k * Products::row_block, 64);
}

void avx512_scores_of_few(int rows, bool two_groups, const float* q, const float* keys, int steps,
                          float* to) {
  using Products = avx512::Products<InstructionSet>;
  alignas(64) static thread_local float scores[32 * Products::row_block];
  static thread_local uint32_t words[8 * 256];
  const int padded = avx512::few_padded(rows);
  for (int r = 0; r < padded; ++r)
    for (int w = 0; w < steps; ++w)
      __builtin_memcpy(words + (w / 4 * padded + r) * 4 + w % 4, q + w * 64 + r, 4);
  avx512::ScoreCall call;
  call.q = words;
  call.steps = steps;
  avx512::Pace pace;
  call.pace = &pace;
  const int64_t stride = int64_t{steps} * 4;
  call.keys = {reinterpret_cast<const std::byte*>(keys), stride};
  if (two_groups) call.more = {call.keys.data + 15 * stride, -stride};
  call.to = scores;
  Products::scores_of_few(rows, call);
  for (int k = 0; k < (two_groups ? 32 : 16); ++k)
    __builtin_memcpy(to + k * 16, scores + k * Products::row_block, 64);
}

}  // namespace folio::test
