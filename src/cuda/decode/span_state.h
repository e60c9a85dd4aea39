// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/span_state.h: a warp's state over its part of a round, in registers as C
/// fragments of m16n8k16, and how the block folds the states of its warps.
///
/// A state lies in the warp's free stage while it is folded: [rows][head_size] floats, units of
/// eight floats swizzled, so that neither writers nor readers meet in a bank.
#pragma once

#include <cstdint>

#include "cuda/decode/quantised_config.h"

namespace folio::cuda {

namespace detail {

struct alignas(8) TwoFloats {
  float x[2];
};

}  // namespace detail

/// Rows lane / 4 and lane / 4 + 8; columns 8 j + lane % 4 * 2 and the next.
template <class Config>
struct SpanState {
  static constexpr int tiles = Config::head_size / 8;
  float max[2];
  float sum[2];  // of this lane's keys
  float out[tiles][4];

  FOLIO_DEVICE void clear() {
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) {
      max[i] = minus_infinity();
      sum[i] = 0.0f;
    }
    FOLIO_UNROLL
    for (int j = 0; j < tiles; ++j) out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0.0f;
  }
};

/// The shared memory that states are folded through.
template <class Config, class Thread>
class FoldArea {
 public:
  FOLIO_DEVICE explicit FoldArea(Thread& t) : base_(t.shared_base()) {}

  /// All lanes of a warp, past their reads of `free_stage`; sync_block stands before the readers.
  FOLIO_DEVICE void store(Thread& t, uint32_t free_stage, const SpanState<Config>& state) const {
    const int lane = t.lane();
    if (lane == 0) t.store_shared(free_word(t.warp()), free_stage);
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 4 + 8 * i;
      float sum = state.sum[i];
      sum += t.shuffle_xor(sum, 1);
      sum += t.shuffle_xor(sum, 2);
      if ((lane & 3) == 0) t.store_shared(sums_word(t.warp(), row), MaxSum{state.max[i], sum});
      store_row(t, free_stage, state, row, i);
    }
  }
  /// The state of `warp` has no keys.
  FOLIO_DEVICE void store_nothing(Thread& t) const {
    if (t.lane() < Config::rows)
      t.store_shared(sums_word(t.warp(), t.lane()), MaxSum{minus_infinity(), 0.0f});
    if (t.lane() == 0) t.store_shared(free_word(t.warp()), base_);
  }

  [[nodiscard]] FOLIO_DEVICE MaxSum row(Thread& t, int warp, int row) const {
    return t.template load_shared<MaxSum>(sums_word(warp, row));
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t stage(Thread& t, int warp) const {
    return t.template load_shared<uint32_t>(free_word(warp));
  }
  /// Columns `column` .. + 3 of a row of the state in `stage`.
  [[nodiscard]] FOLIO_DEVICE FourFloats columns(Thread& t, uint32_t stage, int row,
                                                int column) const {
    return t.template load_shared<FourFloats>(stage + offset(row, column));
  }

 private:
  /// Row i of the lane. 8-bit values leave four columns in a row in two accumulators.
  FOLIO_DEVICE static void store_row(Thread& t, uint32_t to, const SpanState<Config>& state,
                                     int row, int i) {
    const int j = t.lane() & 3, e = 2 * i;
    FOLIO_UNROLL
    for (int tile = 0; tile < SpanState<Config>::tiles; tile += 2) {
      const float(&first)[4] = state.out[tile], (&second)[4] = state.out[tile + 1];
      if constexpr (Quantised<Config>) {
        t.store_shared(to + offset(row, tile * 8 + j * 4),
                       FourFloats{{first[e], second[e], first[e + 1], second[e + 1]}});
      } else {
        t.store_shared(to + offset(row, tile * 8 + j * 2),
                       detail::TwoFloats{{first[e], first[e + 1]}});
        t.store_shared(to + offset(row, tile * 8 + 8 + j * 2),
                       detail::TwoFloats{{second[e], second[e + 1]}});
      }
    }
  }
  [[nodiscard]] static FOLIO_DEVICE uint32_t offset(int row, int column) {
    const int unit = (column >> 3) ^ (row & 3);
    return static_cast<uint32_t>((row * Config::head_size + unit * 8 + (column & 7)) * 4);
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t sums_word(int warp, int row) const {
    return base_ + Config::sums_at + static_cast<uint32_t>(warp * Config::rows + row) * 8;
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t free_word(int warp) const {
    return base_ + Config::free_at + static_cast<uint32_t>(warp) * 4;
  }

  uint32_t base_;
};

/// The block's fold over a task's rounds: kept in registers, or parked in shared memory between
/// rounds, each thread its own.
template <class Config>
struct RoundState {
  typename Config::State state;

  template <class Thread>
  FOLIO_DEVICE void clear(Thread& t) {
    state.clear();
    park(t);
  }
  template <class Thread>
  FOLIO_DEVICE void park(Thread& t) const {
    if constexpr (!Config::has_registers) {
      t.store_shared(word(t, 0), FourFloats{{state.max, state.sum, 0.0f, 0.0f}});
      FOLIO_UNROLL
      for (int g = 0; g < groups; ++g) t.store_shared(word(t, g + 1), state.four(g));
    }
  }
  template <class Thread>
  FOLIO_DEVICE void fetch(Thread& t) {
    if constexpr (!Config::has_registers) {
      const auto row = t.template load_shared<FourFloats>(word(t, 0));
      state.max = row.x[0];
      state.sum = row.x[1];
      FOLIO_UNROLL
      for (int g = 0; g < groups; ++g) {
        const auto four = t.template load_shared<FourFloats>(word(t, g + 1));
        FOLIO_UNROLL
        for (int e = 0; e < 4; ++e) state.out[4 * g + e] = four.x[e];
      }
    }
  }

 private:
  static constexpr int groups = Config::Place::columns / 4;
  template <class Thread>
  FOLIO_DEVICE static uint32_t word(Thread& t, int g) {
    return t.shared_base() + Config::parked_at +
           static_cast<uint32_t>(g * Config::threads + t.thread()) * 16;
  }
};

}  // namespace folio::cuda
