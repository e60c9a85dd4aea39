// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_stored_entries.cpp: the tiles, compiled for AVX512-BF16.
#include "cpu/avx512_stored_entries.h"

#include "cpu/avx512/few_heads.h"
#include "cpu/avx512/target_bf16.h"
#include "cpu/avx512/target_f32.h"

namespace folio::test {
namespace {

struct F32 : avx512::F32Target<F32> {};
struct Bf16 : avx512::Bf16Target<Bf16> {};

/// Calls use.operator()<kernel, rows as they are stored>().
template <class Use>
void with_tiles(DType operand, DType stored, Use use) {
  if (operand == DType::bf16)
    return avx512::with_stored<Bf16>(
        stored, [&]<class Stored>(const Stored&) { use.template operator()<Bf16, Stored>(); });
  avx512::with_stored<F32>(
      stored, [&]<class Stored>(const Stored&) { use.template operator()<F32, Stored>(); });
}

struct Groups {
  explicit Groups(const StoredRows& rows) {
    for (int g = 0; g < 4; ++g)
      group[g] = {static_cast<const std::byte*>(rows.data) + g * 16 * rows.stride, rows.stride};
  }
  TileRows group[4];
};

}  // namespace

void avx512_words_of_stored(DType operand, DType stored, const void* elements, void* to) {
  with_tiles(operand, stored, [&]<class I, class Stored>() {
    constexpr int each = Stored::words_each;
    __m512i words[each];
    Stored{}.words(_mm512_loadu_si512(elements), words);
    for (int i = 0; i < 16; ++i)
      for (int w = 0; w < each; ++w)
        __builtin_memcpy(static_cast<uint32_t*>(to) + i * each + w,
                         reinterpret_cast<const uint32_t*>(&words[w]) + i, 4);
  });
}

void avx512_scores_of_stored(const StoredRows& keys, int head_size, int rows, const uint32_t* q,
                             float* to) {
  const Groups groups(keys);
  with_tiles(keys.operand, keys.stored, [&]<class I, class Stored>() {
    alignas(64) static thread_local float scores[8 * tile_keys];
    avx512::Pace pace;
    avx512::FewRows<I, Stored>::scores(4, {.q = q,
                                           .rows = rows,
                                           .steps = head_size / I::per_word,
                                           .groups = groups.group,
                                           .pace = &pace,
                                           .to = scores});
    for (int k = 0; k < 64; ++k)
      for (int r = 0; r < rows; ++r) to[k * 8 + r] = scores[r * tile_keys + k];
  });
}

void avx512_values_of_stored(const StoredRows& values, int head_size, int rows,
                             const uint32_t* weights, float* output) {
  const Groups groups(values);
  with_tiles(values.operand, values.stored, [&]<class I, class Stored>() {
    avx512::Pace pace;
    avx512::FewValues<I, Stored>::add({.weights = weights,
                                       .rows = rows,
                                       .groups = groups.group,
                                       .keys = 64,
                                       .output = output,
                                       .width = head_size,
                                       .pace = &pace});
  });
}

}  // namespace folio::test
