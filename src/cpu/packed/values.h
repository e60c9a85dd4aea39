// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/values.h: outputs of a tile: probabilities times V's scales, rounded to bytes,
/// and their products with codes of V.
///
/// The weights of a row are rounded in each granule to steps of 1/255 of its greatest of the tile,
/// or 1/127. ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "cpu/packed/layout.h"
#include "cpu/packed/queries.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::packed {

/// What is known of V's scales in a tile.
struct ValueScales {
  bool has_offsets = false;
  bool has_numbers = true;  ///< alone: none is infinite or NaN
  /// codes of rows with a negative scale are less by 1; offsets are then 1 for those, 0 for others
  bool has_complements = false;
};

template <class I>
class Values {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  using Round = Rounding<I>;

 public:
  /// output = output * rescale + probabilities of row r . values of the first `keys` keys.
  static void of_row(const Scratch& s, const Form& form, const ValueScales& scales, int r, int keys,
                     float* output) {
    weigh(s, form, scales, s.scores + static_cast<int64_t>(r) * tile_keys);
    const auto add = !form.is_packed ? chunk<1, 1> : form.slots == 1 ? chunk<2, 1> : chunk<2, 2>;
    for (int c = 0; c < form.chunks; ++c) add(s, form, c, keys, s.rescale[r], output);
  }

 private:
  static constexpr int groups = tile_keys / 4;
  static constexpr int chunk_lanes = I::bytes / lane_bytes;

  // ---- Weights

  static void weigh(const Scratch& s, const Form& form, const ValueScales& scales, const float* p) {
    float units[granules_max], offsets[granules_max];
    const int count = form.is_packed ? 255 : I::signed_factor_max;
    for (int g = 0; g < form.granules; ++g) {
      units[g] =
          scales.has_numbers
              ? granule<true>(p, s.value_scales + g * tile_keys, count, s.weights + g * groups)
              : granule<false>(p, s.value_scales + g * tile_keys, count, s.weights + g * groups);
      const float* const beside = s.value_offsets + g * tile_keys;
      offsets[g] = scales.has_offsets       ? product(p, beside)
                   : scales.has_complements ? counted(s.weights + g * groups, beside)
                                            : 0.0f;
    }
    const int lanes = form.lanes();
    for (int slot = 0; slot < form.slots; ++slot) {
      for (int lane = 0; lane < lanes; ++lane) {
        const int beside = I::mutant == Mutant::weight_unit_of_next_lane ? 1 : 0;
        const int g = form.granule(lane ^ beside, slot);
        for (int i = 0; i < 4; ++i) {
          s.units[(slot * lanes + lane) * 4 + i] = units[g];
          s.offsets[(slot * lanes + lane) * 4 + i] = offsets[g];
        }
      }
    }
  }

  /// A key that the row does not see has the probability 0, whatever its scale is.
  FOLIO_ALWAYS_INLINE static F seen_product(const F& p, const float* factors) {
    return p == F{} ? F{} : p * V::load(factors);
  }
  /// Weights of all keys; what 1 stands for.
  template <bool HasNumbers>
  static float granule(const float* p, const float* scales, int count, uint32_t* to) {
    F x[tile_keys / V::W];
    U top = {};
    F highest = {};  // where nothing is NaN
    for (int v = 0; v < tile_keys / V::W; ++v) {
      const F weight = V::load(p + v * V::W);
      if constexpr (HasNumbers) {
        x[v] = weight * V::load(scales + v * V::W);
        highest = V::max(highest, x[v]);
      } else {
        x[v] = seen_product(weight, scales + v * V::W);
        top = Round::greatest(top, x[v]);
      }
    }
    const float greatest = HasNumbers ? V::max_lane(highest) : Round::greatest_lane(top);
    const F steps = V::splat(Round::steps(greatest, count));
    for (int v = 0; v < tile_keys / V::W; v += 4) {
      U numbers[4];
      for (int i = 0; i < 4; ++i)
        numbers[i] = reinterpret_cast<U>(Round::nearest(x[v + i] * steps));
      I::store_bytes(to + v * V::W / 4, numbers);
    }
    return Round::unit(greatest, count);
  }
  /// The sum of the weights of rows with a 1: a whole number.
  static float counted(const uint32_t* weights, const float* ones) {
    uint8_t of_keys[tile_keys];
    __builtin_memcpy(of_keys, weights, sizeof of_keys);
    float sum = 0.0f;
    for (int k = 0; k < tile_keys; ++k) sum += ones[k] * static_cast<float>(of_keys[k]);
    return sum;
  }
  static float product(const float* p, const float* offsets) {
    F sum = {};
    for (int k = 0; k < tile_keys; k += V::W) sum += seen_product(V::load(p + k), offsets + k);
    return V::sum(sum);
  }

  // ---- Products

  template <int Parts, int Slots>
  static void chunk(const Scratch& s, const Form& form, int c, int keys, float rescale,
                    float* output) {
    constexpr int fours_max = Parts == 1 ? 1 : I::partial_max;
    const int lanes = form.lanes(), stride = form.codes() * 4;
    typename I::Words sum[Parts][4] = {};
    const int8_t* codes = s.values + c * Parts * I::bytes * 4;
    const uint32_t* weights[Slots][chunk_lanes];
    for (int slot = 0; slot < Slots; ++slot)
      for (int lane = 0; lane < chunk_lanes; ++lane)
        weights[slot][lane] = s.weights + form.granule(c * chunk_lanes + lane, slot) * groups;
    for (int begin = 0; begin < keys; begin += 4 * fours_max) {
      typename I::Partial partial[Parts][4] = {};
      const auto add_four = [&](int k) {
        const typename I::B first = I::spread(weights[0], k / 4),
                            second = Slots == 1 ? first : I::spread(weights[Slots - 1], k / 4);
#pragma GCC unroll 2
        for (int part = 0; part < Parts; ++part)
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j)
            partial[part][j] = I::add_products(partial[part][j], j < 2 ? first : second,
                                               I::load(codes + (part * 4 + j) * I::bytes));
        codes += stride;
      };
      if (keys - begin >= 4 * fours_max) {
#pragma GCC unroll 8
        for (int i = 0; i < fours_max; ++i) add_four(begin + 4 * i);
      } else {
        for (int k = begin; k < keys; k += 4) add_four(k);
      }
#pragma GCC unroll 2
      for (int part = 0; part < Parts; ++part)
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) sum[part][j] = I::whole(sum[part][j], partial[part][j]);
    }
    float* const to = output + c * Parts * I::bytes;
    for (int part = 0; part < Parts; ++part) {
      for (int j = 0; j < 4; ++j) {
        const int at = ((Slots == 1 ? 0 : j / 2) * lanes + c * chunk_lanes) * 4;
        float* const place = to + (part * 4 + j) * V::W;
        const F units = V::load(s.units + at), offsets = V::load(s.offsets + at);
        const F whole = __builtin_convertvector(reinterpret_cast<S>(sum[part][j]), F);
        // the offsets of i8 are counts: what complements lack is added exactly
        const F added = Parts == 1 ? (whole + offsets) * units : V::fma(whole, units, offsets);
        V::store(place, V::fma(V::load(place), V::splat(rescale), added));
      }
    }
  }
};

}  // namespace folio::inline v1::packed
