// SPDX-License-Identifier: Apache-2.0
/// tests/support/tolerance.h: how far an evaluation of attention may lie from the exact result. The
/// one place for error bounds.
///
/// What a kernel does in float32 (contract 11), with u = 2^-24 and p, s, o, lse the exact values:
///
///  1. A logit s[j] has an absolute error e[j] of at most u times
///     (D + 8) * scale * sum_d |q k|              a sum of D products in any order, and the scales
///                                                of K (gamma_n = n u)
///     + 16 * (|scaled| + |s| + |alibi| + |bias| + softcap)   scaling by scale and log2(e), tanh,
///                                                            additions, in any order
///  2. A weight exp(s - m) has a relative error of e[j] + u (16 + 16 |s - lse|): rounding of the
///     argument and of exp itself.
///  3. A state is rescaled each time a running maximum changes: once per record of the logits, and
///     in states that start in the middle about log2(n) times. Each costs 12 u on all weights so
///     far.
///  4. Errors of weights move the mean by sum_j p[j] err[j] |v[j] - o|, large ones by what
///     reference/attention_errors.cpp states: the reference returns it as `spread`.
///  5. Numerator and denominator are sums of n terms. Contract 11 demands that errors do not grow
///     with length, so that a kernel adds at most `longest_chain` terms one after the other (spans,
///     then spans of spans): u * min(n, longest_chain) on sum p |v|.
///  6. Weights below 2^-126 may be flushed to 0.
///  7. The output is rounded once, to out_dtype.
///
/// What it may round to fewer bits on the way is in its entry of the kernel list (kernel/kernel.h)
/// and arrives here as a Precision. With w and b the unit roundoffs of `weights` and of an operand,
/// where these are not float32:
///
///  8. Weights are rounded before they multiply V, the denominator sums them unrounded: w sum p
///     |v|. Where that is so exp need not be exact to float32 either: an error of coarse_exp
///     relative to each weight moves o by coarse_exp (sum p |v| + |o|), lse by itself.
///  9. Scaled or rounded elements of V: b sum p |v|. Those of K, and of q: b scale sum_d |q k| on a
///     logit each, weighed as in 1 and 4.
///     Where weights are rounded to 8 bits of an i8 it is to 1/255 of the greatest p |scale| of a
///     tile, and q to 1/127 of the greatest of its row: 1/510 of the reference's `tiles`, and 1/254
///     of its magnitude of a row, weighed as in 1.
///     Where a kernel adds in 16 bits, weights of values of i8 have 127 steps: 1/254.
/// 10. Rows that are turned (PagedKVView::hadamard, channel_scales) are what all of this is said
/// of;
///     to turn q takes log2(block) + 2 roundings of sums of a block, at most sqrt(block) times the
///     greatest of the turned row. Turning the output back adds to no magnitude.
/// 11. Units that multiply 16-bit operands take subnormals as 0, in operands and results: 2^-126
///     per key, and for the sum.
///
/// First order in u; the factor `slack` covers the rest. lse: |error| <= sum_j p[j] err[j] + chain
/// u + a few u of |lse| and 1. Source for 1 and 5: Higham 2002, Accuracy and Stability of Numerical
/// Algorithms, section 3.1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "folio/core/dtype.h"
#include "reference/attention.h"
#include "reference/elements.h"

