// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/lane_trees.h: the lanes of eight registers joined, each register into one lane
/// of the result: maxima and sums of eight runs, found side by side.
///
/// Lanes i and i + W / 2 are joined first, then i and i + W / 4, and so on, whatever finds it. An
/// instruction set that halves the number of registers at every step says so by `each_of_eight`.
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>
#include <utility>

#include "cpu/vec/simd.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// A lane for each of eight runs.
struct Eights {
  static constexpr int count = 8;
  typedef float F __attribute__((vector_size(32)));     // NOLINT(modernize-use-using)
  typedef int32_t S __attribute__((vector_size(32)));   // NOLINT(modernize-use-using)
  typedef uint32_t U __attribute__((vector_size(32)));  // NOLINT(modernize-use-using)

  /// Whether some lane of a comparison holds.
  FOLIO_ALWAYS_INLINE static bool any(const S& lanes) {
    int64_t pairs[count / 2];
    __builtin_memcpy(pairs, &lanes, sizeof pairs);
    return (pairs[0] | pairs[1] | pairs[2] | pairs[3]) != 0;
  }
};

template <class I>
struct LaneTrees {
  using V = Simd<I>;
  using S = typename V::S;
  static constexpr int W = V::W;

  /// op(a, b): a becomes both. Of words, low and high halves of lanes are not joined.
  template <class Lanes, class Op, class To>
  FOLIO_ALWAYS_INLINE static void join(const Lanes (&all)[Eights::count], Op op, To& to) {
    if constexpr (requires { I::template each_of_eight<To>(all, op); }) {
      to = I::template each_of_eight<To>(all, op);
    } else {
      uint32_t lanes[Eights::count];
      for (int k = 0; k < Eights::count; ++k) {
        const Lanes joined = reduced<W / 2>(all[k], op);
        __builtin_memcpy(lanes + k, &joined, sizeof lanes[k]);
      }
      __builtin_memcpy(&to, lanes, sizeof to);
    }
  }

 private:
  template <int Distance, class Lanes, class Op>
  FOLIO_ALWAYS_INLINE static Lanes reduced(const Lanes& x, Op op) {
    if constexpr (Distance == 0) {
      return x;
    } else {
      Lanes both = x;
      op(both, exchanged<Distance>(x, std::make_integer_sequence<int, W>{}));
      return reduced<Distance / 2>(both, op);
    }
  }
  template <int Distance, class Lanes, int... L>
  FOLIO_ALWAYS_INLINE static Lanes exchanged(const Lanes& x, std::integer_sequence<int, L...>) {
    const auto lanes = reinterpret_cast<S>(x);
    return reinterpret_cast<Lanes>(__builtin_shufflevector(lanes, lanes, (L ^ Distance)...));
  }
};

}  // namespace folio::inline v1
