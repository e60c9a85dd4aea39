// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows.cpp: the list of builds and the choice among them.
#include "cpu/append/rows.h"

#ifdef FOLIO_LEVELS_OF_X86_64
#include <xmmintrin.h>
#else
#include <atomic>
#endif

#include "cpu/features.h"

namespace folio::inline v1::rows {
namespace {

#ifdef FOLIO_LEVELS_OF_X86_64
constexpr const Kernel* all_kernels[] = {&x86_64_v4::rows_kernel, &x86_64_v3::rows_kernel,
                                         &x86_64::rows_kernel};
#else
constexpr const Kernel* all_kernels[] = {&baseline::rows_kernel};
#endif

}  // namespace

#ifdef FOLIO_LEVELS_OF_X86_64
void fence() noexcept { _mm_sfence(); }
#else
void fence() noexcept { std::atomic_thread_fence(std::memory_order_release); }
#endif

std::span<const Kernel* const> kernels() noexcept { return all_kernels; }

const Kernel& kernel() noexcept {
  const Capabilities machine = machine_capabilities();
  for (const Kernel* candidate : all_kernels) {
    if (machine.has_all(candidate->needs)) return *candidate;
  }
  return *all_kernels[std::size(all_kernels) - 1];
}

}  // namespace folio::inline v1::rows
