// SPDX-License-Identifier: Apache-2.0
/// folio/core/buffer.h: memory that its holder owns, aligned as folio wants it: for planes, plans,
/// workspaces and tables of whoever has no allocator of his own.
///
/// folio itself takes a `MemorySpan` everywhere and never asks where it comes from. Thread safety:
/// distinct objects are independent; one object is externally synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Owns its memory and moves; what was moved from is empty.
class Buffer {
 public:
  static constexpr int64_t alignment = 64;

  /// Empty: null, 0 bytes.
  Buffer() noexcept = default;
  /// `bytes` bytes that hold anything; 0 bytes are an empty buffer.
  /// Errors: invalid_argument for a negative size, out_of_memory where the system gives no more.
  [[nodiscard]] FOLIO_EXPORT static Result<Buffer> allocate(int64_t bytes) noexcept;

  Buffer(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) release(data_);
  }

  /// 64-byte aligned; null if empty.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// As asked for.
  [[nodiscard]] int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] MemorySpan span() const noexcept { return {data_, bytes_}; }

 private:
  Buffer(std::byte* data, int64_t bytes) noexcept : data_(data), bytes_(bytes) {}
  FOLIO_EXPORT static void release(std::byte* data) noexcept;

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace folio::inline v1
