// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/queries.h: rows of q rounded to steps of 1/127 of their greatest element, in the
/// order of K's codes.
///
/// What a row gets depends on that row alone. ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "cpu/packed/layout.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::packed {

/// Floats to whole numbers of 8 bits: steps of `greatest` / `count`, to nearest even.
template <class I>
struct Rounding {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr float smallest = 0x1p-120f;  ///< below it everything becomes 0

  /// The greatest of what a register holds and `so_far`, without signs: NaN is above all numbers.
  FOLIO_ALWAYS_INLINE static U greatest(const U& so_far, const F& x) {
    const U size = V::bits(x) & V::splat(0x7fffffffu);
    return size > so_far ? size : so_far;
  }
  static float greatest_lane(const U& sizes) {
    uint32_t lane[V::W], top = 0;
    __builtin_memcpy(lane, &sizes, sizeof lane);
    for (const uint32_t size : lane) top = size > top ? size : top;
    return __builtin_bit_cast(float, top);
  }
  /// What numbers are multiplied by.
  static float steps(float greatest, int count) {
    return greatest < smallest ? 0.0f : static_cast<float>(count) / greatest;
  }
  /// What 1 stands for.
  static float unit(float greatest, int count) {
    return greatest < smallest ? 0.0f : greatest / static_cast<float>(count);
  }
  FOLIO_ALWAYS_INLINE static S nearest(const F& x) {
    const F rounder = V::splat(12582912.0f);  // 1.5 * 2^23: the sum has the number in its low bits
    return reinterpret_cast<S>(V::bits(x + rounder) - V::bits(rounder));
  }
};

template <class I>
struct Queries {
  using V = Simd<I>;
  using U = typename V::U;
  using Round = Rounding<I>;

  /// Row `r` of the task: head_size floats, behind which zeros fill a register.
  static void set(const Scratch& s, const Form& form, int r, const float* row, int head_size,
                  float scale) {
    U top = {};
    for (int d = 0; d < head_size; d += V::W) top = Round::greatest(top, V::load(row + d));
    const float greatest = Round::greatest_lane(top);
    const auto steps = V::splat(Round::steps(greatest, 127));
    s.q_step[r] = Round::unit(greatest, 127) * scale;
    int32_t numbers[head_size_max + V::W];
    for (int d = 0; d < head_size; d += V::W) {
      const auto n = Round::nearest(V::load(row + d) * steps);
      __builtin_memcpy(numbers + d, &n, sizeof n);
    }
    put(s, form, r, numbers);
  }

 private:
  static void put(const Scratch& s, const Form& form, int r, const int32_t* numbers) {
    const int words = form.words(), bias = form.is_packed ? code_bias : I::signed_bias;
    int8_t* to = s.q + static_cast<int64_t>(r) * form.codes() * 4;
    int32_t* const start = s.q_start + static_cast<int64_t>(r) * words;
    float* const sums = s.q_sums + static_cast<int64_t>(r) * words;
    int32_t of_words[head_size_max] = {};
    for (int c = 0; c < form.chunks; ++c) {
      for (int part = 0; part < form.parts; ++part) {
        for (int j = 0; j < 4; ++j) {
          for (int lane = 0; lane < form.bytes / lane_bytes; ++lane, to += lane_bytes) {
            const int byte = c * form.bytes + lane * lane_bytes + j * 4;
            int32_t& sum = of_words[(c * form.slots + j * form.slots / 4) * V::W + lane * 4];
            for (int i = 0; i < 4; ++i) {
              const int element = form.element(byte + i, part);
              const int32_t number = element < 0 ? 0 : numbers[element];
              for (int key = 0; key < 4; ++key) to[key * 4 + i] = static_cast<int8_t>(number);
              sum += static_cast<int8_t>(number);
            }
          }
        }
      }
    }
    for (int w = 0; w < words; ++w) {
      const int32_t sum = of_words[w / 4 * 4];
      start[w] = I::mutant == Mutant::code_bias_kept ? 0 : -bias * sum;
      sums[w] = static_cast<float>(sum);
    }
  }
};

}  // namespace folio::inline v1::packed
