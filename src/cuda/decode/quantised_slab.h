// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_slab.h: attend_slab over 8-bit K and V.
///
///   K   8 bits are exact in f16; q . k by f16 products, times the key's factor
///   V   exact in bf16; weights times the key's factor, which need its range, rounded to bf16
///
/// One scale per token and head, or less, is such a factor, in float32. Where scales vary along a
/// head the factor is a power of two, no less than the largest of them; what is left, the ratio,
/// multiplies the elements while they are converted, which rounds these to f16 and bf16.
///
/// An ldmatrix.trans of pairs of bytes gives two columns of two keys in a register: four columns
/// that follow one another in the accumulators of two products.
#pragma once

#include <cstdint>

#include "cuda/decode/attend_slab.h"
#include "cuda/decode/quantised_config.h"
#include "cuda/decode/quantised_queries.h"
#include "cuda/decode/quantised_scales.h"

namespace folio::cuda {

namespace detail {

/// Two stored elements as floats; exact.
template <DType Stored, class Thread>
FOLIO_DEVICE TwoFloats floats_of(Thread& t, uint32_t pair) {
  if constexpr (Stored == DType::i8) {
    // 2^23 + 128 + x, x from -128 on
    const uint32_t bytes = pair ^ 0x8080u;
    const auto number = [](uint32_t byte) {
      return __builtin_bit_cast(float, 0x4b000000u | byte) - 8388736.0f;
    };
    return {{number(bytes & 0xffu), number(bytes >> 8 & 0xffu)}};
  } else {
    const uint32_t halves = Stored == DType::f8_e4m3
                                ? t.half_pair_of_e4m3(static_cast<uint16_t>(pair))
                                : t.half_pair_of_e5m2(static_cast<uint16_t>(pair));
    return {{t.template unpack<DType::f16>(halves, 0), t.template unpack<DType::f16>(halves, 1)}};
  }
}
/// As a pair of f16.
template <DType Stored, class Thread>
FOLIO_DEVICE uint32_t halves_of(Thread& t, uint32_t pair) {
  if constexpr (Stored == DType::f8_e4m3) {
    return t.half_pair_of_e4m3(static_cast<uint16_t>(pair));
  } else if constexpr (Stored == DType::f8_e5m2) {
    return t.half_pair_of_e5m2(static_cast<uint16_t>(pair));
  } else {
    const TwoFloats two = floats_of<Stored>(t, pair);
    return t.template pack<DType::f16>(two.x[0], two.x[1]);
  }
}

}  // namespace detail

/// Products of q and the slab's keys, scales included.
template <Quantised Config, class Thread>
FOLIO_DEVICE void score_bytes(Thread& t, const QueriesOf<Config>& queries, uint32_t slab,
                              const SlabScales<Config>& scales, Scores& s) {
  constexpr DType stored = Config::stored;
  const int lane = t.lane();
  FOLIO_UNROLL
  for (int j = 0; j < 2; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
  const ByteUnits<Config> keys(slab, lane & 15, lane >> 4);
  FOLIO_UNROLL
  for (int k = 0; k < Config::steps; k += 2) {
    uint32_t bytes[4];  // two steps of keys 0 - 7 and 8 - 15
    t.template load_matrices<false>(bytes, keys.at(k));
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int step = k + i / 2, j = i % 2;
      uint32_t a[4], b[2];
      queries.get(t, step, a);
      if constexpr (Config::has_ratios) {
        const FourFloats ratios = scales.ratios_of_key(t, step, j);
        FOLIO_UNROLL
        for (int half = 0; half < 2; ++half) {
          const auto two = detail::floats_of<stored>(t, bytes[i] >> (16 * half) & 0xffffu);
          b[half] = t.template pack<DType::f16>(two.x[0] * ratios.x[2 * half],
                                                two.x[1] * ratios.x[2 * half + 1]);
        }
      } else {
        b[0] = detail::halves_of<stored>(t, bytes[i] & 0xffffu);
        b[1] = detail::halves_of<stored>(t, bytes[i] >> 16);
      }
      t.template multiply<DType::f16>(s[j], a, b[0], b[1]);
    }
  }
  FOLIO_UNROLL
  for (int j = 0; j < 2; ++j) {
    const auto two = scales.factor(t, 0, key_of_score(lane, j, 0));
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) s[j][e] *= queries.factor(e / 2) * two.x[e % 2];
  }
}

