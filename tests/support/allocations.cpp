// SPDX-License-Identifier: Apache-2.0
/// tests/support/allocations.cpp: the replaced operator new. In a file of its own: seen together
/// with its callers, the compiler takes malloc and operator delete for a mismatched pair.
#include "support/allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t count = 0;
thread_local bool refuse = false;
thread_local int64_t before_failure = -1;

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  ++count;
  if (refuse || (before_failure >= 0 && before_failure-- == 0)) return nullptr;
  return std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

constexpr std::size_t usual_alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

int64_t folio::test::allocations() noexcept { return count; }
void folio::test::fail_allocations(bool fail) noexcept { refuse = fail; }
void folio::test::fail_allocation_after(int64_t others) noexcept { before_failure = others; }

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, usual_alignment); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, usual_alignment);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
