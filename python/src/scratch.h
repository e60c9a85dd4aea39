// SPDX-License-Identifier: Apache-2.0
/// python/src/scratch.h: memory that is lent for a call or a step and comes back: plans,
/// workspaces, temporary rows.
#pragma once

#include <cstdint>
#include <utility>

#include "folio/core/buffer.h"

namespace folio::python {

/// A buffer that returns to the process's store when its holder ends. Thread safety: as a value;
/// the store itself may be used from any thread.
class Scratch {
 public:
  Scratch() noexcept = default;
  /// At least `bytes` bytes, 64-byte aligned, holding anything. Throws folio::Error.
  explicit Scratch(int64_t bytes);
  Scratch(Scratch&&) noexcept = default;
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~Scratch();

  [[nodiscard]] MemorySpan span() const noexcept { return buffer_.span(); }
  [[nodiscard]] std::byte* data() const noexcept { return buffer_.data(); }

 private:
  Buffer buffer_;
};

}  // namespace folio::python