/// V of keys that are not `used`, and its scales if they were staged, become zero: what lies there
/// may be NaN.
template <Quantised Config, class Thread>
FOLIO_DEVICE void zero_bytes(Thread& t, uint32_t slab, const SlabScales<Config>& scales,
                             uint32_t used) {
  constexpr int units = Config::row_bytes / 16;
  for (int i = t.lane(); i < Config::slab_keys * units; i += 32)
    if ((used >> (i / units) & 1u) == 0)
      t.store_shared(ByteUnits<Config>(slab + Config::plane_bytes, i / units, i % units).at(),
                     FourFloats{});
  const int key = t.lane();
  if constexpr (!Config::has_fine_granules)
    if (key < Config::slab_keys && (used >> key & 1u) == 0) scales.clear_value(t, key);
  t.sync_warp();
}

/// Weighted values into the state: out[2u] has columns 16u + 4j and + 2 of the lane's j = lane % 4,
/// out[2u + 1] those behind them.
template <Quantised Config, class Thread>
FOLIO_DEVICE void add_bytes(Thread& t, const Scores& s, uint32_t slab,
                            const SlabScales<Config>& scales, SpanState<Config>& state) {
  const int lane = t.lane();
  uint32_t weights[4];
  FOLIO_UNROLL
  for (int j = 0; j < 2; ++j) {
    const auto two = scales.factor(t, 1, key_of_score(lane, j, 0));
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i)
      weights[2 * j + i] =
          t.template pack<DType::bf16>(s[j][2 * i] * two.x[0], s[j][2 * i + 1] * two.x[1]);
  }
  const ByteUnits<Config> values(slab + Config::plane_bytes, lane & 15, lane >> 4);
  FOLIO_UNROLL
  for (int u = 0; u < Config::steps; u += 2) {
    // registers are short: nothing is loaded ahead
    if constexpr (Config::head_size == 256) t.sync_warp();
    uint32_t bytes[4];  // two units of keys 0 - 7 and 8 - 15
    t.template load_matrices<true>(bytes, values.at(u));
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) {
      uint32_t even[2], odd[2];
      FOLIO_UNROLL
      for (int j = 0; j < 2; ++j) {
        const uint32_t pairs = bytes[2 * i + j];
        auto first = detail::floats_of<Config::stored>(t, pairs & 0xffffu);
        auto second = detail::floats_of<Config::stored>(t, pairs >> 16);
        if constexpr (Config::has_ratios) {
          const FourFloats ratios = scales.ratios_of_values(t, u + i, j);
          FOLIO_UNROLL
          for (int c = 0; c < 2; ++c) {
            first.x[c] *= ratios.x[c];
            second.x[c] *= ratios.x[2 + c];
          }
        }
        even[j] = t.template pack<DType::bf16>(first.x[0], second.x[0]);
        odd[j] = t.template pack<DType::bf16>(first.x[1], second.x[1]);
      }
      t.template multiply<DType::bf16>(state.out[2 * (u + i)], weights, even[0], even[1]);
      t.template multiply<DType::bf16>(state.out[2 * (u + i) + 1], weights, odd[0], odd[1]);
    }
  }
}

template <class Config, class Loader, class Thread>
  requires Quantised<Config>
FOLIO_DEVICE void attend_slab(Thread& t, const AttendCall& a, const QueriesOf<Config>& queries,
                              const RowsOf<Config>& rows, int32_t key, uint32_t slab,
                              uint32_t alive, SpanState<Config>& state) {
  const SlabScales<Config> scales(t, slab);
  Scores s;
  uint32_t used = alive;
  if constexpr (Config::has_fine_granules) scales.stage(t, a.args.key.scales, 0, alive);
  score_bytes<Config>(t, queries, slab, scales, s);
  if constexpr (Config::is_general) {
    used = finish_scores(t, a, rows, key, alive, s);
    if (used != alive) zero_bytes<Config>(t, slab, scales, used);
  } else {
    finish_scores(t, a, rows, key, alive, s);
  }
  if constexpr (Config::has_fine_granules) scales.stage(t, a.args.value.scales, 1, used);
  weigh<Config>(t, s, state);
  add_bytes<Config>(t, s, slab, scales, state);
}

}  // namespace folio::cuda
