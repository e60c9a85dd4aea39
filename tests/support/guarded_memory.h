// SPDX-License-Identifier: Apache-2.0
/// tests/support/guarded_memory.h: memory whose first byte too many faults.
///
///     [ PROT_NONE | slack, canary | bytes ... | PROT_NONE ]
///
/// The block ends where an inaccessible page begins, so reading or writing behind it is a signal,
/// also in a release build; so is running far in front of it. Contents start as 0xff, which is NaN
/// in every floating type.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "folio/core/execution.h"

namespace folio::test {

/// Told of every block that is made and given back: of programs that copy to a device whatever a
/// case points to.
inline void (*watch_guarded_memory)(std::byte* data, int64_t bytes, bool is_made) = nullptr;

class GuardedMemory {
 public:
  GuardedMemory() = default;
  /// `alignment` > 1 moves the start down to a multiple; the slack of less than `alignment` bytes
  /// behind the block is then checked by `slack_untouched`.
  explicit GuardedMemory(int64_t bytes, int64_t alignment = 1) : bytes_(bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t usable = (bytes + alignment - 1 + page) / page * page;
    mapped_ = usable + 2 * page;
    void* map = mmap(nullptr, static_cast<size_t>(mapped_), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    map_ = static_cast<std::byte*>(map);
    if (mprotect(map_ + page, static_cast<size_t>(usable), PROT_READ | PROT_WRITE) != 0)
      throw std::bad_alloc();
    end_ = map_ + page + usable;
    const auto end = reinterpret_cast<uintptr_t>(end_);
    const uintptr_t start = (end - static_cast<uintptr_t>(bytes)) /
                            static_cast<uintptr_t>(alignment) * static_cast<uintptr_t>(alignment);
    data_ = end_ - (end - start);
    std::memset(data_, 0xff, static_cast<size_t>(end_ - data_));
    if (watch_guarded_memory != nullptr) watch_guarded_memory(data_, bytes_, true);
  }
  GuardedMemory(GuardedMemory&& other) noexcept { *this = std::move(other); }
  GuardedMemory& operator=(GuardedMemory&& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(data_, other.data_);
    std::swap(end_, other.end_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~GuardedMemory() {
    if (map_ == nullptr) return;
    if (watch_guarded_memory != nullptr) watch_guarded_memory(data_, bytes_, false);
    munmap(map_, static_cast<size_t>(mapped_));
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] MemorySpan span() const { return {data_, bytes_}; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  void fill(int byte) const { std::memset(data_, byte, static_cast<size_t>(bytes_)); }
  [[nodiscard]] bool slack_untouched() const {
    for (const std::byte* at = data_ + bytes_; at < end_; ++at) {
      if (*at != std::byte{0xff}) return false;
    }
    return true;
  }

 private:
  std::byte* map_ = nullptr;
  std::byte* data_ = nullptr;
  std::byte* end_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;
};

}  // namespace folio::test
