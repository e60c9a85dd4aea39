// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_softmax_entries.h: the weights of both AVX-512 kernels, with rows and with keys
/// in the lanes, and rows of output, behind functions that a baseline test may call.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::test {

/// At most 8 rows beside a tile of 64 keys.
struct WeighedRows {
  static constexpr int most = 8, keys_most = 64, width = 32;
  int rows = 0;
  int keys = 0;  ///< a multiple of 16
  float factor = 1.0f;
  bool is_scaled = false;  ///< weights times `scale`
  float score[most][keys_most] = {};
  float scale[keys_most] = {};
  uint64_t seen[most] = {};
  // state
  float maximum[most] = {};
  float denominator[most] = {};
  float output[most][width] = {};
  bool are_others_kept = true;  ///< states behind those of the rows that tiles compute
  // bits of the operands of the next product: f32, or bf16
  uint32_t weight[most][keys_most] = {};
};

/// `operand`: f32 or bf16, which the machine must have.
void avx512_weigh_many(DType operand, WeighedRows& rows);
void avx512_weigh_few(DType operand, WeighedRows& rows);

/// A block of rows of the bf16 kernel beside a tile of 64 keys, and their state.
struct WeighedBlock {
  static constexpr int rows = 64, keys = 64;
  float factor = 1.0f;
  alignas(64) float score[keys][rows] = {};
  float maximum[rows] = {};
  float denominator[rows] = {};
  uint32_t weight[keys / 2][rows] = {};  // pairs of keys
};

/// From all scores; no maximum moves.
void avx512_weigh_block(WeighedBlock& block);
/// Four keys after the others, as between score tiles. False: a row lacks a maximum, or one has to
/// move; then no denominator changes.
bool avx512_weigh_block_trailing(WeighedBlock& block);

/// A row of output of the bf16 kernel, in the order of its products, times `factor`, as bf16: at
/// once; or by way of f32. False: not at once.
bool avx512_write_bf16(const float* output, float factor, uint16_t* to, int width);
void avx512_write_bf16_by_f32(const float* output, float factor, uint16_t* to, int width);

}  // namespace folio::test
