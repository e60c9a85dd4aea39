// SPDX-License-Identifier: Apache-2.0
/// pool/pages/page_extras.h: what options keep of each page beside its record.
///
/// The parts of a page lie side by side, those of options that are off take nothing: a page that
/// lies anywhere in memory costs one line, however many options are on. With all of them it is half
/// a line, and begins at one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::inline v1::pool {

/// One part of each page's extras.
template <class T>
class PerPage {
 public:
  PerPage() = default;
  PerPage(std::byte* first, uint32_t stride_bytes) noexcept
      : first_(first), stride_bytes_(stride_bytes) {}
  /// Parts that lie behind one another.
  explicit PerPage(T* parts) noexcept : PerPage(reinterpret_cast<std::byte*>(parts), sizeof(T)) {}

  [[nodiscard]] bool is_on() const noexcept { return first_ != nullptr; }
  [[nodiscard]] T& operator[](uint32_t page) const noexcept {
    return *reinterpret_cast<T*>(first_ + size_t{page} * stride_bytes_);
  }

 private:
  std::byte* first_ = nullptr;
  uint32_t stride_bytes_ = 0;
};

class PageExtras {
 public:
  /// Where a part lies in a page's extras.
  using Place = uint32_t;

  /// Before there is memory.
  template <class T>
  [[nodiscard]] Place add() noexcept {
    static_assert(alignof(T) == alignof(uint32_t) && sizeof(T) % alignof(uint32_t) == 0);
    const Place place = bytes_;
    bytes_ += static_cast<uint32_t>(sizeof(T));
    return place;
  }
  [[nodiscard]] uint32_t bytes_per_page() const noexcept { return bytes_; }

  void attach(std::byte* memory) noexcept { memory_ = memory; }
  template <class T>
  [[nodiscard]] PerPage<T> part(Place place) const noexcept {
    return {memory_ + place, bytes_};
  }

  /// Asks for all parts of a page, which may begin in one line and end in the next one.
  void prefetch(uint32_t page) const noexcept {
    if (bytes_ == 0) return;
    const std::byte* const first = memory_ + size_t{page} * bytes_;
    __builtin_prefetch(first, 1);
    __builtin_prefetch(first + bytes_ - 1, 1);
  }

 private:
  std::byte* memory_ = nullptr;
  uint32_t bytes_ = 0;
};

}  // namespace folio::inline v1::pool
