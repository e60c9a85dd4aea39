// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/attend_tile.h: the rows of a warp against one tile of keys: scores, softmax,
/// values, by m16n8k16.
///
/// A thread has rows lane / 4 and lane / 4 + 8 of each band, and of every 8 columns two: C
/// fragments. Whatever a row adds up, it does so in an order that its own keys alone decide.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/attention/fold.h"
#include "cuda/attention/fragments.h"
#include "cuda/attention/logits.h"
#include "cuda/prefill/config.h"
#include "cuda/prefill/task.h"

namespace folio::cuda::prefill {

struct alignas(16) Fragment {
  uint32_t x[4];
};

/// The queries of a warp as A fragments, in registers or in shared memory.
template <class Config>
struct Queries {
  static constexpr int steps = Config::head_size / 16;
  uint32_t fragments[Config::bands][Config::q_in_shared ? 1 : steps][4] = {};

  template <class Thread>
  FOLIO_DEVICE static uint32_t at(const Thread& t, int band, int k) {
    return t.shared_base() + Config::q_at +
           static_cast<uint32_t>((band * steps + k) * Config::threads + t.thread()) * 16;
  }
  /// Of the thread's rows of a band. `sign`: bits that turn the sign of both numbers of a pair, or
  /// none.
  template <class Thread>
  FOLIO_DEVICE void load(Thread& t, const AttendCall& call, const TaskRecord& task, int band,
                         int first_row, uint32_t sign) {
    const uint32_t* from[2];
    FOLIO_UNROLL
    for (int r = 0; r < 2; ++r) {
      const Query query = task.query(call, first_row + 8 * r);
      from[r] = reinterpret_cast<const uint32_t*>(static_cast<const std::byte*>(call.args.q.data) +
                                                  (task.first_query + query.token) *
                                                      call.args.q.stride_bytes[0] +
                                                  query.q_head * call.args.q.stride_bytes[1]) +
                (t.thread() & 3);
    }
    FOLIO_UNROLL
    for (int k = 0; k < steps; ++k) {
      const Fragment f{{t.read(from[0] + 8 * k) ^ sign, t.read(from[1] + 8 * k) ^ sign,
                        t.read(from[0] + 8 * k + 4) ^ sign, t.read(from[1] + 8 * k + 4) ^ sign}};
      if constexpr (Config::q_in_shared) {
        t.store_shared(at(t, band, k), f);
      } else {
        FOLIO_UNROLL
        for (int i = 0; i < 4; ++i) fragments[band][k][i] = f.x[i];
      }
    }
  }
  template <class Thread>
  FOLIO_DEVICE void get(Thread& t, int band, int k, uint32_t (&a)[4]) const {
    if constexpr (Config::q_in_shared) {
      const auto f = t.template load_shared<Fragment>(at(t, band, k));
      FOLIO_UNROLL
      for (int i = 0; i < 4; ++i) a[i] = f.x[i];
    } else {
      FOLIO_UNROLL
      for (int i = 0; i < 4; ++i) a[i] = fragments[band][k][i];
    }
  }
};

/// The online softmax of a thread's two rows of a band.
template <class Config>
struct RowState {
  float max[2];  ///< units of ln 2
  float sum[2];  ///< of this thread's columns
  float out[Config::head_size / 8][4];

  FOLIO_DEVICE void clear() {
    FOLIO_UNROLL
    for (int r = 0; r < 2; ++r) {
      max[r] = minus_infinity();
      sum[r] = 0;
    }
    FOLIO_UNROLL
    for (int j = 0; j < Config::head_size / 8; ++j)
      out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0;
  }

