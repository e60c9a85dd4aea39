// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_scales.h: what the scales of a slab of 8-bit rows become: factors of
/// scores and weights and, where scales vary along a head, ratios of elements. In shared memory, as
/// float32.
///
///   granules  the loader stages the ratios of each 16 elements, a slab ahead of its use
///   fine      the loader stages where scales lie. Those of a plane are read when its products are
///             next, into one ratio an element, K's and then V's in the same place
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cuda/decode/quantised_config.h"
#include "cuda/decode/span_state.h"
#include "cuda/primitives/device.h"
#include "folio/cache/page_walk.h"

namespace folio::cuda {

namespace detail {

/// The bits of the scale at `at`.
template <class Thread>
FOLIO_DEVICE uint32_t read_scale(Thread& t, const std::byte* at, DType dtype) {
  if (dtype == DType::f32) return t.read(reinterpret_cast<const uint32_t*>(at));
  if (bit_width(dtype) == 16) return t.read(reinterpret_cast<const uint16_t*>(at));
  return t.read(reinterpret_cast<const uint8_t*>(at));
}
FOLIO_DEVICE float scale_of(uint32_t bits, DType dtype) {
  return folio::detail::load_scale(reinterpret_cast<const std::byte*>(&bits), dtype);
}

}  // namespace detail

/// Scales that vary along a head become a factor of the row, a power of two, and ratios to it, so
/// that the largest element times the largest ratio nearly is what f16 holds.
template <DType Stored>
FOLIO_DEVICE float row_factor(float largest) {
  constexpr uint32_t headroom = Stored == DType::i8 ? 9 : Stored == DType::f8_e4m3 ? 7 : 0;
  const uint32_t exponent = __builtin_bit_cast(uint32_t, largest) >> 23 & 0xffu;
  if (exponent <= headroom || exponent >= 253) return 1.0f;  // next to 0 or the end, NaN
  return __builtin_bit_cast(float, (exponent + 1 - headroom) << 23);
}

/// Of a slab of a warp's ring. Planes: 0 is K, 1 is V.
template <Quantised Config>
class SlabScales {
 public:
  template <class Thread>
  FOLIO_DEVICE SlabScales(Thread& t, uint32_t slab) {
    const uint32_t base = t.shared_base(), number = (slab - base) / Config::slab_bytes;
    factors_ = base + Config::factors_at + number * Config::factor_bytes;
    if constexpr (Config::has_fine_granules) {
      places_ = base + Config::places_at + number * Config::place_bytes;
      ratios_ = base + Config::states_at + static_cast<uint32_t>(t.warp()) * Config::state_bytes;
    } else {
      ratios_ = base + Config::ratios_at + number * Config::ratio_bytes;
    }
  }

  /// Of keys `key` and the next.
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE detail::TwoFloats factor(Thread& t, int plane, int key) const {
    return t.template load_shared<detail::TwoFloats>(factor_at(plane, key));
  }
  /// Of elements 16 step + 4 c and the three behind it of K's row 8 j + lane / 4, c = lane % 4.
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE FourFloats ratios_of_key(Thread& t, int step, int j) const {
    const int row = t.lane() / 4;
    if constexpr (Config::has_fine_granules)
      return t.template load_shared<FourFloats>(
          further(element_at(row, 4 * (t.lane() & 3)), step, 8 * j));
    const auto ratio = t.template load_shared<float>(ratio_at(0, step, 8 * j + row));
    return {{ratio, ratio, ratio, ratio}};
  }
  /// Of elements 16 step + 2 r and the next of V's row 8 j + 2 c, then of the row behind it,
  /// r = lane / 4.
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE FourFloats ratios_of_values(Thread& t, int step, int j) const {
    const int row = 2 * (t.lane() & 3);
    if constexpr (Config::has_fine_granules) {
      const uint32_t at = element_at(row, t.lane() / 4 * 2);
      const auto even = t.template load_shared<detail::TwoFloats>(further(at, step, 8 * j));
      const auto odd = t.template load_shared<detail::TwoFloats>(further(at, step, 8 * j + 1));
      return {{even.x[0], even.x[1], odd.x[0], odd.x[1]}};
    }
    const auto two = t.template load_shared<detail::TwoFloats>(ratio_at(1, step, 8 * j + row));
    return {{two.x[0], two.x[0], two.x[1], two.x[1]}};
  }

  /// Staged scales of V's row `key` become 0.
  template <class Thread>
  FOLIO_DEVICE void clear_value(Thread& t, int key) const {
    t.store_shared(factor_at(1, key), 0.0f);
    if constexpr (Config::has_granules)
      for (int step = 0; step < Config::steps; ++step) t.store_shared(ratio_at(1, step, key), 0.0f);
  }

