// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_queries.h: q of a task as A fragments that meet 8-bit keys: f16, with
/// the columns of each 16 in the order in which a register of a key's bytes has them.
///
/// A register of an ldmatrix of bytes has four dims of a key, 4j to 4j + 3, which become both
/// registers of a B fragment: k = 2j, 2j + 1 and 8 + 2j, 9 + 2j. Keys are exact in f16. bf16
/// queries are brought into its range by a power of two, each row its own, so that its largest
/// element is from 2^14 to 2^15: elements down to 2^-29 of that are exact, smaller ones within
/// 2^-40 of it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cuda/decode/quantised_config.h"
#include "cuda/decode/queries.h"

namespace folio::cuda {

template <class Config>
  requires Quantised<Config>
class RegisterQueries<Config> {
 public:
  template <class Thread>
  FOLIO_DEVICE void load(Thread& t, const AttendCall& a, const Sequence& s,
                         const DeviceTask& task) {
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::byte* const row = query_at(a, s, task, t.lane() / 4 + 8 * i);
      FOLIO_UNROLL
      for (int k = 0; k < Config::steps; ++k) {
        detail::TwoWords four;
        four.x[0] = four.x[1] = 0u;
        if (row != nullptr)
          four =
              t.read(reinterpret_cast<const detail::TwoWords*>(row + k * 32 + (t.lane() & 3) * 8));
        parts_[k][i] = four.x[0];
        parts_[k][i + 2] = four.x[1];
      }
      factor_[i] = 1.0f;
      if (a.problem.q_dtype == DType::bf16) narrow(t, i);
    }
  }
  template <class Thread>
  FOLIO_DEVICE void get(Thread&, int k, uint32_t (&a)[4]) const {
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = parts_[k][i];
  }
  /// What products of the lane's row i are multiplied by.
  [[nodiscard]] FOLIO_DEVICE float factor(int i) const { return factor_[i]; }

 private:
  /// Row i from bf16 to f16 times a power of two.
  template <class Thread>
  FOLIO_DEVICE void narrow(Thread& t, int i) {
    float largest = 0.0f;
    FOLIO_UNROLL
    for (int k = 0; k < 2 * Config::steps; ++k) {
      FOLIO_UNROLL
      for (int half = 0; half < 2; ++half)
        largest = fmaxf(largest, fabsf(t.template unpack<DType::bf16>(part(k, i), half)));
    }
    largest = fmaxf(largest, t.shuffle_xor(largest, 1));
    largest = fmaxf(largest, t.shuffle_xor(largest, 2));
    // 2^(14 - exponent), both it and its inverse being normal
    const int32_t exponent = static_cast<int32_t>(__builtin_bit_cast(uint32_t, largest) >> 23);
    const int32_t wanted = exponent == 0 || exponent == 255 ? 127 : 268 - exponent;
    const int32_t up = wanted > 253 ? 253 : wanted;
    const float scale = __builtin_bit_cast(float, static_cast<uint32_t>(up) << 23);
    factor_[i] = __builtin_bit_cast(float, static_cast<uint32_t>(254 - up) << 23);
    FOLIO_UNROLL
    for (int k = 0; k < 2 * Config::steps; ++k) {
      uint32_t& pair = part(k, i);
      pair = t.template pack<DType::f16>(t.template unpack<DType::bf16>(pair, 0) * scale,
                                         t.template unpack<DType::bf16>(pair, 1) * scale);
    }
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t& part(int k, int i) { return parts_[k / 2][i + k % 2 * 2]; }

  uint32_t parts_[Config::steps][4];
  float factor_[2];
};

/// Registers hold them beside every option, but rows that lie in shared memory count on a barrier.
template <class Config>
  requires Quantised<Config>
class SharedQueries<Config> : public RegisterQueries<Config> {
 public:
  template <class Thread>
  FOLIO_DEVICE void load(Thread& t, const AttendCall& a, const Sequence& s,
                         const DeviceTask& task) {
    RegisterQueries<Config>::load(t, a, s, task);
    t.sync_block();
  }
};

/// Heads of 256 leave no room for them in registers: a lane's fragments, as they are, lie in shared
/// memory, the steps divided among the warps.
template <class Config>
  requires Quantised<Config> && (!Config::has_query_registers)
class SharedQueries<Config> {
 public:
  template <class Thread>
  FOLIO_DEVICE void load(Thread& t, const AttendCall& a, const Sequence& s,
                         const DeviceTask& task) {
    RegisterQueries<Config> queries;
    queries.load(t, a, s, task);
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) factor_[i] = queries.factor(i);
    FOLIO_UNROLL
    for (int k = 0; k < Config::steps; ++k) {
      Fragment fragment;
      queries.get(t, k, fragment.x);
      if (k % Config::warps == t.warp()) t.store_shared(word(t, k), fragment);
    }
    t.sync_block();
  }
  template <class Thread>
  FOLIO_DEVICE void get(Thread& t, int k, uint32_t (&a)[4]) const {
    const auto fragment = t.template load_shared<Fragment>(word(t, k));
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = fragment.x[i];
  }
  [[nodiscard]] FOLIO_DEVICE float factor(int i) const { return factor_[i]; }

 private:
  struct alignas(16) Fragment {
    uint32_t x[4];
  };
  template <class Thread>
  FOLIO_DEVICE static uint32_t word(Thread& t, int k) {
    return t.shared_base() + Config::queries_at + static_cast<uint32_t>(k * 32 + t.lane()) * 16;
  }

  float factor_[2];
};

}  // namespace folio::cuda