  /// Of the thread's row `r`: its four threads have a quarter of the columns each.
  using WholeRow = FoldState<Config::head_size / 4>;
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE WholeRow whole_row(Thread& t, int r) const {
    WholeRow row;
    row.max = max[r];
    row.sum = sum[r];
    row.sum += t.shuffle_xor(row.sum, 1);
    row.sum += t.shuffle_xor(row.sum, 2);
    FOLIO_UNROLL
    for (int g = 0; g < Config::head_size / 16; ++g) {
      const FourFloats four = fragment_part(out, r, g);
      FOLIO_UNROLL
      for (int e = 0; e < 4; ++e) row.out[4 * g + e] = four.x[e];
    }
    exchange_columns(t, row.out);
    return row;
  }
};

/// Of a band.
template <class Config>
using Scores = float[Config::keys / 8][4];

template <class Config, class Thread>
FOLIO_DEVICE void multiply_keys(Thread& t, const Queries<Config>& q, uint32_t keys,
                                Scores<Config> (&s)[Config::bands]) {
  const int lane = t.thread() & 31;
  const uint32_t at = keys + unit_offset<Config>((lane & 7) + ((lane & 16) >> 1), lane >> 3 & 1);
  FOLIO_UNROLL
  for (int band = 0; band < Config::bands; ++band) {
    FOLIO_UNROLL
    for (int n = 0; n < Config::keys / 8; ++n)
      s[band][n][0] = s[band][n][1] = s[band][n][2] = s[band][n][3] = 0;
  }
  FOLIO_UNROLL
  for (int k = 0; k < Config::head_size / 16; ++k) {
    uint32_t a[Config::bands][4];
    FOLIO_UNROLL
    for (int band = 0; band < Config::bands; ++band) q.get(t, band, k, a[band]);
    // the swizzle turns bits 4 to 6: two units further is an exclusive or
    const uint32_t of_k =
        (at ^ static_cast<uint32_t>((k & 3) << 5)) + static_cast<uint32_t>((k >> 2) * 128);
    FOLIO_UNROLL
    for (int n = 0; n < Config::keys / 16; ++n) {
      uint32_t b[4];
      t.template load_matrices<false>(b, of_k + static_cast<uint32_t>(n * 16 * Config::row_bytes));
      FOLIO_UNROLL
      for (int band = 0; band < Config::bands; ++band) {
        t.template multiply<Config::type>(s[band][2 * n], a[band], b[0], b[1]);
        t.template multiply<Config::type>(s[band][2 * n + 1], a[band], b[2], b[3]);
      }
    }
  }
}

/// Scores that a row does not see become -inf.
template <class Config>
FOLIO_DEVICE void hide(Scores<Config>& s, int lane, int r, uint64_t seen) {
  const uint64_t mine = seen >> ((lane & 3) * 2);
  const auto low = static_cast<uint32_t>(mine), high = static_cast<uint32_t>(mine >> 32);
  FOLIO_UNROLL
  for (int n = 0; n < Config::keys / 8; ++n) {
    FOLIO_UNROLL
    for (int e = 0; e < 2; ++e) {
      const uint32_t bits = n < 4 ? low : high;
      if ((bits >> (n % 4 * 8 + e) & 1u) == 0) s[n][2 * r + e] = minus_infinity();
    }
  }
}

/// Products to logits; what a row does not see becomes -inf, and nothing of it is read.
template <class Config, class Thread>
FOLIO_DEVICE void add_terms(Thread& t, const AttendCall& call, const RowTerms& row, int r,
                            int32_t tile, uint64_t seen, Scores<Config>& s) {
  const int column = (t.thread() & 3) * 2;
  const auto terms = [from_column = row.from(call.problem, tile + column)] { return from_column; };
  const float of_softcap = inverse_softcap(call.problem);
  const uint64_t mine = seen >> column;
  const auto low = static_cast<uint32_t>(mine), high = static_cast<uint32_t>(mine >> 32);
  FOLIO_UNROLL
  for (int n = 0; n < Config::keys / 8; ++n) {
    FOLIO_UNROLL
    for (int e = 0; e < 2; ++e) {
      const uint32_t bits = n < 4 ? low : high;
      float& x = s[n][2 * r + e];
      x = (bits >> (n % 4 * 8 + e) & 1u) != 0
              ? logit(t, call.problem, of_softcap, terms, n * 8 + e, x)
              : minus_infinity();
    }
  }
}

/// Scores times `factor` to weights; the state follows. Instances without further terms multiply
/// and subtract in one rounding, which is exact enough while what it keeps of the product is small
/// beside 1: rows far from 0 are multiplied first.
template <class Config, class Thread>
FOLIO_DEVICE void weigh(Thread& t, float factor, Scores<Config>& s, RowState<Config>& state) {
  float base[2], factors[2], rescale[2];
  FOLIO_UNROLL
  for (int r = 0; r < 2; ++r) {
    float top = fmaxf(s[0][2 * r], s[0][2 * r + 1]);
    FOLIO_UNROLL
    for (int n = 1; n < Config::keys / 8; ++n)
      top = fmaxf(top, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
    top = fmaxf(top, t.shuffle_xor(top, 1));
    top = fmaxf(top, t.shuffle_xor(top, 2));
    top = fmaxf(top * factor, state.max[r]);
    base[r] = top == minus_infinity() ? 0.0f : top;
    rescale[r] = t.exp2(state.max[r] - base[r]);
    state.max[r] = top;
    factors[r] = factor;
  }
  if constexpr (!Config::is_general) {
    const bool is_far[2] = {__builtin_fabsf(base[0]) > 0x1p20f, __builtin_fabsf(base[1]) > 0x1p20f};
    if (t.ballot(is_far[0] || is_far[1]) != 0) {
      FOLIO_UNROLL
      for (int r = 0; r < 2; ++r) {
        if (!is_far[r]) continue;
        FOLIO_UNROLL
        for (int n = 0; n < Config::keys / 8; ++n) {
          s[n][2 * r] *= factor;
          s[n][2 * r + 1] *= factor;
        }
        factors[r] = 1.0f;
      }
    }
  }
  FOLIO_UNROLL
  for (int r = 0; r < 2; ++r) {
    float sum = 0;
    FOLIO_UNROLL
    for (int n = 0; n < Config::keys / 8; ++n) {
      FOLIO_UNROLL
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        s[n][e] = t.exp2(t.fma(s[n][e], factors[r], -base[r]));
        sum += s[n][e];
      }
    }
    state.sum[r] = state.sum[r] * rescale[r] + sum;
  }
  if (t.ballot(rescale[0] != 1.0f || rescale[1] != 1.0f) != 0) {  // times 1 changes no bit
    FOLIO_UNROLL
    for (int j = 0; j < Config::head_size / 8; ++j) {
      FOLIO_UNROLL
      for (int e = 0; e < 4; ++e) state.out[j][e] *= rescale[e >> 1];
    }
  }
}

template <class Config, class Thread>
FOLIO_DEVICE void multiply_values(Thread& t, const Scores<Config> (&s)[Config::bands],
                                  uint32_t values, RowState<Config> (&state)[Config::bands]) {
  const int lane = t.thread() & 31;
  const uint32_t at = values + unit_offset<Config>(lane & 15, lane >> 4);
  FOLIO_UNROLL
  for (int n = 0; n < Config::keys / 16; ++n) {
    uint32_t p[Config::bands][4];
    FOLIO_UNROLL
    for (int band = 0; band < Config::bands; ++band) {
      FOLIO_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float* const pair = s[band][2 * n + (i >> 1)] + 2 * (i & 1);
        p[band][i] = t.template pack<Config::type>(pair[0], pair[1]);
      }
    }
    FOLIO_UNROLL
    for (int j = 0; j < Config::head_size / 16; ++j) {
      uint32_t b[4];
      t.template load_matrices<true>(
          b, (at ^ static_cast<uint32_t>((j & 3) << 5)) +
                 static_cast<uint32_t>((j >> 2) * 128 + n * 16 * Config::row_bytes));
      FOLIO_UNROLL
      for (int band = 0; band < Config::bands; ++band) {
        t.template multiply<Config::type>(state[band].out[2 * j], p[band], b[0], b[1]);
        t.template multiply<Config::type>(state[band].out[2 * j + 1], p[band], b[2], b[3]);
      }
    }
  }
}

}  // namespace folio::cuda::prefill
