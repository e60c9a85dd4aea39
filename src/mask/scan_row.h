// SPDX-License-Identifier: Apache-2.0
/// src/mask/scan_row.h: how a row is scanned: plain loops that compilers turn into vectors of
/// whatever instruction set the file that includes this is built for.
///
/// Masks are long stretches of hidden and of seen keys: blocks that are all one or all the other
/// are found by folding their patterns; bits are formed key by key where a block is mixed.
///
/// ISA-safe: templates on a tag type of an anonymous namespace.
#pragma once

#include <cstdint>

namespace folio::inline v1::mask {

/// `Pattern` is the unsigned type of a number's bits, `Hidden` those of -inf.
template <class InstructionSet, class Pattern, Pattern Hidden>
struct RowScan {
  static bool scan(const void* row, int64_t keys, uint64_t* bits) noexcept {
    const auto* x = static_cast<const Element*>(row);
    bool is_weighted = false;
    int64_t done = 0;
    for (; done + block <= keys; done += block, bits += block / word)
      is_weighted |= scan_block(x + done, bits);
    for (; done + word <= keys; done += word) is_weighted |= scan_word(x + done, bits++);
    if (done == keys) return is_weighted;
    Element last[word];
    for (int i = 0; i < word; ++i) last[i] = Hidden;
    for (int64_t i = 0; i < keys - done; ++i) last[i] = x[done + i];
    return is_weighted | scan_word(last, bits);
  }

 private:
  // the caller's numbers may be of any type of this size
  typedef Pattern Element __attribute__((may_alias));  // NOLINT(modernize-use-using)
  static constexpr int word = 64, block = 256;
  static constexpr Pattern magnitude = static_cast<Pattern>(~Pattern{0}) >> 1;

  struct Folded {
    Pattern hidden_from = 0;  // 0: all are hidden
    Pattern size = 0;         // 0: all are 0 or -0
  };
  template <int Count>
  static Folded fold(const Element* x) {
    Folded f;
    for (int i = 0; i < Count; ++i) {
      f.hidden_from |= static_cast<Pattern>(x[i] ^ Hidden);
      f.size |= static_cast<Pattern>(x[i] & magnitude);
    }
    return f;
  }

  static bool scan_block(const Element* x, uint64_t* bits) {
    const Folded f = fold<block>(x);
    if (f.hidden_from == 0 || f.size == 0) {
      for (int i = 0; i < block / word; ++i) bits[i] = f.size == 0 ? ~uint64_t{0} : 0;
      return false;
    }
    bool is_weighted = false;
    for (int i = 0; i < block / word; ++i) is_weighted |= scan_word(x + i * word, bits + i);
    return is_weighted;
  }

  static bool scan_word(const Element* x, uint64_t* bits) {
    uint8_t seen[word];
    Pattern weight = 0;
    for (int i = 0; i < word; ++i) {
      const bool is_seen = x[i] != Hidden;
      seen[i] = is_seen ? 1 : 0;
      weight |= is_seen ? static_cast<Pattern>(x[i] & magnitude) : Pattern{0};
    }
    uint64_t all = 0;
    for (int i = 0; i < 8; ++i) all |= bits_of_bytes(seen + 8 * i) << (8 * i);
    *bits = all;
    return weight != 0;
  }

  /// Bit i: byte i, which is 0 or 1, is 1. The product puts byte i's bit at bit 56 + i, and no two
  /// of its terms meet.
  static uint64_t bits_of_bytes(const uint8_t* bytes) {
    uint64_t x = 0;
    for (int i = 0; i < 8; ++i) x |= uint64_t{bytes[i]} << (8 * i);
    return (x * 0x0102040810204080u) >> 56;
  }
};

template <class I>
using ScanF16 = RowScan<I, uint16_t, 0xfc00>;
template <class I>
using ScanBf16 = RowScan<I, uint16_t, 0xff80>;
template <class I>
using ScanF32 = RowScan<I, uint32_t, 0xff800000>;

}  // namespace folio::inline v1::mask
