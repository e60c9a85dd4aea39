// SPDX-License-Identifier: Apache-2.0
/// src/cpu/vec/simd.h: the vector vocabulary of the portable kernel, for any width.
///
/// An instruction set is a type in an anonymous namespace with `width` (floats per register),
/// `score_vectors` (registers of keys per score tile), `fma`, `signs` and the two zero-extending
/// loads.
/// Everything is a template on it, so whatever an ISA object instantiates has internal linkage.
/// Vectors are the compilers' own (GNU vector extensions); only what they compile badly is left to
/// the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace folio::inline v1 {

template <class I>
struct Simd {
  static constexpr int W = I::width;
  typedef float F __attribute__((
      vector_size(W * sizeof(float))));  // NOLINT(modernize-use-using): g++ needs the typedef
  typedef int32_t S
      __attribute__((vector_size(W * sizeof(int32_t))));  // NOLINT(modernize-use-using)
  typedef uint32_t U
      __attribute__((vector_size(W * sizeof(uint32_t))));  // NOLINT(modernize-use-using)
  typedef uint16_t U16
      __attribute__((vector_size(W * sizeof(uint16_t))));  // NOLINT(modernize-use-using)

  template <class V>
  static V load_as(const void* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  }
  static F load(const float* from) { return load_as<F>(from); }
  static void store(float* to, F v) { __builtin_memcpy(to, &v, sizeof v); }
  /// Through integers: 0.0f + x is no identity (-0), so compilers would keep the addition.
  static F splat(float x) { return reinterpret_cast<F>(splat(__builtin_bit_cast(uint32_t, x))); }
  static U splat(uint32_t x) { return U{} + x; }
  static F fma(F a, F b, F c) { return I::fma(a, b, c); }
  static F max(F a, F b) { return a > b ? a : b; }
  /// A sum whose last term was `added`: no further from 0 than the largest float, but for an added
  /// -inf. NaN stays NaN.
  static F saturate(F sum, F added) {
    const F largest = splat(3.40282347e38f);
    const F lowest = added < -largest ? added : -largest;
    const F v = lowest > sum ? lowest : sum;
    return largest < v ? largest : v;
  }
  static U bits(F v) { return reinterpret_cast<U>(v); }
  static F floats(U v) { return reinterpret_cast<F>(v); }

  /// Lane i all ones where bit i of `mask` is set.
  static S lanes(uint32_t mask) {
    const U selected = lane_bits(std::make_index_sequence<W>{}) & splat(mask);
    return selected != U{};
  }
  /// The same in numbers: all ones or 0.
  static U lane_is_set(uint32_t mask) { return reinterpret_cast<U>(lanes(mask)); }
  /// Whether some lane of a comparison holds.
  static bool any(S lanes) { return I::signs(lanes) != 0; }

  static float sum(F v) {
    return reduce(v, [](float a, float b) { return a + b; });
  }
  static float max_lane(F v) {
    return reduce(v, [](float a, float b) { return a > b ? a : b; });
  }

  /// e^x for x <= 0: relative error below 2e-7, exactly 1 at 0, exactly 0 below -87 (so e^-inf =
  /// 0), NaN for NaN. 2^n * 2^f with n = round(x log2 e); log2 e is split so that f keeps full
  /// precision, 2^f is a minimax polynomial.
  static F exp(F x) {
    // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
    const F rounder = splat(12582912.0f);
    const F high = splat(1.44269502f), low = splat(1.92596299e-8f);
    const F shifted = fma(x, high, rounder);
    const F n = shifted - rounder;
    const F f = fma(x, low, fma(x, high, -n));
    F p = splat(0.00015353362f);
    p = fma(p, f, splat(0.0013398875f));
    p = fma(p, f, splat(0.009618437f));
    p = fma(p, f, splat(0.055503324f));
    p = fma(p, f, splat(0.24022648f));
    p = fma(p, f, splat(0.6931472f));
    p = fma(p, f, splat(1.0f));
    const F scaled = floats(bits(p) + (bits(shifted) << 23));
    return x < splat(-87.0f) ? F{} : scaled;
  }
  static float exp_one(float x) {
    float lane[W];
    store(lane, exp(splat(x)));
    return lane[0];
  }

  /// tanh through exp(-2|x|): no overflow, odd.
  static F tanh(F x) {
    const F e = exp(-2.0f * floats(bits(x) & splat(0x7fffffffu)));
    const F t = (1.0f - e) / (1.0f + e);
    return floats(bits(t) | (bits(x) & splat(0x80000000u)));
  }

  /// Transposes W x W floats: log2(W) rounds, each swapping blocks of twice the size.
  static void transpose(F (&rows)[W]) {
    swap_blocks<1>(rows);
    if constexpr (W > 2) swap_blocks<2>(rows);
    if constexpr (W > 4) swap_blocks<4>(rows);
    if constexpr (W > 8) swap_blocks<8>(rows);
  }

 private:
  template <size_t... L>
  static U lane_bits(std::index_sequence<L...>) {
    return U{(1u << L)...};
  }
  template <class Op>
  static float reduce(F v, Op op) {
    float lane[W];
    __builtin_memcpy(lane, &v, sizeof v);
    for (int half = W / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lane[i] = op(lane[i], lane[i + half]);
    return lane[0];
  }
  template <int B>
  static void swap_blocks(F (&rows)[W]) {
    for (int i = 0; i < W; ++i) {
      if ((i & B) != 0) continue;
      const F a = rows[i], b = rows[i + B];
      rows[i] = first_of<B>(a, b, std::make_index_sequence<W>{});
      rows[i + B] = second_of<B>(a, b, std::make_index_sequence<W>{});
    }
  }
  template <int B, size_t... L>
  static F first_of(F a, F b, std::index_sequence<L...>) {
    return __builtin_shufflevector(
        a, b, ((L & B) == 0 ? static_cast<int>(L) : W + static_cast<int>(L) - B)...);
  }
  template <int B, size_t... L>
  static F second_of(F a, F b, std::index_sequence<L...>) {
    return __builtin_shufflevector(
        a, b, ((L & B) == 0 ? static_cast<int>(L) + B : W + static_cast<int>(L))...);
  }
};

}  // namespace folio::inline v1
