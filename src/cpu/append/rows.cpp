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

constexpr Kernel all_kernels[] = {
    {"rows_" FOLIO_BASELINE, needs_cpu, baseline::write_rows, baseline::move_bytes},
};

#else

constexpr Kernel all_kernels[] = {
    {"rows_x86_64_v4", needs_x86_64_v4, x86_64_v4::write_rows, x86_64_v4::move_bytes},
    {"rows_x86_64_v3", needs_x86_64_v3, x86_64_v3::write_rows, x86_64_v3::move_bytes},
    {"rows_x86_64", needs_cpu, x86_64::write_rows, x86_64::move_bytes},
};

#endif

}  // namespace

#ifdef FOLIO_PORTABLE_KERNELS_ONLY
void fence() noexcept { std::atomic_thread_fence(std::memory_order_release); }
#else
void fence() noexcept { _mm_sfence(); }
#endif

std::span<const Kernel> kernels() noexcept { return all_kernels; }

const Kernel& kernel() noexcept {
  const Capabilities machine = machine_capabilities();
  for (const Kernel& candidate : all_kernels) {
    if (machine.has_all(candidate.needs)) return candidate;
  }
  return all_kernels[std::size(all_kernels) - 1];
}

}  // namespace folio::inline v1::rows
