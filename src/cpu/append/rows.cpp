// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows.cpp: the list of builds and the choice among them.
#include "cpu/append/rows.h"

#ifdef FOLIO_PORTABLE_KERNELS_ONLY
#include <atomic>
#else
#include <xmmintrin.h>
#endif

#include "cpu/features.h"

namespace folio::inline v1::rows {
namespace {

#ifdef FOLIO_PORTABLE_KERNELS_ONLY

constexpr const Kernel* all_kernels[] = {&baseline::rows_kernel};

#else

constexpr const Kernel* all_kernels[] = {&x86_64_v4::rows_kernel, &x86_64_v3::rows_kernel,
                                         &x86_64::rows_kernel};

#endif

}  // namespace

#ifdef FOLIO_PORTABLE_KERNELS_ONLY
void fence() noexcept { std::atomic_thread_fence(std::memory_order_release); }
#else
void fence() noexcept { _mm_sfence(); }
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
