// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/block_bounds.h: what the d of blocks is taken from: bounds of eight blocks at a
/// time.
///
/// Floats are compared as the integers of their bits: NaN and infinities are the largest of them,
/// so that one look at the bounds finds blocks that hold any. ISA-safe: templates on a tag type.
#pragma once

#include <limits>
#include <type_traits>

#include "cpu/convert/lane_trees.h"
#include "cpu/vec/simd.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// What d is taken from.
enum class BlockReach : uint8_t {
  magnitude,  ///< the largest magnitude
  extreme,    ///< the element of largest magnitude, with its sign; of several, the first
  range       ///< the largest element less the smallest, which is m
};

/// The largest and the smallest element of eight blocks. Of an extreme, a bound is 0 if its sign
/// does not occur; of magnitudes, only the largest is known.
///
/// read.load(k, x) gives the floats of block k, read.bits(k, x) registers of their bits, or of the
/// high halves of those where the low ones are 0: `Read::Bits`, signed; read.count of either.
template <class I, BlockReach Reach>
class BlockBounds {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using Ints = Eights::S;
  using Floats = Eights::F;

 public:
  Floats low, high;

  /// Of usual elements: finite ones, which f16 reaches. Says in `unusual` where there are others.
  template <class Read>
  FOLIO_ALWAYS_INLINE void measure(const Read& read, Ints& unusual) {
    Ints most, least = {};
    if constexpr (Reach == BlockReach::magnitude) {
      bound<Keys::magnitudes, int>(read, larger, most);
    } else if constexpr (Reach == BlockReach::extreme) {
      bound<Keys::bits, int>(read, larger, most);
      bound<Keys::bits, unsigned>(read, larger, least);
      most = most > 0 ? most : Ints{};
      least = least < 0 ? least : Ints{};
    } else {
      bound<Keys::ordered, int>(read, larger, most);
      bound<Keys::ordered, int>(read, smaller, least);
      // back from keys; what words have not stays 0
      constexpr int32_t kept = Read::bit_registers == Read::registers ? magnitude : 0x7fff0000;
      most ^= (most >> 31) & kept;
      least ^= (least >> 31) & kept;
    }
    // a sum with 0 has one zero only
    high = reinterpret_cast<Eights::F>(most) + 0.0f;
    low = reinterpret_cast<Eights::F>(least) + 0.0f;
    unusual |= ((most & magnitude) > f16_max_bits) | ((least & magnitude) > f16_max_bits);
  }

  /// Of the finite elements, whatever else there is; 0 where there are none.
  template <class Read>
  void measure_finite(const Read& read) {
    F most[Eights::count], least[Eights::count];
    for (int k = 0; k < Eights::count; ++k) {
      F x[Read::registers], minus[Read::registers];
      read.load(k, x);
      for (int i = 0; i < Read::registers; ++i) {
        minus[i] = finite(-x[i]);
        x[i] = finite(x[i]);
      }
      most[k] = joined(x, larger);
      least[k] = joined(minus, larger);
    }
    LaneTrees<I>::join(most, larger, high);
    LaneTrees<I>::join(least, larger, low);
    low = -low;
    const Ints is_empty = low > high;
    high = (is_empty ? Floats{} : high) + 0.0f;
    low = (is_empty ? Floats{} : low) + 0.0f;
  }

 private:
  static constexpr int32_t f16_max_bits = 0x477fe000;  // of 65504
  static constexpr int32_t magnitude = 0x7fffffff;
  static constexpr auto larger = [](auto& a, const auto& b) { a = a > b ? a : b; };
  static constexpr auto smaller = [](auto& a, const auto& b) { a = a < b ? a : b; };

  enum class Keys {
    bits,  ///< as they are: positive floats are in order; as unsigned, negative ones come last
    magnitudes,  ///< without the sign
    ordered      ///< of negative floats the others: signed integers are in order
  };

  /// Of each block what `op` leaves of its keys, as those of floats.
  template <Keys Are, class Sign, class Read, class Op>
  FOLIO_ALWAYS_INLINE static void bound(const Read& read, Op op, Ints& to) {
    using Bits = typename Read::Bits;
    using Lane = std::remove_cvref_t<decltype(Bits{}[0])>;
    constexpr bool is_signed = std::is_signed_v<Sign>;
    using Number = std::conditional_t<is_signed, Lane, std::make_unsigned_t<Lane>>;
    typedef Number Numbers
        __attribute__((vector_size(sizeof(Bits))));  // NOLINT(modernize-use-using)
    using Joined = std::conditional_t<is_signed, Ints, Eights::U>;
    constexpr Lane positive = std::numeric_limits<Lane>::max();
    Numbers all[Eights::count];
#pragma GCC unroll 8
    for (int k = 0; k < Eights::count; ++k) {
      Bits x[Read::bit_registers];
      read.bits(k, x);
      Numbers keys[Read::bit_registers];
      for (int i = 0; i < Read::bit_registers; ++i) {
        if constexpr (Are == Keys::magnitudes) x[i] &= positive;
        if constexpr (Are == Keys::ordered) x[i] ^= (x[i] >> (8 * sizeof(Lane) - 1)) & positive;
        keys[i] = reinterpret_cast<Numbers>(x[i]);
      }
      all[k] = joined(keys, op);
    }
    Joined each;
    LaneTrees<I>::join(all, op, each);
    if constexpr (sizeof(Lane) == 2) {
      const Joined low_halves = each << 16;
      each = (each >> 16) << 16;
      op(each, low_halves);
    }
    to = reinterpret_cast<Ints>(each);
  }

  template <class Lanes, int N, class Op>
  FOLIO_ALWAYS_INLINE static Lanes joined(Lanes (&x)[N], Op op) {
    for (int n = N / 2; n > 0; n /= 2)
      for (int i = 0; i < n; ++i) op(x[i], x[i + n]);
    return x[0];
  }

  /// What decides a bound: no special does.
  FOLIO_ALWAYS_INLINE static F finite(F x) {
    constexpr bool has_sign = Reach != BlockReach::magnitude;
    const U bits = V::bits(x) & V::splat(0x7fffffffu);
    return bits >= V::splat(0x7f800000u) ? V::splat(-0x1.fffffep127f)
           : has_sign                    ? x
                                         : V::floats(bits);
  }
};

}  // namespace folio::inline v1
