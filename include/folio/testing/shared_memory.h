// SPDX-License-Identifier: Apache-2.0
/// folio/testing/shared_memory.h: the memory that emulated copies and instructions work on.
///
/// Shared memory is a window of bytes whose addresses begin at 0, aligned for every swizzle. Global
/// memory is one allocation: a device address and the host bytes that stand for it; whatever lies
/// outside is not mapped, and touching it is an error. Thread safety: externally synchronised. Only
/// the constructor allocates; it may throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "folio/core/execution.h"

namespace folio::inline v1::emulator {

class SharedMemory {
 public:
  /// Bytes start as `fill`; 0xff is NaN in every floating type, so that what nothing has written is
  /// noticed.
  explicit SharedMemory(int64_t bytes, uint8_t fill = 0xff)
      : bytes_(static_cast<size_t>(bytes), std::byte{fill}) {}

  [[nodiscard]] int64_t size() const noexcept { return static_cast<int64_t>(bytes_.size()); }
  [[nodiscard]] bool contains(int64_t address, int64_t bytes) const noexcept {
    return address >= 0 && bytes >= 0 && bytes <= size() && address <= size() - bytes;
  }
  [[nodiscard]] std::byte* at(int64_t address) noexcept { return bytes_.data() + address; }
  [[nodiscard]] const std::byte* at(int64_t address) const noexcept {
    return bytes_.data() + address;
  }
  /// Requires contains(address, sizeof(T)).
  template <class T>
  [[nodiscard]] T load(int64_t address) const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, at(address), sizeof value);
    return value;
  }
  template <class T>
  void store(int64_t address, const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(at(address), &value, sizeof value);
  }
  void fill(uint8_t byte) noexcept { std::memset(bytes_.data(), byte, bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
};

/// One allocation, which owns nothing.
struct GlobalMemory {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  uint64_t address = 0;              ///< as the device sees `data`
  const char* label = "allocation";  ///< for messages
};

/// Memory whose device address is its host address, as tensor maps built over host memory have it.
[[nodiscard]] inline GlobalMemory global_memory(MemorySpan span,
                                                const char* label = "allocation") noexcept {
  return {static_cast<std::byte*>(span.data), span.bytes, reinterpret_cast<uint64_t>(span.data),
          label};
}

}  // namespace folio::inline v1::emulator
