// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_memory.h: allocation hooks that count, and that show a pool's whole state as
/// bytes.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {

/// Everything a pool remembers lies in memory from here; the first living allocation is the pool
/// itself.
class PoolMemory {
 public:
  PoolMemory() = default;
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;
  ~PoolMemory() {
    for (const auto& [memory, bytes] : living) std::free(memory);
  }

  PoolOptions hooked(PoolOptions options) {
    options.allocate = [](void* self, size_t bytes, size_t align) {
      return static_cast<PoolMemory*>(self)->allocate(bytes, align);
    };
    options.deallocate = [](void* self, void* memory, size_t bytes) {
      static_cast<PoolMemory*>(self)->deallocate(memory, bytes);
    };
    options.context = this;
    return options;
  }

  /// The bytes of the pool: two equal snapshots are the same state.
  [[nodiscard]] std::vector<std::byte> snapshot() const {
    const auto* first = static_cast<const std::byte*>(living.front().first);
    return {first, first + living.front().second};
  }

  std::vector<std::pair<void*, size_t>> living;
  int calls = 0;
  int wrong_frees = 0;
  size_t misalign = 0;
  bool fail = false;

 private:
  void* allocate(size_t bytes, size_t align) {
    ++calls;
    if (fail) return nullptr;
    void* memory = std::aligned_alloc(align, (bytes + align) / align * align + align);
    std::memset(memory, 0xa5, bytes);
    living.emplace_back(memory, bytes);
    return static_cast<std::byte*>(memory) + misalign;
  }
  void deallocate(void* memory, size_t bytes) {
    for (size_t i = 0; i < living.size(); ++i) {
      if (static_cast<std::byte*>(living[i].first) + misalign != memory ||
          living[i].second != bytes)
        continue;
      std::free(living[i].first);
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    ++wrong_frees;
  }
};

}  // namespace folio::test
