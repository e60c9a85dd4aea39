// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/stage.h: from pages to a tile of codes, rows by fours: of K words side by side,
/// of V bytes; what they are read by, and the rows of the next tile on their way.
///
/// Only keys that some row of the task sees are read. ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/packed/layout.h"
#include "cpu/packed/readings.h"
#include "cpu/packed/sides.h"
#include "cpu/packed/values.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/skeleton/tile_rows.h"

namespace folio::inline v1::packed {

template <class I>
class Stage {
  using B = typename I::B;
  using RowPointers = skeleton::RowPointers;
  using Turn = skeleton::Turn;

 public:
  /// `at`: the tile's rows of the task's first head, of which this is number turn.head.
  static void keys(const Scratch& s, const Form& form, const PagedKVView& view, const KeyTile& tile,
                   const RowPointers& at, const Turn& turn, int keys) {
    Readings<I> readings;
    readings.gather(view, form, tile, at.head + turn.head);
    readings.spread(form, keys, s.key_scales, readings.has_offsets(view) ? s.key_offsets : nullptr);
    (form.is_packed ? put_keys<2> : put_keys<1>)(s, form, Rows(view, at, turn), keys);
  }

  /// Rows of a negative scale change sides with it.
  static ValueScales values(const Scratch& s, const Form& form, const PagedKVView& view,
                            const KeyTile& tile, const RowPointers& at, const Turn& turn,
                            int keys) {
    Readings<I> readings;
    readings.gather(view, form, tile, at.head + turn.head);
    readings.copy(s.value_scales, readings.has_offsets(view) ? s.value_offsets : nullptr);
    const auto put = !form.is_packed   ? put_values<1, 1>
                     : form.slots == 1 ? put_values<2, 1>
                                       : put_values<2, 2>;
    put(s, form, Rows(view, at, turn), readings, keys);
    const bool has_complements = !form.is_packed && readings.has_negative();
    if (has_complements) readings.mark_negative(s.value_offsets);
    return {readings.has_offsets(view), readings.is_finite(), has_complements};
  }

 private:
  /// Rows of the head whose turn it is; each fetches the row of its place in the next tile.
  class Rows {
   public:
    Rows(const PagedKVView& view, const RowPointers& at, const Turn& turn)
        : dtype(view.dtype),
          row_(at.row),
          ahead_(turn.head + 1 < turn.heads ? at.row
                 : turn.ahead != nullptr    ? turn.ahead->row
                                            : nullptr),
          offset_(PageCursor::heads_bytes(view, turn.head)),
          ahead_offset_(
              PageCursor::heads_bytes(view, turn.head + 1 < turn.heads ? turn.head + 1 : 0)) {}
    /// Null where nobody sees the key.
    FOLIO_ALWAYS_INLINE const std::byte* next(int k, int bytes) const {
      if (ahead_ != nullptr && ahead_[k] != nullptr) {
        const std::byte* const ahead = ahead_[k] + ahead_offset_;
        __builtin_prefetch(ahead, 0, 2);
        for (int i = 64; i < bytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
      }
      return row_[k] == nullptr ? nullptr : row_[k] + offset_;
    }
    DType dtype;

   private:
    const std::byte* const* row_;
    const std::byte* const* ahead_;
    int64_t offset_, ahead_offset_;
  };

  template <int Parts>
  static void put_keys(const Scratch& s, const Form& form, Rows rows, int keys) {
    const Codes codes = codes_of(rows.dtype, code_bias);
    const B table = I::table(codes.of);
    const int bytes = form.row;  // what is stored to may be any object, so names are kept here
    uint8_t* to = s.keys;
    for (int k = 0; k < keys; k += 4) {
      const std::byte* row[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) row[i] = rows.next(k + i, bytes);
      for (int first = 0; first < bytes; first += I::bytes, to += Parts * 4 * I::bytes) {
        B four[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) four[i] = read(row[i], first, bytes - first);
        I::interleave_words(four);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          B part[Parts];
          unpack(table, four[j], part);
          for (int p = 0; p < Parts; ++p) I::store(to + (p * 4 + j) * I::bytes, part[p]);
        }
      }
    }
  }

  template <int Parts, int Slots>
  static void put_values(const Scratch& s, const Form& form, Rows rows, const Readings<I>& readings,
                         int keys) {
    const Codes codes = codes_of(rows.dtype, 0);
    const B table = I::table(codes.of);
    const int bytes = form.row;
    int8_t* to = s.values;
    Sides<I> sides;
    const int neighbour = I::mutant == Mutant::value_order_wrong ? 1 : 0;
    if (readings.has_negative()) sides.gather(form, readings);
    for (int k = 0; k < keys; k += 4) {
      const std::byte* row[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) row[i] = rows.next(k + (i ^ neighbour), bytes);
      for (int first = 0; first < bytes; first += I::bytes) {
        B part[4][Parts];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) unpack(table, read(row[i], first, bytes - first), part[i]);
#pragma GCC unroll 2
        for (int p = 0; p < Parts; ++p, to += 4 * I::bytes) {
          B four[4] = {part[0][p], part[1][p], part[2][p], part[3][p]};
          I::interleave(four);
          if (readings.has_negative())
            sides.template change<Slots>(form, k, first / I::bytes, four);
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) I::store(to + j * I::bytes, four[j]);
        }
      }
    }
  }

  /// The register that begins with byte `first` of a row, of which `left` bytes are left.
  FOLIO_ALWAYS_INLINE static B read(const std::byte* row, int first, int left) {
    if (row == nullptr) return B{};
    return left >= I::bytes ? I::load(row + first) : I::load_some(row + first, left);
  }
  template <int Parts>
  FOLIO_ALWAYS_INLINE static void unpack(B table, B x, B (&part)[Parts]) {
    if constexpr (Parts == 1) {
      part[0] = x;
    } else {
      const int low = I::mutant == Mutant::pattern_halves_swapped ? 1 : 0;
      part[low] = I::look_up(table, I::low_patterns(x));
      part[1 - low] = I::look_up(table, I::high_patterns(x));
    }
  }
};

}  // namespace folio::inline v1::packed