namespace folio::test {

inline constexpr double f32_roundoff = reference::error_unit;
inline constexpr double longest_chain = 4096.0;
inline constexpr double slack = 1.01;
inline constexpr double coarse_exp = 0x1p-13;

/// What softmax weights and scaled operands are rounded to on their way into the products of one
/// problem.
struct Precision {
  DType weights = DType::f32;
  DType keys = DType::f32;
  DType values = DType::f32;
  DType queries = DType::f32;
  int32_t weight_steps = 255;  ///< where weights are i8
  bool operator==(const Precision&) const = default;
};

namespace detail {
/// Of a rounding that float32 does not have, relative to an element: 0 for float32, and for i8,
/// whose steps follow from elements beside it.
inline double coarse_roundoff(DType dtype) {
  return dtype == DType::f32 || dtype == DType::i8 ? 0.0 : reference::unit_roundoff(dtype);
}
}  // namespace detail

/// What the reference must weigh its magnitudes with, so that `spread` is in units of u. `records`
/// and `keys` as the result has them are added by the bounds below.
inline reference::ErrorWeights error_weights(int64_t head_size, const Precision& precision = {},
                                             const Hadamard& of_keys = {}) {
  const double coarse =
      detail::coarse_roundoff(precision.keys) + detail::coarse_roundoff(precision.queries);
  const double row = precision.queries == DType::i8 ? 1.0 / 254.0 : 0.0;
  const double block = std::max(of_keys.block, 1);
  const double turn = of_keys.block == 0 ? 0.0 : (std::log2(block) + 2.0) * std::sqrt(block);
  return {static_cast<double>(head_size) + 8.0 + slack * coarse / f32_roundoff, 16.0, 16.0,
          slack * row / f32_roundoff + turn};
}

namespace detail {
inline double chain(const reference::QueryResult& exact) {
  return std::min(static_cast<double>(exact.keys), longest_chain) + 16.0;
}
/// Step 3, relative to a weight, in units of u.
inline double rescaling(const reference::QueryResult& exact) {
  return 12.0 *
         (static_cast<double>(exact.records) + std::log2(static_cast<double>(exact.keys) + 1.0));
}
}  // namespace detail

/// The largest |actual - exact.out[d]| that rounding explains. `exact` was computed with
/// error_weights of the same precision.
inline double out_bound(const reference::QueryResult& exact, int64_t d, DType out_dtype,
                        const Precision& precision = {}) {
  const auto i = static_cast<size_t>(d);
  const auto keys = static_cast<double>(exact.keys);
  const double o = std::fabs(exact.out[i]);
  const double weights = exact.spread[i] + detail::rescaling(exact) * (exact.magnitude[i] + o);
  const double sums = detail::chain(exact) * (exact.magnitude[i] + o);
  const double w = detail::coarse_roundoff(precision.weights);
  const bool is_coarse = precision.weights != DType::f32;
  const double tiles = precision.weights == DType::i8 && exact.keys > 0 ? exact.tiles[i] : 0.0;
  const double coarse = (w + detail::coarse_roundoff(precision.values)) * exact.magnitude[i] +
                        (is_coarse ? coarse_exp * (exact.magnitude[i] + o) : 0.0) +
                        tiles / (2.0 * precision.weight_steps);
  const double flushed =
      keys * exact.largest_value * 0x1p-125 + (is_coarse ? (keys + 1.0) * 0x1p-126 : 0.0);
  const double wide = slack * (f32_roundoff * (weights + sums) + coarse) + flushed;
  const double smallest = out_dtype == DType::f16 ? 0x1p-25 : 0x1p-133;  // half a subnormal step
  return wide + reference::unit_roundoff(out_dtype) * (o + wide) + smallest;
}

/// The largest |actual - exact.lse|. Infinite lse must be met exactly.
inline double lse_bound(const reference::QueryResult& exact, const Precision& precision = {}) {
  if (std::isinf(exact.lse) || exact.keys == 0) return 0.0;
  const double weights = exact.mean_weight + detail::rescaling(exact) + detail::chain(exact);
  const double coarse = precision.weights != DType::f32 ? coarse_exp : 0.0;
  return slack * (f32_roundoff * (weights + 8.0 * std::fabs(exact.lse) + 8.0) + coarse);
}

/// What users are promised of ordinary inputs (logits of a few units): far below the worst case
/// above.
struct AccuracyDemand {
  double relative_rms = 0.0;
  double lse = 0.0;
};
inline AccuracyDemand accuracy_demand(const Precision& precision) {
  if (precision.weights == DType::f32) return {2e-6, 1e-5};
  if (precision.weights == DType::i8) return {2e-2, 2e-2};  // of q and weights of 8 bits
  const bool is_rounded = precision.keys != DType::f32 || precision.values != DType::f32;
  return {is_rounded ? 4e-3 : 2.5e-3, 1e-3};  // of three roundings, or one
}

/// sqrt(sum (actual - exact)^2 / sum exact^2); 0 if both are 0.
class RelativeRms {
 public:
  void add(double actual, double exact) {
    error_ += (actual - exact) * (actual - exact);
    size_ += exact * exact;
  }
  [[nodiscard]] double value() const { return error_ == 0.0 ? 0.0 : std::sqrt(error_ / size_); }

 private:
  double error_ = 0.0;
  double size_ = 0.0;
};

}  // namespace folio::test
