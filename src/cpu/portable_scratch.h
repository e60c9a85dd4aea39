// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable_scratch.h: tile sizes of the portable kernel and how its scratch memory is laid out.
///
///     q       [row_tile][head]            queries, scaled, f32
///     rows    [16][head]                  key rows on their way into `keys`
///     keys    [head][key_tile]            keys transposed: a lane is a key
///     values  [key_tile][v_head]          values, f32
///     scores  [row_tile][key_tile]        logits, then probabilities
///     span    State                       of the span under way
///     total   State                       folded spans
///
/// with head and v_head rounded up to 16 floats. A State is output [row_tile][v_head], maximum and denominator [row_tile]; a partial
/// in the workspace is a State too. ISA-safe: always-inline functions and plain structs only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/mask.h"
#include "folio/attention/problem.h"
#include "folio/core/host_device.h"

namespace folio {
inline namespace v1 {
namespace portable {

inline constexpr int row_tile = 64;     // rows that share one staged key tile
inline constexpr int key_tile = 64;     // keys of a tile; a visibility mask is one uint64
inline constexpr int span_keys = 2048;  // a multiple of key_tile, the same for every problem: per_query

/// Online softmax state of row_tile rows: o / denominator is the result, `maximum` the logit that o and denominator are relative to.
struct State {
  float* output = nullptr;       // [row_tile][stride]
  float* maximum = nullptr;      // [row_tile]
  float* denominator = nullptr;  // [row_tile]
};

struct Scratch {
  int32_t head = 0, v_head = 0;  // rounded up: row strides in floats
  float* q = nullptr;
  float* rows = nullptr;
  float* keys = nullptr;
  float* values = nullptr;
  float* scores = nullptr;
  float* rescale = nullptr;  // [row_tile]
  State span, total;
  Visible* visible = nullptr;  // [row_tile] per query token of the task
  uint64_t* seen = nullptr;    // [row_tile] per query token: which keys of the tile it sees
};

FOLIO_ALWAYS_INLINE constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

FOLIO_ALWAYS_INLINE constexpr int64_t state_floats(int64_t v_head) { return row_tile * (v_head + 2); }

FOLIO_ALWAYS_INLINE constexpr int64_t partial_bytes(const AttentionProblem& problem) {
  return round_up(state_floats(round_up(problem.v_head_size, 16)) * static_cast<int64_t>(sizeof(float)), 64);
}

FOLIO_ALWAYS_INLINE constexpr int64_t scratch_bytes(const AttentionProblem& problem) {
  const int64_t head = round_up(problem.key.head_size, 16), v_head = round_up(problem.v_head_size, 16);
  const int64_t floats = row_tile * head + 16 * head + head * key_tile + key_tile * v_head + row_tile * key_tile + row_tile +
                         2 * state_floats(v_head);
  return floats * static_cast<int64_t>(sizeof(float)) + row_tile * static_cast<int64_t>(sizeof(Visible) + sizeof(uint64_t));
}

FOLIO_ALWAYS_INLINE State state_at(float* memory, int64_t v_head) {
  State state;
  state.output = memory;
  state.maximum = memory + row_tile * v_head;
  state.denominator = state.maximum + row_tile;
  return state;
}

FOLIO_ALWAYS_INLINE Scratch scratch_at(void* memory, const AttentionProblem& problem) {
  Scratch s;
  s.head = static_cast<int32_t>(round_up(problem.key.head_size, 16));
  s.v_head = static_cast<int32_t>(round_up(problem.v_head_size, 16));
  float* next = static_cast<float*>(memory);
  const auto take = [&next](int64_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  s.q = take(int64_t{row_tile} * s.head);
  s.rows = take(int64_t{16} * s.head);
  s.keys = take(int64_t{s.head} * key_tile);
  s.values = take(int64_t{key_tile} * s.v_head);
  s.scores = take(int64_t{row_tile} * key_tile);
  s.rescale = take(row_tile);
  s.span = state_at(take(state_floats(s.v_head)), s.v_head);
  s.total = state_at(take(state_floats(s.v_head)), s.v_head);
  s.visible = reinterpret_cast<Visible*>(next);
  s.seen = reinterpret_cast<uint64_t*>(s.visible + row_tile);
  return s;
}

}  // namespace portable
}  // namespace v1
}  // namespace folio
