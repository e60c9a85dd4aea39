// SPDX-License-Identifier: Apache-2.0
/// pool/pages/block.cpp: the default allocator.
#include "pool/pages/block.h"

#include <new>

#include "core/carver.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace folio::inline v1::pool {
namespace {

constexpr size_t large_page = size_t{1} << 21;

/// A block of a few large pages would be mostly their rest.
size_t alignment(size_t bytes) {
  return bytes < 4 * large_page ? size_t{Carver::alignment} : large_page;
}

}  // namespace

void* allocate_block(size_t bytes) noexcept {
  const size_t align = alignment(bytes);
  void* const memory = ::operator new(bytes, std::align_val_t{align}, std::nothrow);
#ifdef __linux__
  if (memory != nullptr && align == large_page)
    (void)::madvise(memory, bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
  return memory;
}

void deallocate_block(void* memory, size_t bytes) noexcept {
  ::operator delete(memory, std::align_val_t{alignment(bytes)});
}

}  // namespace folio::inline v1::pool
