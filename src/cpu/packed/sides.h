// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/sides.h: codes of V whose scales are negative change their signs, so that the
/// scales are multiplied as magnitudes.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "cpu/packed/form.h"
#include "cpu/packed/layout.h"
#include "cpu/packed/readings.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::packed {

/// Of a tile's rows of one head. i8 has no opposite of -128: its codes become complements, which
/// are less by 1, and values.h adds what is missing.
template <class I>
class Sides {
  using V = Simd<I>;
  using U = typename V::U;
  using B = typename I::B;

 public:
  void gather(const Form& form, const Readings<I>& readings) {
    one_ = form.is_packed ? 1 : 0;
    for (int g = 0; g < form.granules; ++g) {
      for (int v = 0; v < tile_keys; v += 4 * V::W) {
        U signs[4];
        for (int i = 0; i < 4; ++i)
          signs[i] = (V::bits(V::load(readings.scales(g) + v + i * V::W)) >> 31) * 255u;
        I::store_bytes(negative_ + g * groups + v / 4, signs);
      }
    }
  }
  /// The registers of chunk c of the four keys from k on, bytes side by side.
  template <int Slots>
  FOLIO_ALWAYS_INLINE void change(const Form& form, int k, int c, B (&four)[4]) const {
    constexpr int lanes = I::bytes / lane_bytes;
    constexpr int each = 4 / Slots;
#pragma GCC unroll 2
    for (int slot = 0; slot < Slots; ++slot) {
      const uint32_t* of[lanes];
      for (int lane = 0; lane < lanes; ++lane)
        of[lane] = negative_ + form.granule(c * lanes + lane, slot) * groups;
      const Bytes is_negative = reinterpret_cast<Bytes>(I::spread(of, k / 4));
#pragma GCC unroll 4
      for (int j = slot * each; j < (slot + 1) * each; ++j)
        four[j] = reinterpret_cast<B>((reinterpret_cast<Bytes>(four[j]) ^ is_negative) +
                                      (is_negative & one_));
    }
  }

 private:
  static constexpr int groups = tile_keys / 4;
  typedef uint8_t Bytes
      __attribute__((vector_size(I::bytes)));  // NOLINT(modernize-use-using): g++ needs the typedef

  uint8_t one_ = 1;                                       // what codes that change sides lack
  alignas(64) uint32_t negative_[granules_max * groups];  // a byte of each key: 0 or 255
};

}  // namespace folio::inline v1::packed
