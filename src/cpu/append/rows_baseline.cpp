// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows_baseline.cpp: rows of tokens for any machine of the architecture, in the
/// compilers' own vectors.
#include "cpu/append/rows.h"
#include "cpu/append/writer.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : BaselineLanes {
  static constexpr bool has_fma = false;
  static constexpr Mutant mutant = Mutant::none;
  /// mask ? a : b, bit by bit
  template <class U>
  static U select(U mask, U a, U b) {
    return (mask & a) | (~mask & b);
  }
  template <class U>
  static U kept(U x) {
    return x;
  }
  /// Of x and y > 0, or of x and y >= 0, the one that is larger (smaller) in magnitude, with x's
  /// sign. No NaN.
  template <class F>
  static F larger_magnitude(F x, F y) {
    const F m = magnitude(x);
    return with_sign(m > y ? m : y, x);
  }
  template <class F>
  static F smaller_magnitude(F x, F y) {
    const F m = magnitude(x);
    return with_sign(m < y ? m : y, x);
  }
  template <class F>
  static bool has_nan(const F (&x)[4]) {
    const auto nan = (x[0] != x[0]) | (x[1] != x[1]) | (x[2] != x[2]) | (x[3] != x[3]);
    return (nan[0] | nan[1] | nan[2] | nan[3]) != 0;
  }
  /// To nearest, ties to even: |x| is small, and adding 1.5 * 2^23 rounds it.
  template <class S, class F>
  static S to_integers(F x) {
    const F rounder = F{} + 12582912.0f;
    return __builtin_convertvector((x + rounder) - rounder, S);
  }
  static float square_root(float x) { return __builtin_sqrtf(x); }
  template <class U>
  static void stream(std::byte* to, U x) {
    __builtin_memcpy(to, &x, sizeof x);
  }
  static void fence() {}

  /// The low halves of all lanes, the low bytes of all words, side by side.
  template <class U>
  static U pack16(U a, U b) {
    const Halves halves[] = {__builtin_convertvector(a, Halves),
                             __builtin_convertvector(b, Halves)};
    return __builtin_bit_cast(U, halves);
  }
  template <class U>
  static U pack8(U a, U b) {
    const EightBytes halves[] = {
        __builtin_convertvector(__builtin_bit_cast(EightHalves, a), EightBytes),
        __builtin_convertvector(__builtin_bit_cast(EightHalves, b), EightBytes)};
    return __builtin_bit_cast(U, halves);
  }
  template <class U>
  static U pack8_signed(U a, U b) {
    return pack8(a, b);
  }
  /// Four registers of signed integers as bytes, saturated: side by side once they are put in
  /// order.
  template <class U, class S>
  static U saturated_bytes(S a, S b, S c, S d) {
    const FourBytes bytes[] = {saturated(a), saturated(b), saturated(c), saturated(d)};
    return __builtin_bit_cast(U, bytes);
  }
  template <class U>
  static U in_byte_order(U x) {
    return x;
  }

 private:
  typedef int8_t FourBytes __attribute__((vector_size(4)));  // NOLINT(modernize-use-using)
  template <class S>
  static FourBytes saturated(S x) {
    x = x < 127 ? x : S{} + 127;
    x = x > -128 ? x : S{} - 128;
    return __builtin_convertvector(x, FourBytes);
  }
  typedef uint16_t Halves __attribute__((vector_size(8)));        // NOLINT(modernize-use-using)
  typedef uint16_t EightHalves __attribute__((vector_size(16)));  // NOLINT(modernize-use-using)
  typedef uint8_t EightBytes __attribute__((vector_size(8)));     // NOLINT(modernize-use-using)
  typedef uint32_t Lanes __attribute__((vector_size(16)));        // NOLINT(modernize-use-using)
  static constexpr uint32_t sign_bit = 0x80000000u;

  template <class F>
  static F magnitude(F x) {
    return reinterpret_cast<F>(reinterpret_cast<Lanes>(x) & ~sign_bit);
  }
  template <class F>
  static F with_sign(F magnitude, F x) {
    return reinterpret_cast<F>(reinterpret_cast<Lanes>(magnitude) |
                               (reinterpret_cast<Lanes>(x) & sign_bit));
  }
};

using Writer = rows::Writer<InstructionSet>;

}  // namespace

constinit const rows::Kernel baseline::rows_kernel = {
    "rows_" FOLIO_BASELINE, needs_cpu, Writer::write, rows::Move<InstructionSet>::bytes};

}  // namespace folio::inline v1
