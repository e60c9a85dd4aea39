// SPDX-License-Identifier: Apache-2.0
/// src/kernel/bits.h: a set of enumerators, one bit each: what a machine has, what a problem needs,
/// what a kernel supports.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// A set of enumerators of `E`, whose values are below 32.
template <class E>
class Bits {
 public:
  FOLIO_ALWAYS_INLINE constexpr Bits() noexcept = default;
  // Implicit, so that one enumerator is a set as well.
  FOLIO_ALWAYS_INLINE constexpr Bits(E e) noexcept : word_(uint32_t{1} << static_cast<int>(e)) {}

  FOLIO_ALWAYS_INLINE constexpr Bits(std::initializer_list<E> list) noexcept {
    for (const E e : list) word_ |= Bits(e).word_;
  }

  [[nodiscard]] FOLIO_ALWAYS_INLINE constexpr bool has(E e) const noexcept {
    return (word_ >> static_cast<int>(e) & 1) != 0;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE constexpr bool has_all(Bits other) const noexcept {
    return (other.word_ & ~word_) == 0;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE constexpr bool is_empty() const noexcept { return word_ == 0; }
  [[nodiscard]] FOLIO_ALWAYS_INLINE constexpr Bits without(Bits other) const noexcept {
    return of_word(word_ & ~other.word_);
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE constexpr uint32_t word() const noexcept { return word_; }
  [[nodiscard]] FOLIO_ALWAYS_INLINE static constexpr Bits of_word(uint32_t word) noexcept {
    Bits bits;
    bits.word_ = word;
    return bits;
  }

  FOLIO_ALWAYS_INLINE friend constexpr Bits operator|(Bits a, Bits b) noexcept {
    return of_word(a.word_ | b.word_);
  }
  FOLIO_ALWAYS_INLINE constexpr Bits& operator|=(Bits other) noexcept {
    word_ |= other.word_;
    return *this;
  }
  FOLIO_ALWAYS_INLINE friend constexpr bool operator==(Bits a, Bits b) noexcept {
    return a.word_ == b.word_;
  }

 private:
  uint32_t word_ = 0;
};

}  // namespace folio::inline v1
