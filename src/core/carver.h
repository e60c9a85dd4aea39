// SPDX-License-Identifier: Apache-2.0
/// src/core/carver.h: lays arrays one behind the other in one block of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/checked.h"

namespace folio::inline v1 {

/// Hands out consecutive parts, each at a multiple of 64 bytes. Without a base it only measures.
/// Sizes that overflow are remembered, not wrapped: whoever measures asks for `overflow`, or takes
/// `bytes` for the largest int64_t then. Where there is memory, nothing overflows.
class Carver {
 public:
  static constexpr int64_t alignment = 64;

  /// `base`: null, or aligned to `alignment` and as long as what a Carver without a base measured.
  explicit Carver(void* base) noexcept : base_(static_cast<std::byte*>(base)) {}

  /// Room for `count` objects; null without a base. Whoever takes it constructs them.
  template <class T>
  T* take(CheckedSize count) noexcept {
    static_assert(alignof(T) <= alignment && std::is_trivially_destructible_v<T>);
    T* const part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_.value());
    bytes_ += round_up(count * CheckedSize(sizeof(T)), alignment);
    return part;
  }

  [[nodiscard]] bool overflow() const noexcept { return !bytes_.is_at_most(INT64_MAX); }
  [[nodiscard]] int64_t bytes() const noexcept { return bytes_.value(); }

 private:
  std::byte* base_;
  CheckedSize bytes_;
};

}  // namespace folio::inline v1
