// SPDX-License-Identifier: Apache-2.0
/// tier/disk/batch_memory.h: memory of batches, kept for the next ones.
#pragma once

#include <mutex>
#include <vector>

#include "tier/disk/record_io.h"

namespace folio::inline v1::tier {

/// Any thread may call. It keeps as many blocks as batches were under way at once, each of a
/// batch's usual size; a larger one is made for its batch alone.
class BatchMemory {
 public:
  /// Null where there is no memory.
  [[nodiscard]] IoMemory take(int64_t bytes) noexcept {
    if (bytes <= batch_bytes) {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        IoMemory memory = std::move(idle_.back());
        idle_.pop_back();
        return memory;
      }
    }
    return allocate_io_memory(std::max(bytes, batch_bytes));
  }

  /// What an operation still uses, one that never ended, is not kept.
  void give_back(IoMemory memory) noexcept {
    if (memory == nullptr || memory.use_count() != 1 || memory->bytes() != batch_bytes) return;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(memory));
  }

  explicit BatchMemory(uint32_t threads) { idle_.reserve(threads); }

 private:
  std::mutex mutex_;
  std::vector<IoMemory> idle_;
};

}  // namespace folio::inline v1::tier
