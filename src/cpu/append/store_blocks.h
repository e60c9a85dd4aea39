// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/store_blocks.h: rows of floats become rows of blocks (convert/to_blocks.h), which
/// hold their scales themselves.
///
/// A row that goes past the caches is made in memory that stays in the first one, and streamed from
/// there: blocks are no whole lines, their rows are.
#pragma once

#include <type_traits>

#include "cpu/append/granules.h"
#include "cpu/append/layout.h"
#include "cpu/append/move.h"
#include "cpu/append/rows.h"
#include "cpu/convert/to_blocks.h"

namespace folio::inline v1::rows {

/// `From`: how the rows are read (layout.h).
template <class I, class From>
class StoreBlocks {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W;

 public:
  /// Granules are whole blocks. Heads that follow one another are one run.
  static void narrow(const Conversion& conversion, const Granules& granules) {
    const Way way{conversion.streams, conversion.fetches_near,
                  row_bytes(conversion.source.dtype, block)};
    detail::visit_plane(conversion.target.dtype, [&granules, &way](auto type) {
      constexpr DType D = decltype(type)::value;
      if constexpr (detail::is_block(D)) each<D>(granules, way);
    });
  }

 private:
  static constexpr int64_t block = 32, line = 64;
  struct Way {
    bool streams;
    bool fetches_near;
    int64_t ahead_bytes;  ///< of the source, behind a block
  };

  template <DType D>
  static void each(const Granules& granules, const Way& way) {
    const int64_t length = granules.head_length();
    const bool is_one = granules.per_head == 1 &&
                        granules.from.head_stride_bytes == length * From::bytes &&
                        granules.to.head_stride_bytes == row_bytes(D, length) &&
                        granules.ahead.head_stride_bytes * block == length * way.ahead_bytes;
    if (is_one) {
      return store_row<D>(granules.from.first, length * granules.heads, granules.to.first,
                          granules.ahead.first, way);
    }
    for (int64_t h = 0; h < granules.heads; ++h) {
      for (int64_t g = 0; g < granules.per_head; ++g) {
        store_row<D>(granules.from.at(h, g), granules.length_of(g), granules.to.at(h, g),
                     granules.ahead.at(h, g), way);
      }
    }
  }

  template <DType D>
  static void store_row(const std::byte* from, int64_t n, std::byte* to, const std::byte* ahead,
                        const Way& way) {
    if (!way.streams || reinterpret_cast<uintptr_t>(to) % line != 0)
      return store_run<D>(from, n, to, ahead, way);
    constexpr int64_t most = 2 * line;  // blocks: whole lines
    alignas(64) std::byte row[row_bytes(D, most * block)];
    for (; n > 0; n -= most * block, from += most * block * From::bytes, to += sizeof row,
                  ahead += most * way.ahead_bytes) {
      const int64_t some = n < most * block ? n : most * block;
      store_run<D>(from, some, row, ahead, way);
      Move<I>::bytes(to, row, row_bytes(D, some), true);
    }
  }

  /// Blocks of a run, as ToBlocks reads them.
  struct Run {
    const std::byte* from;
    const std::byte* ahead;
    int64_t ahead_bytes;  ///< behind a block
    bool fetches_near;

    /// Of a coming token, as much as block k is.
    FOLIO_ALWAYS_INLINE void prefetch(int k) const {
      for (int64_t i = 0; i < From::source_bytes * block; i += line)
        fetch(ahead + k * ahead_bytes + i, fetches_near);
    }

    using Bits = std::conditional_t<From::bytes == 2, typename Words<I>::S, typename V::S>;
    static constexpr int registers = block / W, bit_registers = registers * From::bytes / 4;

    FOLIO_ALWAYS_INLINE void bits(int k, Bits (&x)[bit_registers]) const {
      for (int i = 0; i < bit_registers; ++i)
        x[i] = V::template load_as<Bits>(from + k * block * From::bytes + i * int{sizeof(Bits)});
    }
    FOLIO_ALWAYS_INLINE void load(int k, F (&x)[registers]) const {
      for (int i = 0; i < registers; i += 2)
        From::load(from + (k * block + i * W) * From::bytes, x[i], x[i + 1]);
    }
    FOLIO_ALWAYS_INLINE void ordered(int k, F (&x)[registers]) const {
      load(k, x);
      for (int i = 0; i < registers; i += 2) {
        const F a = x[i], b = x[i + 1];
        x[i] = From::Order::first(a, b);
        x[i + 1] = From::Order::second(a, b);
      }
    }
    FOLIO_ALWAYS_INLINE static U low_words(const U& a, const U& b) {
      return From::Order::low_words(a, b);
    }
  };

  template <DType D>
  static void store_run(const std::byte* from, int64_t n, std::byte* to, const std::byte* ahead,
                        const Way& way) {
    using Block = ToBlocks<I, D>;
    constexpr int64_t group = Block::group * block;  // elements
    while (n >= group) {
      const int64_t all = n / group;
      const int groups = all < Block::groups_max ? static_cast<int>(all) : Block::groups_max;
      Run runs[Block::groups_max];
      for (int g = 0; g < groups; ++g) {
        runs[g] = {from, ahead, way.ahead_bytes, way.fetches_near};
        from += group * From::bytes;
        ahead += Block::group * way.ahead_bytes;
      }
      Block::store(runs, groups, to);
      n -= groups * group;
      to += groups * Block::group * Block::bytes;
    }
    if (n > 0) store_rest<D>(from, n / block, to);
  }
  /// Fewer blocks than a group.
  template <DType D>
  [[gnu::noinline]] static void store_rest(const std::byte* from, int64_t blocks, std::byte* to) {
    using Block = ToBlocks<I, D>;
    alignas(64) std::byte some[Block::group * block * From::bytes] = {};
    std::byte rest[Block::group * Block::bytes];
    __builtin_memcpy(some, from, static_cast<size_t>(blocks * block * From::bytes));
    const Run run{some, some, 0, true};  // nothing of a coming token
    Block::store(&run, 1, rest);
    __builtin_memcpy(to, rest, static_cast<size_t>(blocks * Block::bytes));
  }
};

}  // namespace folio::inline v1::rows