  /// Reads a plane's fine scales of rows that are `used`, and makes them factors and ratios; those
  /// of other rows are 0 and 1. By all lanes of a warp: two share a row.
  template <class Thread>
  FOLIO_DEVICE void stage(Thread& t, const ScaleView& scales, int plane, uint32_t used) const {
    const int key = t.lane() & 15, half = t.lane() >> 4;
    const bool has_scales = scales.data != nullptr;
    const int granules = has_scales ? folio::detail::granule_of(scales, head_size - 1) + 1 : 1;
    const float tensor_scale =
        has_scales && scales.tensor_scale != nullptr ? t.read(scales.tensor_scale) : 1.0f;
    const auto row = t.template load_shared<uint64_t>(places_ + place_of(plane, key));
    const auto scale = [&](int granule) {
      if ((used >> key & 1u) == 0) return 0.0f;
      if (!has_scales) return 1.0f;
      const auto* const at = reinterpret_cast<const std::byte*>(row) +
                             folio::detail::scale_offset_bytes(scales, 0, 0, 0, granule);
      return detail::scale_of(detail::read_scale(t, at, scales.dtype), scales.dtype) * tensor_scale;
    };
    t.sync_warp();  // everybody has read what lay there
    const float first = scale(half < granules ? half : 0);
    float largest = 0.0f;
    bool is_one = true;
    FOLIO_NO_UNROLL
    for (int granule = half; granule < granules; granule += 2) {
      const float value = scale(granule);
      largest = fmaxf(largest, fabsf(value));
      is_one = is_one && value == first;
      const int end = granule + 1 < granules ? (granule + 1) * scales.granularity : head_size;
      FOLIO_NO_UNROLL
      for (int d = granule * scales.granularity; d < end; ++d)
        t.store_shared(element_at(key, d), value);
    }
    largest = fmaxf(largest, t.shuffle_xor(largest, 16));
    const float first_of_other = t.shuffle_xor(first, 16);
    is_one = is_one && first == first_of_other;
    finish(t, plane, largest, is_one, first);
  }

 private:
  static constexpr int head_size = Config::head_size;

  /// Scales in shared memory to ratios. One scale of a whole row costs no rounding of elements.
  template <class Thread>
  FOLIO_DEVICE void finish(Thread& t, int plane, float largest, bool is_one, float first) const {
    const int key = t.lane() & 15, half = t.lane() >> 4;
    is_one = (t.ballot(is_one) >> key & 0x10001u) == 0x10001u;
    const float factor = is_one ? first : row_factor<Config::stored>(largest);
    const float inverse = 1.0f / factor;
    t.sync_warp();
    FOLIO_NO_UNROLL
    for (int d = 4 * half; d < head_size; d += 8) {
      auto four = t.template load_shared<FourFloats>(element_at(key, d));
      FOLIO_UNROLL
      for (int e = 0; e < 4; ++e) four.x[e] = is_one ? 1.0f : four.x[e] * inverse;
      t.store_shared(element_at(key, d), four);
    }
    if (half == 0) t.store_shared(factor_at(plane, key), factor);
    t.sync_warp();
  }

  [[nodiscard]] FOLIO_DEVICE uint32_t factor_at(int plane, int key) const {
    return factors_ + static_cast<uint32_t>(plane * 64 + key * 4);
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t ratio_at(int plane, int step, int key) const {
    return ratios_ + static_cast<uint32_t>((plane * Config::steps + step) * 64 + key * 4);
  }
  [[nodiscard]] FOLIO_DEVICE static uint32_t place_of(int plane, int key) {
    return static_cast<uint32_t>(plane * 128 + key * 8);
  }
  /// Units of four floats, swizzled: neither ratios_of_key nor ratios_of_values meet in a bank.
  [[nodiscard]] FOLIO_DEVICE uint32_t element_at(int key, int element) const {
    const int unit = element / 4 ^ (key & 6) ^ (key & 1) << 2;
    return ratios_ + static_cast<uint32_t>((key * head_size + unit * 4 + element % 4) * 4);
  }
  /// From an element's address, its row even or `rows` a multiple of 8, that of the one 16 `steps`
  /// and `rows` further: one word, from which each address is two instructions.
  [[nodiscard]] FOLIO_DEVICE static uint32_t further(uint32_t at, int steps, int rows) {
    return (at ^ static_cast<uint32_t>((steps ^ rows) & 1) << 6) +
           static_cast<uint32_t>(steps / 2 * 128 + rows * head_size * 4);
  }

  uint32_t factors_, ratios_, places_ = 0;
};

}  // namespace folio::cuda
