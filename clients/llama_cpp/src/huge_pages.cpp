// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/huge_pages.cpp: madvise behind ggml's allocation.
#include "huge_pages.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "ggml-backend-impl.h"
#include "ggml_functions.h"
#include "settings.h"

namespace ggml_folio {
namespace {

constexpr size_t huge_page = size_t{2} << 20;
/// What is smaller gains nothing: its addresses stay in the processor.
constexpr size_t least_bytes = 4 * huge_page;

using Allocate = ggml_backend_buffer_t (*)(ggml_backend_buffer_type_t, size_t);
Allocate ggmls_own = nullptr;

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t bytes) {
  ggml_backend_buffer_t buffer = ggmls_own(type, bytes);
  const size_t size = buffer != nullptr ? ggml().backend_buffer_get_size(buffer) : 0;
  if (size < least_bytes) return buffer;
  const auto address = reinterpret_cast<uintptr_t>(ggml().backend_buffer_get_base(buffer));
  const uintptr_t begin = (address + huge_page - 1) / huge_page * huge_page;
  const uintptr_t end = (address + size) / huge_page * huge_page;
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  return buffer;
}

}  // namespace

void allocate_in_huge_pages() {
  const ggml_backend_dev_t cpu = cpu_device();
  if (!settings().huge_pages || cpu == nullptr || ggmls_own != nullptr) return;
  const ggml_backend_buffer_type_t type = ggml().backend_dev_buffer_type(cpu);
  ggmls_own = type->iface.alloc_buffer;
  type->iface.alloc_buffer = allocate;
}

}  // namespace ggml_folio
