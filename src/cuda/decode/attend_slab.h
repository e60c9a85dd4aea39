// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/attend_slab.h: one slab: scores, a step of the softmax, values. By mma.sync, in
/// float32, weights rounded to V's type on their way into the product.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cuda/attention/output_row.h"
#include "cuda/decode/lane_rows.h"
#include "cuda/decode/queries.h"
#include "cuda/decode/span_state.h"

namespace folio::cuda {

template <class Config>
using RowsOf = std::conditional_t<Config::is_general, GeneralRows<Config>, PlainRows<Config>>;
template <class Config>
using QueriesOf =
    std::conditional_t<Config::has_registers, RegisterQueries<Config>, SharedQueries<Config>>;

/// Scores of a lane: keys 8 j + lane % 4 * 2 + e % 2 of the slab, row e / 2 of the lane.
using Scores = float[2][4];

FOLIO_DEVICE int key_of_score(int lane, int j, int e) { return j * 8 + (lane & 3) * 2 + (e & 1); }

/// Products of q and the slab's keys.
template <class Config, class Thread>
FOLIO_DEVICE void score(Thread& t, const QueriesOf<Config>& queries, uint32_t slab, Scores& s) {
  const int lane = t.lane();
  FOLIO_UNROLL
  for (int j = 0; j < 2; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
  const TileColumns keys(slab, (lane & 7) + ((lane & 16) >> 1), lane >> 3 & 1);
  FOLIO_UNROLL
  for (int k = 0; k < Config::head_size / 16; ++k) {
    uint32_t a[4], b[4];
    queries.get(t, k, a);
    t.template load_matrices<false>(b, keys.at(k));
    t.template multiply<Config::type>(s[0], a, b[0], b[1]);
    t.template multiply<Config::type>(s[1], a, b[2], b[3]);
  }
}

/// Products to logits in units of log2; -inf where the row does not see the key.
template <class Config, class Thread>
FOLIO_DEVICE void finish_scores(Thread& t, const AttendCall& a, const PlainRows<Config>& rows,
                                int32_t key, uint32_t alive, Scores& s) {
  const float scale = a.problem.scale * log2_e;
  FOLIO_UNROLL
  for (int j = 0; j < 2; ++j) {
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) s[j][e] *= scale;
  }
  if (alive == 0xffffu && rows.see_all(key)) return;
  const uint32_t seen[2] = {rows.seen(t, 0, key) & alive, rows.seen(t, 1, key) & alive};
  FOLIO_UNROLL
  for (int j = 0; j < 2; ++j) {
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e)
      if ((seen[e >> 1] >> key_of_score(t.lane(), j, e) & 1u) == 0) s[j][e] = minus_infinity();
  }
}

/// As above, with every option; returns bits of the keys that some row of the task sees.
template <class Config, class Thread>
FOLIO_DEVICE uint32_t finish_scores(Thread& t, const AttendCall& a, const GeneralRows<Config>& rows,
                                    int32_t key, uint32_t alive, Scores& s) {
  const uint32_t seen[2] = {rows.seen(t, a, 0, key) & alive, rows.seen(t, a, 1, key) & alive};
  const float of_softcap = inverse_softcap(a.problem);
  uint32_t used = 0;
  FOLIO_UNROLL
  for (int j = 0; j < 2; ++j) {
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int at = key_of_score(t.lane(), j, e);
      const bool is_seen = (seen[e >> 1] >> at & 1u) != 0;
      const auto terms = [&] { return rows.terms(t, a, e >> 1, key + at); };
      s[j][e] = is_seen ? logit(t, a.problem, of_softcap, terms, 0, s[j][e]) : minus_infinity();
    }
    FOLIO_UNROLL
    for (int e = 0; e < 2; ++e) {
      // NaN counts as seen
      const uint32_t lanes =
          t.ballot(!(s[j][e] == minus_infinity() && s[j][e + 2] == minus_infinity()));
      FOLIO_UNROLL
      for (int c = 0; c < 4; ++c)
        if ((lanes & 0x11111111u << c) != 0) used |= 1u << (j * 8 + c * 2 + e);
    }
  }
  return used;
}

