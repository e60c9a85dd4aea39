// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_bytes_entries.cpp: the tiles, compiled for AVX512-BF16.
#include "cpu/avx512_bytes_entries.h"

#include "cpu/avx512/few_rows.h"
#include "cpu/avx512/few_values.h"
#include "cpu/avx512/target_bf16.h"

namespace folio::test {
namespace {

struct InstructionSet : avx512::Bf16Target<InstructionSet> {};

template <DType D>
using Bytes = avx512::Bytes<InstructionSet, D>;

template <class Use>
void with_stored(DType dtype, Use use) {
  switch (dtype) {
    case DType::i8: return use(Bytes<DType::i8>{});
    case DType::f8_e4m3: return use(Bytes<DType::f8_e4m3>{});
    case DType::f8_e5m2: return use(Bytes<DType::f8_e5m2>{});
    default: use(avx512::Words<InstructionSet>{});
  }
}

struct Groups {
  explicit Groups(const StoredRows& rows) {
    for (int g = 0; g < 4; ++g)
      group[g] = {static_cast<const std::byte*>(rows.data) + g * 16 * rows.stride, rows.stride};
  }
  TileRows group[4];
};

}  // namespace

void avx512_words_of_bytes(DType dtype, const void* elements, uint16_t* to) {
  with_stored(dtype, [&]<class Stored>(const Stored& stored) {
    if constexpr (Stored::is_widened) {
      __m512i words[2];
      stored.words(_mm512_loadu_si512(elements), words);
      for (int i = 0; i < 16; ++i)
        for (int w = 0; w < 2; ++w)
          __builtin_memcpy(to + i * 4 + w * 2, reinterpret_cast<const uint32_t*>(&words[w]) + i, 4);
    }
  });
}

void avx512_scores_of_stored(const StoredRows& keys, int head_size, int rows, const uint32_t* q,
                             float* to) {
  alignas(64) static thread_local float scores[8 * tile_keys];
  const Groups groups(keys);
  avx512::Pace pace;
  with_stored(keys.dtype, [&]<class Stored>(const Stored&) {
    avx512::FewRows<InstructionSet, Stored>::scores(4, {.q = q,
                                                        .rows = rows,
                                                        .steps = head_size / 2,
                                                        .groups = groups.group,
                                                        .pace = &pace,
                                                        .to = scores});
  });
  for (int k = 0; k < 64; ++k)
    for (int r = 0; r < rows; ++r) to[k * 8 + r] = scores[r * tile_keys + k];
}

void avx512_values_of_stored(const StoredRows& values, int head_size, int rows,
                             const uint32_t* weights, float* output) {
  const Groups groups(values);
  avx512::Pace pace;
  with_stored(values.dtype, [&]<class Stored>(const Stored&) {
    avx512::FewValues<InstructionSet, Stored>::add({.weights = weights,
                                                    .rows = rows,
                                                    .groups = groups.group,
                                                    .keys = 64,
                                                    .output = output,
                                                    .width = head_size,
                                                    .pace = &pace});
  });
}

}  // namespace folio::test
