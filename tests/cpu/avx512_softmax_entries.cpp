// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_softmax_entries.cpp: the weights, compiled for AVX512-BF16.
#include "cpu/avx512_softmax_entries.h"

#include <cstddef>

#include "cpu/avx512/few_softmax.h"
#include "cpu/avx512/target_bf16.h"
#include "cpu/avx512/target_f32.h"
#include "cpu/avx512/trailing_weights.h"
#include "cpu/convert/rows.h"

namespace folio::test {
namespace {

using avx512::lanes;

struct F32 : avx512::F32Target<F32> {};
struct Bf16 : avx512::Bf16Target<Bf16> {};

struct alignas(64) Memory {
  float scores[tile_keys * 64] = {};
  uint32_t weights[tile_keys * 64] = {};
  float scales[tile_keys] = {};
  float maximum[lanes], denominator[lanes];
  float output[lanes * WeighedRows::width] = {};
};

avx512::Column column_of(const WeighedRows& rows, Memory& memory) {
  for (int r = 0; r < lanes; ++r) {
    const bool is_row = r < rows.rows;
    memory.maximum[r] = is_row ? rows.maximum[r] : -__builtin_inff();
    memory.denominator[r] = is_row ? rows.denominator[r] : 0.0f;
  }
  for (int r = 0; r < rows.rows; ++r)
    __builtin_memcpy(memory.output + r * WeighedRows::width, rows.output[r], sizeof rows.output[r]);
  __builtin_memcpy(memory.scales, rows.scale, sizeof memory.scales);
  return {.scores = memory.scores,
          .weights = memory.weights,
          .keys = rows.keys,
          .rows = rows.rows,
          .factor = rows.factor,
          .value_scales = rows.is_scaled ? memory.scales : nullptr,
          .maximum = memory.maximum,
          .denominator = memory.denominator,
          .output = memory.output,
          .width = WeighedRows::width};
}

/// weight_at(row, key): the word that holds it.
template <class I, class WeightAt>
void read_back(const Memory& memory, WeighedRows& rows, const WeightAt& weight_at) {
  for (int r = 0; r < rows.rows; ++r) {
    rows.maximum[r] = memory.maximum[r];
    rows.denominator[r] = memory.denominator[r];
    __builtin_memcpy(rows.output[r], memory.output + r * WeighedRows::width, sizeof rows.output[r]);
    for (int k = 0; k < rows.keys; ++k) {
      const uint32_t word = weight_at(r, k);
      rows.weight[r][k] = I::per_word == 1 ? word : word >> (k % 2 * 16) & 0xffff;
    }
  }
}

template <class I>
void weigh_many(WeighedRows& rows) {
  constexpr int row_block = avx512::Softmax<I>::row_block;
  static thread_local Memory memory;
  memory = {};
  avx512::Column c = column_of(rows, memory);
  if (I::per_word == 1) c.weights = reinterpret_cast<uint32_t*>(c.scores);
  uint64_t seen[lanes] = {};
  for (int r = 0; r < rows.rows; ++r) {
    seen[r] = rows.seen[r];
    for (int k = 0; k < rows.keys; ++k) memory.scores[k * row_block + r] = rows.score[r][k];
  }
  c.written = lanes;
  softmax::LaneRows<I>{c.scores, row_block, c.keys}.hide(seen);
  avx512::Softmax<I>::weigh(c);
  read_back<I>(memory, rows,
               [&](int r, int k) { return c.weights[k / I::per_word * row_block + r]; });
}

template <class I>
void weigh_few(WeighedRows& rows) {
  using Few = avx512::FewSoftmax<I>;
  static thread_local Memory memory;
  memory = {};
  avx512::Column c = column_of(rows, memory);
  if (I::per_word == 1) c.weights = reinterpret_cast<uint32_t*>(c.scores);
  for (int r = 0; r < rows.rows; ++r) {
    for (int k = 0; k < rows.keys; ++k) memory.scores[r * Few::score_stride + k] = rows.score[r][k];
    Few::hide(c.scores, r, rows.keys, rows.seen[r]);
  }
  c.written = avx512::few_padded(rows.rows);
  const auto behind = [&](auto visit) {  // the state of the next head
    for (int r = c.written; r < lanes; ++r) {
      visit(memory.maximum[r], -1.0f);
      visit(memory.denominator[r], 3.0f);
      for (int d = 0; d < WeighedRows::width; ++d)
        visit(memory.output[r * WeighedRows::width + d], 5.0f);
    }
  };
  behind([](float& x, float value) { x = value; });
  Few::weigh(c);
  behind([&](float x, float value) { rows.are_others_kept &= x == value; });
  read_back<I>(memory, rows,
               [&](int r, int k) { return c.weights[r * Few::weight_stride + k / I::per_word]; });
}

struct alignas(64) BlockMemory {
  WeighedBlock block;
  float highest[WeighedBlock::rows], denominators[WeighedBlock::rows];
};
static_assert(offsetof(WeighedBlock, score) % 64 == 0);

avx512::Column column_of(WeighedBlock& block) {
  return {.scores = block.score[0],
          .weights = block.weight[0],
          .keys = WeighedBlock::keys,
          .rows = WeighedBlock::rows,
          .factor = block.factor,
          .maximum = block.maximum,
          .denominator = block.denominator};
}

}  // namespace

void avx512_weigh_block(WeighedBlock& block) {
  static thread_local BlockMemory memory;
  memory.block = block;
  const avx512::Column whole = column_of(memory.block);
  for (int first = 0; first < WeighedBlock::rows; first += lanes) {
    avx512::Column c = whole;
    c.rows = lanes;
    c.scores += first;
    c.weights += first;
    c.maximum += first;
    c.denominator += first;
    avx512::Softmax<Bf16>::weigh(c);
  }
  block = memory.block;
}

bool avx512_weigh_block_trailing(WeighedBlock& block) {
  using Trail = avx512::TrailingWeights<Bf16>;
  static thread_local BlockMemory memory;
  memory.block = block;
  for (int r = 0; r < WeighedBlock::rows; ++r) {
    memory.highest[r] = -__builtin_inff();
    for (const auto& key : block.score)
      if (key[r] > memory.highest[r]) memory.highest[r] = key[r];
  }
  Trail trail;
  bool counts = trail.begin(column_of(memory.block), memory.denominators);
  for (int k = Trail::keys_at_once; counts && k < WeighedBlock::keys; k += Trail::keys_at_once) {
    for (int v = 0; v < Trail::vectors; ++v) {
      const __m512 first = trail.weigh_two(v, 0);
      trail.add(v, first, trail.weigh_two(v, 2));
    }
    trail.advance();
  }
  counts = counts && trail.finish(memory.highest);
  block = memory.block;
  return counts;
}

void avx512_weigh_many(DType operand, WeighedRows& rows) {
  operand == DType::f32 ? weigh_many<F32>(rows) : weigh_many<Bf16>(rows);
}
void avx512_weigh_few(DType operand, WeighedRows& rows) {
  operand == DType::f32 ? weigh_few<F32>(rows) : weigh_few<Bf16>(rows);
}

bool avx512_write_bf16(const float* output, float factor, uint16_t* to, int width) {
  return Bf16::natural_bf16(output, factor, reinterpret_cast<std::byte*>(to), width);
}
void avx512_write_bf16_by_f32(const float* output, float factor, uint16_t* to, int width) {
  alignas(64) float row[576];
  Bf16::natural_order(output, factor, row, width);
  Rows<Bf16>::narrow(DType::bf16, row, to, width);
}

}  // namespace folio::test
