// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_entries.cpp: the parts, compiled for x86-64-v4.
#include "cpu/avx512_entries.h"

#include "cpu/avx512/few_rows.h"
#include "cpu/avx512/products.h"
#include "cpu/convert/rows.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : Avx512Lanes {
  static constexpr int per_word = 1;
  static __m512 multiply_add(__m512i a, __m512i b, __m512 sum) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
};

}  // namespace

void avx512_exp2(bool looked_up, const float* x, float* to) {
  const __m512 v = _mm512_loadu_ps(x);
  _mm512_storeu_ps(
      to, looked_up ? avx512::exp2<avx512::Exp2Table>(v) : avx512::exp2<avx512::Exp2Polynomial>(v));
}

void avx512_widen(DType dtype, const void* from, float* to) {
  Rows<InstructionSet>::row_to<float>(dtype)(static_cast<const std::byte*>(from), to, 16);
}

void avx512_scores(int vectors, const float* q, const float* keys, int steps, float* to) {
  using Products = avx512::Products<InstructionSet>;
  alignas(64) static thread_local float scores[16 * Products::row_block];
  alignas(64) static thread_local uint32_t rows[256 * 64];
  __builtin_memcpy(rows, q, static_cast<size_t>(steps) * 64 * 4);
  avx512::ScoreCall<InstructionSet> call;
  call.q = rows;
  call.q_stride = 64;
  call.steps = steps;
  avx512::Pace pace;
  call.pace = &pace;
  alignas(64) float highest[64];
  for (float& x : highest) x = avx512::minus_infinity;
  call.highest = highest;
  const int64_t stride = int64_t{steps} * 4;
  for (int k = 0; k < 16; k += Products::keys_beside(vectors)) {
    call.keys = {reinterpret_cast<const std::byte*>(keys) + k * stride, stride};
    call.to = scores + k * Products::row_block;
    Products::scores(vectors, call);
  }
  for (int k = 0; k < 16; ++k) __builtin_memcpy(to + k * 16, scores + k * Products::row_block, 64);
}

void avx512_scores_of_few(int rows, const float* q, const float* keys, int steps, float* to) {
  using Few = avx512::FewRows<InstructionSet, avx512::Words<InstructionSet>>;
  alignas(64) static thread_local float scores[8 * tile_keys];
  static thread_local uint32_t words[8 * 256];
  const int padded = avx512::few_padded(rows);
  avx512::Pace pace;
  for (int w = 0; w < steps; ++w)
    __builtin_memcpy(words + w * padded, q + w * 64, static_cast<size_t>(padded) * 4);
  const int64_t stride = int64_t{steps} * 4;
  TileRows groups[3];
  for (int g = 0; g < 3; ++g)
    groups[g] = {reinterpret_cast<const std::byte*>(keys) + g * 16 * stride, stride};
  Few::scores(
      3,
      {.q = words, .rows = padded, .steps = steps, .groups = groups, .pace = &pace, .to = scores});
  for (int k = 0; k < 48; ++k)
    for (int r = 0; r < rows; ++r) to[k * 16 + r] = scores[r * tile_keys + k];
}

}  // namespace folio::test
