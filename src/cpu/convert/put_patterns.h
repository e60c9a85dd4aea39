// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/put_patterns.h: the patterns of a block as its bytes: i8, or 4 bits, two to a
/// byte, and fifth bits apart.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/blocks.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I, DType D>
class PutPatterns {
  using V = Simd<I>;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W, registers = block_elements(D) / W;
  static constexpr BlockLayout layout = block_layout<D>;
  static constexpr bool is_whole = D == DType::q8_0;

 public:
  typedef int16_t Words
      __attribute__((vector_size(W * sizeof(int32_t))));  // NOLINT(modernize-use-using)

  /// A block's 32 patterns, in order.
  FOLIO_ALWAYS_INLINE static void put(const Words (&words)[registers / 2], std::byte* block) {
    Bytes bytes;
    narrow(words, bytes);
    if constexpr (is_whole) {
      __builtin_memcpy(block + layout.patterns, &bytes, sizeof bytes);
    } else {
      put_pairs(bytes, block + layout.patterns);
    }
    if constexpr (layout.fifth_bits != 0) {
      const uint32_t fifth = fifth_bits(bytes);
      __builtin_memcpy(block + layout.fifth_bits, &fifth, sizeof fifth);
    }
  }

 private:
  typedef uint8_t Bytes __attribute__((vector_size(32)));       // NOLINT(modernize-use-using)
  typedef uint16_t HalfWords __attribute__((vector_size(16)));  // NOLINT(modernize-use-using)

  FOLIO_ALWAYS_INLINE static void narrow(const Words (&words)[registers / 2], Bytes& to) {
    if constexpr (requires { I::low_bytes(words[0], to); }) {
      I::low_bytes(words[0], to);
    } else {
      for (int i = 0; i < registers / 2; i += 2) {
        const auto a = reinterpret_cast<U>(words[i]), b = reinterpret_cast<U>(words[i + 1]);
        const U some = is_whole ? I::pack8_signed(a, b) : I::pack8(a, b);
        __builtin_memcpy(reinterpret_cast<std::byte*>(&to) + i * 2 * W, &some, sizeof some);
      }
    }
  }
  /// Elements i and i + 16 in a byte.
  FOLIO_ALWAYS_INLINE static void put_pairs(const Bytes& bytes, std::byte* to) {
    HalfWords halves[2];
    __builtin_memcpy(halves, &bytes, sizeof halves);
    HalfWords pairs = halves[0] | halves[1] << 4;
    if constexpr (layout.fifth_bits != 0)
      pairs = (halves[0] & 0x0f0f) | ((halves[1] << 4) & 0xf0f0);
    __builtin_memcpy(to, &pairs, sizeof pairs);
  }
  FOLIO_ALWAYS_INLINE static uint32_t fifth_bits(const Bytes& bytes) {
    if constexpr (requires { I::template bits_of_bytes<4>(bytes); })
      return I::template bits_of_bytes<4>(bytes);
    typedef uint8_t Some __attribute__((vector_size(W)));  // NOLINT(modernize-use-using)
    uint32_t bits = 0;
    for (int i = 0; i < registers; ++i) {
      Some some;
      __builtin_memcpy(&some, reinterpret_cast<const std::byte*>(&bytes) + i * W, sizeof some);
      const U lanes = __builtin_convertvector(some, U) << 27;
      bits |= static_cast<uint32_t>(I::signs(reinterpret_cast<S>(lanes))) << i * W;
    }
    return bits;
  }
};

}  // namespace folio::inline v1
