// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/store_blocks.h: rows of floats become rows of blocks (convert/to_blocks.h), which
/// hold their scales themselves.
#pragma once

#include "cpu/append/granules.h"
#include "cpu/append/layout.h"
#include "cpu/append/rows.h"
#include "cpu/convert/to_blocks.h"

namespace folio::inline v1::rows {

/// `From`: how the rows are read (layout.h).
template <class I, class From>
struct StoreBlocks {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

  /// Granules are whole blocks.
  static void narrow(const Conversion& conversion, const Granules& granules) {
    const Way way{conversion.fetches_near, row_bytes(conversion.source.dtype, block)};
    switch (conversion.target.dtype) {
      case DType::q8_0: return each<DType::q8_0>(granules, way);
      case DType::q4_0: return each<DType::q4_0>(granules, way);
      case DType::q4_1: return each<DType::q4_1>(granules, way);
      case DType::q5_0: return each<DType::q5_0>(granules, way);
      case DType::q5_1: return each<DType::q5_1>(granules, way);
      default: return each<DType::iq4_nl>(granules, way);
    }
  }

 private:
  static constexpr int block = 32;
  struct Way {
    bool fetches_near;
    int64_t ahead_bytes;  ///< of the source, behind a block
  };

  template <DType D>
  static void each(const Granules& granules, const Way& way) {
    for (int64_t h = 0; h < granules.heads; ++h) {
      for (int64_t g = 0; g < granules.per_head; ++g) {
        store_run<D>(granules.from.at(h, g), granules.length_of(g), granules.to.at(h, g),
                     granules.ahead.at(h, g), way);
      }
    }
  }
  /// Blocks of a run, as ToBlocks reads them.
  template <int Registers>
  struct Run {
    const std::byte* from;
    FOLIO_ALWAYS_INLINE void load(int k, F (&x)[Registers]) const {
      for (int i = 0; i < Registers; i += 2)
        From::load(from + (k * block + i * W) * From::bytes, x[i], x[i + 1]);
    }
    FOLIO_ALWAYS_INLINE void ordered(int k, F (&x)[Registers]) const {
      load(k, x);
      for (int i = 0; i < Registers; i += 2) {
        const F a = x[i], b = x[i + 1];
        x[i] = From::Order::first(a, b);
        x[i + 1] = From::Order::second(a, b);
      }
    }
  };

  template <DType D>
  static void store_run(const std::byte* from, int64_t n, std::byte* to, const std::byte* ahead,
                        const Way& way) {
    using Block = ToBlocks<I, D>;
    constexpr int64_t group = Block::group;
    for (; n > 0; n -= group * block, from += group * block * From::bytes,
                  to += group * Block::bytes, ahead += group * way.ahead_bytes) {
      const int64_t blocks = n / block < group ? n / block : group;
      for (int64_t i = 0; i < blocks * way.ahead_bytes; i += 64) fetch(ahead + i, way.fetches_near);
      Block::store(Run<Block::registers>{from}, static_cast<int>(blocks), to);
    }
  }
};

}  // namespace folio::inline v1::rows