/// 0 * NaN is NaN: rows of V that are not `used` become zero. `Fences`: a later copy that
/// overwrites them is one by tensor maps.
template <class Config, bool Fences, class Thread>
FOLIO_DEVICE void zero_values(Thread& t, uint32_t slab, uint32_t used) {
  constexpr int units = Config::row_bytes / 16;
  for (int i = t.lane(); i < Config::slab_keys * units; i += 32)
    if ((used >> (i / units) & 1u) == 0)
      t.store_shared(slab + Config::plane_bytes + tile_offset(i / units, i % units), FourFloats{});
  if constexpr (Fences) t.fence_async();
  t.sync_warp();
}

/// Scores become weights, relative to the rows' largest so far.
template <class Config, class Thread>
FOLIO_DEVICE void weigh(Thread& t, Scores& s, SpanState<Config>& state) {
  float rescale[2];
  FOLIO_UNROLL
  for (int i = 0; i < 2; ++i) {
    float top = fmaxf(fmaxf(s[0][2 * i], s[0][2 * i + 1]), fmaxf(s[1][2 * i], s[1][2 * i + 1]));
    top = fmaxf(top, t.shuffle_xor(top, 1));
    top = fmaxf(top, t.shuffle_xor(top, 2));
    top = fmaxf(top, state.max[i]);
    const float base = top == minus_infinity() ? 0.0f : top;
    rescale[i] = t.exp2(state.max[i] - base);
    state.max[i] = top;
    float sum = 0.0f;
    FOLIO_UNROLL
    for (int j = 0; j < 2; ++j) {
      FOLIO_UNROLL
      for (int e = 2 * i; e < 2 * i + 2; ++e) {
        s[j][e] = t.exp2(s[j][e] - base);
        sum += s[j][e];
      }
    }
    state.sum[i] = state.sum[i] * rescale[i] + sum;
  }
  if (t.ballot(rescale[0] != 1.0f || rescale[1] != 1.0f) == 0) return;  // times 1 changes no bit
  FOLIO_UNROLL
  for (int j = 0; j < SpanState<Config>::tiles; ++j) {
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) state.out[j][e] *= rescale[e >> 1];
  }
}

/// Weighted values into the state.
template <class Config, class Thread>
FOLIO_DEVICE void add_values(Thread& t, const Scores& s, uint32_t slab, SpanState<Config>& state) {
  const int lane = t.lane();
  const uint32_t weights[4] = {t.template pack<Config::type>(s[0][0], s[0][1]),
                               t.template pack<Config::type>(s[0][2], s[0][3]),
                               t.template pack<Config::type>(s[1][0], s[1][1]),
                               t.template pack<Config::type>(s[1][2], s[1][3])};
  const TileColumns values(slab + Config::plane_bytes, lane & 15, lane >> 4);
  FOLIO_UNROLL
  for (int j = 0; j < Config::head_size / 16; ++j) {
    uint32_t b[4];
    t.template load_matrices<true>(b, values.at(j));
    t.template multiply<Config::type>(state.out[2 * j], weights, b[0], b[1]);
    t.template multiply<Config::type>(state.out[2 * j + 1], weights, b[2], b[3]);
  }
}

/// The slab of the 16 keys from `key` on, `alive` of which the task's rows see.
template <class Config, class Loader, class Thread>
FOLIO_DEVICE void attend_slab(Thread& t, const AttendCall& a, const QueriesOf<Config>& queries,
                              const RowsOf<Config>& rows, int32_t key, uint32_t slab,
                              uint32_t alive, SpanState<Config>& state) {
  Scores s;
  score<Config>(t, queries, slab, s);
  uint32_t used = alive;
  if constexpr (Config::is_general)
    used = finish_scores(t, a, rows, key, alive, s);
  else
    finish_scores(t, a, rows, key, alive, s);
  if (used != (Loader::zeroes_dead_values ? alive : 0xffffu))
    zero_values<Config, !Loader::zeroes_dead_values>(t, slab, used);
  weigh<Config>(t, s, state);
  add_values<Config>(t, s, slab, state);
}

}  // namespace folio::cuda
