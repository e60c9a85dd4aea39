// SPDX-License-Identifier: Apache-2.0
/// src/core/buffer.cpp: asks the allocator of the program.
#include "folio/core/buffer.h"

#include <new>

#include "core/checked.h"

namespace folio::inline v1 {
namespace {

constexpr std::align_val_t aligned{static_cast<size_t>(Buffer::alignment)};

}  // namespace

Result<Buffer> Buffer::allocate(int64_t bytes) noexcept {
  if (bytes < 0)
    return fail(Errc::invalid_argument, "Buffer::allocate: bytes is {}, expected at least 0",
                bytes);
  if (bytes == 0) return Buffer();
  // beyond memory the allocator is not asked: some end the program there
  void* memory = bytes > memory_bytes_max
                     ? nullptr
                     : ::operator new(static_cast<size_t>(bytes), aligned, std::nothrow);
  if (memory == nullptr)
    return fail(Errc::out_of_memory, "Buffer::allocate: no memory for {} bytes", bytes);
  return Buffer(static_cast<std::byte*>(memory), bytes);
}

void Buffer::release(std::byte* data) noexcept { ::operator delete(data, aligned); }

}  // namespace folio::inline v1
