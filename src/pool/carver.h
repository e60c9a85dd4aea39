// SPDX-License-Identifier: Apache-2.0
/// pool/carver.h: lays a pool's arrays one behind the other in one block of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace folio::inline v1::pool {

/// Without a base it only measures. Sizes that overflow are remembered, not wrapped.
class Carver {
 public:
  static constexpr size_t alignment = 64;

  explicit Carver(std::byte* base) noexcept : base_(base) {}

  template <class T>
  void take(T*& array, int64_t count) noexcept {
    static_assert(alignof(T) <= alignment && std::is_trivially_destructible_v<T>);
    if (base_ != nullptr) array = reinterpret_cast<T*>(base_ + bytes_);
    int64_t more = 0;
    overflow_ |= __builtin_mul_overflow(count, static_cast<int64_t>(sizeof(T)), &more);
    overflow_ |= __builtin_add_overflow(more, -more & static_cast<int64_t>(alignment - 1), &more);
    overflow_ |= __builtin_add_overflow(bytes_, more, &bytes_);
  }

  [[nodiscard]] bool overflow() const noexcept { return overflow_; }
  [[nodiscard]] int64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
  bool overflow_ = false;
};

}  // namespace folio::inline v1::pool
