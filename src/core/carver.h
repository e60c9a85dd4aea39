// SPDX-License-Identifier: Apache-2.0
/// src/core/carver.h: lays arrays one behind the other in one block of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace folio::inline v1 {

/// Hands out consecutive parts, each at a multiple of 64 bytes. Without a base it only measures.
/// Sizes that overflow are remembered, not wrapped: whoever measures asks for `overflow`.
class Carver {
 public:
  static constexpr size_t alignment = 64;

  /// `base`: null, or aligned to `alignment` and as long as what a Carver without a base measured.
  explicit Carver(void* base) noexcept : base_(static_cast<std::byte*>(base)) {}

  /// Room for `count` objects; null without a base. Whoever takes it constructs them.
  template <class T>
  T* take(int64_t count) noexcept {
    static_assert(alignof(T) <= alignment && std::is_trivially_destructible_v<T>);
    T* const part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
    int64_t more = 0;
    overflow_ |= __builtin_mul_overflow(count, static_cast<int64_t>(sizeof(T)), &more);
    overflow_ |= __builtin_add_overflow(more, -more & static_cast<int64_t>(alignment - 1), &more);
    overflow_ |= __builtin_add_overflow(bytes_, more, &bytes_);
    return part;
  }

  [[nodiscard]] bool overflow() const noexcept { return overflow_; }
  [[nodiscard]] int64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
  bool overflow_ = false;
};

}  // namespace folio::inline v1
