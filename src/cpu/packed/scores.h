// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/scores.h: products of rounded q with codes of K: whole numbers in each word of a
/// register, floats from chunk to chunk.
///
/// A register has four keys: in each of its lanes a word of each, so that only lanes are left to be
/// added. The sum of a row and a key is one chain whatever stands beside it. ISA-safe: templates on
/// a tag type.
#pragma once

#include <cstdint>

#include "cpu/packed/layout.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::packed {

template <class I>
class Scores {
  using V = Simd<I>;
  using F = typename V::F;
  using S = typename V::S;

 public:
  /// Rows [begin, end) and the first `keys` keys of the tile, a multiple of 8.
  static void of_rows(const Scratch& s, const Form& form, bool has_offsets, int begin, int end,
                      int keys) {
    const auto all = !form.is_packed   ? rows<1, 1, false>
                     : form.slots == 1 ? (has_offsets ? rows<2, 1, true> : rows<2, 1, false>)
                                       : (has_offsets ? rows<2, 2, true> : rows<2, 2, false>);
    all(s, form, begin, end, keys);
  }

 private:
  template <int Parts, int Slots, bool HasOffsets>
  static void rows(const Scratch& s, const Form& form, int begin, int end, int keys) {
    const int words = form.words(), quads = form.codes() * 4;
    for (int r = begin; r < end; ++r) {
      const Row row{s.q + static_cast<int64_t>(r) * quads,
                    s.q_start + static_cast<int64_t>(r) * words,
                    s.q_sums + static_cast<int64_t>(r) * words};
      const F step = V::splat(s.q_step[r]);
      float* const to = s.scores + static_cast<int64_t>(r) * tile_keys;
      for (int k = 0; k < keys; k += 8) {
        const uint8_t* const codes[2] = {s.keys + k / 4 * quads, s.keys + (k / 4 + 1) * quads};
        F sum[2] = {};
        for (int c = 0; c < form.chunks; ++c) {
#pragma GCC unroll 2
          for (int slot = 0; slot < Slots; ++slot) {
            const int at = (c * Slots + slot) * V::W;
#pragma GCC unroll 2
            for (int i = 0; i < 2; ++i) {
              const int beside = (k / 4 + i) * words + at;
              const S dot = product<Parts, Slots>(row, at, codes[i], c, slot);
              sum[i] =
                  V::fma(__builtin_convertvector(dot, F), V::load(s.key_scales + beside), sum[i]);
              if constexpr (HasOffsets)
                sum[i] = V::fma(V::load(row.sums + at), V::load(s.key_offsets + beside), sum[i]);
            }
          }
        }
        for (F& x : sum) x = x * step;
        I::store_lane_sums(to + k, sum);
      }
    }
  }

  struct Row {
    const int8_t* q;
    const int32_t* start;
    const float* sums;
  };

  /// Of one slot of chunk c.
  template <int Parts, int Slots>
  FOLIO_ALWAYS_INLINE static S product(const Row& row, int at, const uint8_t* codes, int c,
                                       int slot) {
    constexpr int each = 4 / Slots;
    auto dot = reinterpret_cast<typename I::Words>(V::template load_as<S>(row.start + at));
#pragma GCC unroll 2
    for (int part = 0; part < Parts; ++part) {
      const int64_t first = ((int64_t{c} * Parts + part) * 4 + slot * each) * I::bytes;
      typename I::Partial partial = {};
#pragma GCC unroll 4
      for (int j = 0; j < each; ++j) {
        const typename I::B a = I::load(codes + first + j * I::bytes),
                            b = I::load(row.q + first + j * I::bytes);
        if constexpr (Parts == 1) {
          dot = I::dot_signed(dot, a, b);
        } else {
          partial = I::add_products(partial, a, b);
        }
      }
      if constexpr (Parts != 1) dot = I::whole(dot, partial);
    }
    return reinterpret_cast<S>(dot);
  }
};

}  // namespace folio::inline v1::packed
