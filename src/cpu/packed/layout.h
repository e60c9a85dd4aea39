// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/layout.h: how the scratch memory of the kernel of codes is laid out.
///
/// C: codes of a row, padded (form.h); L: lanes of 16 bytes; S: words of four keys that are added
/// to one number for each lane and key. Registers of K's codes have a word of each of four keys in
/// each lane, those of q the same word four times.
///
///     q           [row_tile][C / 4][4][4]      i8, rounded by row, in the order of K's codes
///     q_start     [row_tile][S]                i32: what products with biased codes are less by
///     q_sums      [row_tile][S]                f32: sums of q that zero points are multiplied by
///     q_step      [row_tile]                   what 1 of q stands for
///     keys        [tile_keys / 4][C / 4][4][4] codes of K, those of four bits biased
///     key_scales  [tile_keys / 4][S]           and what is added, key_offsets, the same
///     scores      [row_tile][tile_keys]        logits, then probabilities
///     values      [tile_keys / 4][C][4]        codes of V, those of four keys side by side
///     value_scales  [granules][tile_keys]      and value_offsets, the same
///     weights     [granules][tile_keys]        u8: probabilities times V's scales, of one row
///     units       [slots][L][4]                what 1 of weights stands for; and offsets, what is
///                                              added to each column
///
/// ISA-safe: always-inline functions and plain structs only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/packed/form.h"
#include "cpu/skeleton/state.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/problem.h"
#include "kernel/support.h"

namespace folio::inline v1::packed {

inline constexpr int row_tile = 64;  // rows of a task
inline constexpr int granules_max = head_size_max / 16;

struct Scratch {
  int8_t* q = nullptr;
  int32_t* q_start = nullptr;
  float* q_sums = nullptr;
  float* q_step = nullptr;
  uint8_t* keys = nullptr;
  float* key_scales = nullptr;
  float* key_offsets = nullptr;
  float* scores = nullptr;
  float* rescale = nullptr;  // [row_tile]
  int8_t* values = nullptr;
  float* value_scales = nullptr;
  float* value_offsets = nullptr;
  uint32_t* weights = nullptr;
  float* units = nullptr;
  float* offsets = nullptr;
  float* row = nullptr;  // [head_size_max], and a register
  int64_t bytes = 0;
};

FOLIO_ALWAYS_INLINE Form key_form(const AttentionProblem& problem, int bytes) {
  return Form::of(problem.key, problem.key.head_size, has_granules(problem.key), bytes);
}
FOLIO_ALWAYS_INLINE Form value_form(const AttentionProblem& problem, int bytes) {
  return Form::of(problem.value, problem.v_head_size, has_granules(problem.value), bytes);
}

/// In registers of `register_bytes`. From null memory: the sizes alone.
FOLIO_ALWAYS_INLINE Scratch scratch_at(void* memory, const AttentionProblem& problem,
                                       int register_bytes) {
  const Form key = key_form(problem, register_bytes), value = value_form(problem, register_bytes);
  const int64_t words = key.words(), lanes = value.lanes();
  Scratch s;
  skeleton::Parts parts(memory);
  s.q = parts.take<int8_t>(int64_t{row_tile} * key.codes() * 4);
  s.q_start = parts.take<int32_t>(row_tile * words);
  s.q_sums = parts.take<float>(row_tile * words);
  s.q_step = parts.take<float>(row_tile);
  s.keys = parts.take<uint8_t>(int64_t{tile_keys} * key.codes());
  s.key_scales = parts.take<float>(tile_keys / 4 * words);
  s.key_offsets = parts.take<float>(tile_keys / 4 * words);
  s.scores = parts.take<float>(int64_t{row_tile} * tile_keys);
  s.rescale = parts.take<float>(row_tile);
  s.values = parts.take<int8_t>(int64_t{tile_keys} * value.codes());
  s.value_scales = parts.take<float>(int64_t{granules_max} * tile_keys);
  s.value_offsets = parts.take<float>(int64_t{granules_max} * tile_keys);
  s.weights = parts.take<uint32_t>(int64_t{granules_max} * tile_keys / 4);
  s.units = parts.take<float>(value.slots * lanes * 4);
  s.offsets = parts.take<float>(value.slots * lanes * 4);
  s.row = parts.take<float>(head_size_max + register_bytes / 4);
  s.bytes = parts.bytes();
  return s;
}

}  // namespace folio::inline v1::packed
