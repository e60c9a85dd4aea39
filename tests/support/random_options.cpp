// SPDX-License-Identifier: Apache-2.0
/// tests/support/random_options.cpp: the draws, most usual things most often.
#include "support/random_options.h"
#include "support/block_dtypes.h"

#include <algorithm>
#include <numeric>

namespace folio::test {
namespace {

constexpr DType activations[] = {DType::f32, DType::bf16, DType::f16};
constexpr DType elements[] = {DType::f32,     DType::bf16,    DType::f16,
                              DType::f8_e4m3, DType::f8_e5m2, DType::i8};
constexpr DType scale_types[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0,
                                 DType::f8_e4m3};

constexpr DType packed[] = {DType::i4, DType::u4, DType::f4_e2m1, DType::i4_halves,
                            DType::u4_halves};

/// Whose rows are whole 32 elements.
bool is_block_type(DType dtype) { return block_elements(dtype) > 2; }

int32_t round_up(int32_t n, int32_t multiple) { return (n + multiple - 1) / multiple * multiple; }

ScaleOptions random_scales(Rng& rng, DType dtype) {
  ScaleOptions scales;
  if (folio::detail::is_block(dtype)) return scales;
  const bool is_packed = folio::detail::is_packed(dtype);
  const bool is_quantised = is_packed || bit_width(dtype) == 8;
  if (!is_packed && !rng.chance(is_quantised ? 0.9 : 0.1)) return scales;
  // append computes scales of quantised types alone: the first six kinds are calibrated
  const int64_t kinds =
      static_cast<int64_t>(is_quantised ? ScaleKind::behind_row : ScaleKind::calibrated_granule);
  scales.kind = rng.chance(0.5) && is_quantised ? ScaleKind::token_and_head
                                                : static_cast<ScaleKind>(rng.between(1, kinds));
  scales.dtype = rng.pick(scale_types);
  constexpr int32_t granularities[] = {1, 7, 8, 16, 24, 32, 64, 1000};
  scales.granularity = rng.pick(granularities);
  scales.tensor_scale = rng.chance(0.3);
  if ((dtype != DType::u4 && dtype != DType::u4_halves) || scales.kind == ScaleKind::behind_row)
    return scales;
  scales.zeros = static_cast<Zeros>(rng.between(0, 3));
  if (scales.zeros == Zeros::in_scale) scales.dtype = DType::f32;
  if (scales.zeros == Zeros::minimum) scales.dtype = rng.pick(activations);
  return scales;
}

/// Blocks of 16 to 512 that divide a head of `head_size`.
TurnOptions random_turn(Rng& rng, int32_t head_size) {
  TurnOptions turn;
  turn.channel_scales = rng.chance(0.2);
  int32_t block = 16;
  if (head_size % block != 0 || !rng.chance(0.6)) return turn;
  while (block < 512 && head_size % (2 * block) == 0 && rng.chance(0.7)) block *= 2;
  turn.hadamard = {block, rng.chance(0.5) ? static_cast<uint32_t>(rng.next()) : 0};
  return turn;
}

void draw_types(Rng& rng, CaseOptions& o) {
  o.q_dtype = rng.chance(0.3) ? DType::bf16 : rng.pick(activations);
  o.out_dtype = rng.pick(activations);
  const auto any = [&] {
    return rng.chance(0.2)   ? rng.pick(block_dtypes)
           : rng.chance(0.3) ? rng.pick(packed)
                             : rng.pick(elements);
  };
  o.key_dtype = any();
  o.value_dtype = rng.chance(0.6) ? o.key_dtype : any();
  o.key_scales = random_scales(rng, o.key_dtype);
  o.value_scales = rng.chance(0.5) && o.value_dtype == o.key_dtype
                       ? o.key_scales
                       : random_scales(rng, o.value_dtype);
  o.bf16_operands = rng.chance(0.3);
  o.int8_operands = rng.chance(0.3);
}

/// Products of integers are for few types and sizes.
void draw_packed(Rng& rng, CaseOptions& o) {
  const auto plane = [&rng](DType& dtype, ScaleOptions& scales, int32_t& head_size) {
    dtype = rng.chance(0.2) ? DType::i8 : rng.pick(packed);
    scales = random_scales(rng, dtype);
    scales.granularity = (1 << rng.int_between(0, 3)) * (dtype == DType::i4_halves ? 32 : 16);
    head_size = 32 * rng.int_between(1, 8);
  };
  plane(o.key_dtype, o.key_scales, o.head_size);
  plane(o.value_dtype, o.value_scales, o.v_head_size);
  o.value_in_key = false;
  o.int8_operands = true;
}

void draw_integers(Rng& rng, CaseOptions& o) {
  o.key_dtype = o.value_dtype = DType::i8;
  constexpr ScaleKind kinds[] = {ScaleKind::none,           ScaleKind::tensor,
                                 ScaleKind::head,           ScaleKind::page,
                                 ScaleKind::page_and_head,  ScaleKind::token_and_head,
                                 ScaleKind::token_and_head, ScaleKind::behind_row};
  o.key_scales.zeros = o.value_scales.zeros = Zeros::none;
  o.key_scales.kind = rng.pick(kinds);
  o.value_scales.kind = rng.pick(kinds);
  o.head_size = 64 * rng.int_between(1, 4);
  o.v_head_size = 64 * rng.int_between(1, 4);
  o.value_in_key = false;
  o.int8_operands = true;
}

void draw_heads(Rng& rng, CaseOptions& o) {
  constexpr int32_t groups[] = {1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 15, 16, 17, 24, 33, 71};
  constexpr int32_t kv_heads[] = {1, 1, 2, 2, 3, 4, 5, 8};
  const int32_t group = rng.pick(groups);
  o.kv_heads = group > 20 ? rng.int_between(1, 2) : rng.pick(kv_heads);
  o.q_heads = group * o.kv_heads;
  constexpr int32_t usual[] = {64, 64, 80, 96, 112, 128, 128, 192, 256};
  const auto size = [&] {
    return rng.chance(0.55)  ? rng.pick(usual)
           : rng.chance(0.9) ? 8 * rng.int_between(1, 20)
                             : 8 * rng.int_between(1, 72);
  };
  o.head_size = size();
  o.v_head_size = rng.chance(0.7) ? o.head_size : size();
  if (is_block_type(o.key_dtype)) o.head_size = round_up(o.head_size, 32);
  o.value_in_key = rng.chance(0.12);
  if (o.value_in_key) {
    o.v_head_size = std::min(o.v_head_size, o.head_size);
    o.value_dtype = o.key_dtype;
    o.value_scales = {};
  }
  if (is_block_type(o.value_dtype))
    o.v_head_size =
        o.value_in_key ? std::max(32, o.v_head_size / 32 * 32) : round_up(o.v_head_size, 32);
}

void draw_cache(Rng& rng, CaseOptions& o) {
  constexpr int32_t page_sizes[] = {1,  2,  3,  5,  8,   16,  16,  16,
                                    17, 32, 64, 64, 100, 128, 256, unbounded_page_size};
  o.page_size = rng.pick(page_sizes);
  o.key_order = static_cast<StorageOrder>(rng.between(0, 1));
  o.value_order = rng.chance(0.8) ? o.key_order : static_cast<StorageOrder>(rng.between(0, 1));
  constexpr int32_t gaps[] = {0, 0, 0, 4, 12, 16, 64, 128};
  o.gap_bytes = rng.chance(0.05) && o.page_size < 32 ? 4096 : rng.pick(gaps);
  o.row_gap_bytes = rng.chance(0.5) ? 0 : 4 * rng.int_between(0, 20);
  if (!o.value_in_key && rng.chance(0.25)) o.pair = static_cast<Pair>(rng.between(1, 3));
  o.table = static_cast<TableForm>(rng.between(0, 2));
  if (rng.chance(0.2)) o.unassigned = rng.chance(0.2) ? 1.0 : 0.3;
  o.shared = rng.chance(0.5) ? 0.0 : 0.5;
  if (rng.chance(0.35)) o.sharing = Sharing::forks;
}

/// About a multiple of what kernels and caches divide keys by, or anything.
int32_t random_context(Rng& rng, const CaseOptions& o) {
  const int32_t page = o.page_size == unbounded_page_size ? 16 : o.page_size;
  const int32_t edges[] = {1, 16, 64, 64, 128, 256, 512, page, page};
  if (rng.chance(0.1)) return rng.int_between(0, 3);
  if (rng.chance(0.05)) return 2048 + rng.int_between(-2, 70);
  if (rng.chance(0.6))
    return std::max(0, rng.pick(edges) * rng.int_between(1, 3) + rng.int_between(-1, 1));
  return rng.int_between(1, 400);
}

int32_t random_rows(Rng& rng) {
  if (rng.chance(0.4)) return 1;
  if (rng.chance(0.1)) return 0;
  if (rng.chance(0.6)) return rng.int_between(2, 9);
  constexpr int32_t edges[] = {15, 16, 17, 31, 32, 33, 64, 65, 100};
  return rng.pick(edges);
}

/// As long as an earlier sequence, or up to some tiles longer or shorter.
SequenceShape random_fork(Rng& rng, const CaseOptions& o) {
  const int32_t other = rng.pick(o.sequences).context;
  const int32_t more = rng.chance(0.4) ? 0 : rng.int_between(-70, 140);
  return {rng.chance(0.6) ? 1 : random_rows(rng), std::max(0, other + more)};
}

void draw_sequences(Rng& rng, CaseOptions& o) {
  o.sequences.clear();
  double left = 1.2e7;  // products of the reference
  const bool are_forks = o.sharing == Sharing::forks;
  const int32_t count = are_forks ? rng.int_between(2, 9) : rng.int_between(1, 6);
  for (int32_t i = 0; i < count; ++i) {
    SequenceShape s{random_rows(rng), random_context(rng, o)};
    if (are_forks && i > 0 && rng.chance(0.7)) s = random_fork(rng, o);
    if (s.new_tokens > s.context && rng.chance(0.8)) s.context += s.new_tokens;
    const double of_row =
        1.0 * o.q_heads * (o.head_size + o.v_head_size) * std::max({s.context, o.selected, 1});
    const double most = left / (are_forks ? 3 : 1);  // forks are several
    while (s.new_tokens > 1 && of_row * s.new_tokens > most) s.new_tokens /= 2;
    left -= of_row * s.new_tokens;
    o.sequences.push_back(s);
    if (left < 0.0) break;
  }
}

void draw_visibility(Rng& rng, CaseOptions& o) {
  if (rng.chance(0.15)) {
    constexpr int32_t lists[] = {1, 15, 16, 17, 63, 64, 65, 130, 300};
    o.selected = rng.pick(lists);
    o.selected_per_head = rng.chance(0.3);
    o.mask = rng.chance(0.5) ? Mask::causal() : Mask::full();
    return;
  }
  if (rng.chance(0.3)) o.mask = Mask::full();
  if (rng.chance(0.3))
    o.mask = Mask::sliding_window(rng.int_between(1, 150), rng.chance(0.5) ? 0 : 5);
  if (rng.chance(0.1)) o.mask = Mask::chunked(rng.int_between(1, 90), rng.chance(0.5));
  if (rng.chance(0.1))
    o.mask = {rng.int_between(-1, 70), rng.int_between(-1, 9), rng.int_between(0, 1) * 48,
              rng.int_between(0, 70)};
  o.intervals = rng.chance(0.1);
  if (rng.chance(0.2)) o.tree = static_cast<TreeForm>(rng.between(1, 3));
  o.query_positions = rng.chance(0.2);
  o.key_positions = rng.chance(0.2);
}

void draw_terms(Rng& rng, CaseOptions& o) {
  constexpr float scales[] = {0.0f, 0.0f, 0.0f, 0.07f, -0.11f};
  o.scale = rng.pick(scales);
  if (rng.chance(0.3)) o.softcap = rng.uniform(0.5f, 30.0f);
  o.sink_logits = rng.chance(0.3);
  o.sink_per_query = rng.chance(0.5);
  o.sink_dtype = rng.pick(activations);
  o.lse = rng.chance(0.7);
  constexpr float amplitudes[] = {0.0f, 0.1f, 3.0f, 3.0f, 3.0f, 3.0f, 20.0f};
  o.q_amplitude = rng.pick(amplitudes);
  if (o.selected > 0) return;
  o.alibi = rng.chance(0.2);
  o.alibi_positions = rng.chance(0.5);
  if (rng.chance(0.35)) o.bias = static_cast<BiasForm>(rng.between(1, 2));
  o.bias_per_sequence = rng.chance(0.5);
  o.bias_dtype = rng.pick(activations);
  o.bias_layout = static_cast<BiasLayout>(rng.between(0, 2));
}

}  // namespace

CaseOptions random_options(Rng& rng) {
  CaseOptions o;
  o.seed = rng.next();
  draw_types(rng, o);
  draw_heads(rng, o);
  if (rng.chance(0.12)) draw_integers(rng, o);
  if (rng.chance(0.12)) draw_packed(rng, o);
  if (rng.chance(0.4))
    o.key_turn =
        random_turn(rng, o.value_in_key ? std::gcd(o.head_size, o.v_head_size) : o.head_size);
  if (rng.chance(0.4) && !o.value_in_key) o.value_turn = random_turn(rng, o.v_head_size);
  draw_cache(rng, o);
  draw_visibility(rng, o);
  draw_terms(rng, o);
  draw_sequences(rng, o);
  o.reproducible = static_cast<Reproducible>(rng.between(0, 2));
  o.parallelism = rng.chance(0.5) ? 1 : rng.int_between(2, 9);
  return o;
}

}  // namespace folio::test
