// SPDX-License-Identifier: Apache-2.0
/// src/core/checked.h: sizes of memory, computed without overflow.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>

namespace folio::inline v1 {

/// No address space has more bytes. Sums and small multiples of what is within it fit an int64_t.
inline constexpr int64_t memory_bytes_max = int64_t{1} << 56;

/// A count or a number of bytes, at least 0. What an int64_t cannot hold is too large and stays so;
/// it compares as more than everything else, so that the smaller of two bounds is right even where
/// the other cannot be written down. A negative number is one that wrapped before: too large.
class CheckedSize {
 public:
  constexpr CheckedSize() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): formulas read like those of plain numbers
  constexpr CheckedSize(int64_t value) noexcept : value_(value >= 0 ? value : too_large) {}

  [[nodiscard]] constexpr bool is_at_most(int64_t limit) const noexcept {
    return value_ <= limit && value_ != too_large;
  }
  /// The number; the largest int64_t where it is too large.
  [[nodiscard]] constexpr int64_t value() const noexcept { return value_; }

  constexpr auto operator<=>(const CheckedSize&) const noexcept = default;
  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) noexcept {
    int64_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? CheckedSize(too_large)
                                                            : CheckedSize(sum);
  }
  /// 0 times anything is 0.
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) noexcept {
    int64_t product = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &product) ? CheckedSize(too_large)
                                                                : CheckedSize(product);
  }
  constexpr CheckedSize& operator+=(CheckedSize other) noexcept { return *this = *this + other; }
  constexpr CheckedSize& operator*=(CheckedSize other) noexcept { return *this = *this * other; }

 private:
  static constexpr int64_t too_large = std::numeric_limits<int64_t>::max();
  int64_t value_ = 0;
};

/// The next multiple of `multiple` >= 1.
constexpr CheckedSize round_up(CheckedSize n, int64_t multiple) noexcept {
  return n + (multiple - n.value() % multiple) % multiple;
}

/// Bytes from the first to the last of `count` places that lie `stride` bytes apart, in either
/// direction.
constexpr CheckedSize reach_bytes(int64_t count, int64_t stride) noexcept {
  // the most negative stride has no magnitude in an int64_t: negated as unsigned it is too large
  const auto magnitude =
      stride < 0 ? -static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
  return CheckedSize(count > 1 ? count - 1 : 0) * CheckedSize(static_cast<int64_t>(magnitude));
}

}  // namespace folio::inline v1
