// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages.cpp: the list of builds and the choice among them.
#include "cpu/pages/pages.h"

#include <iterator>

#include "cpu/features.h"

namespace folio::inline v1::pages {
namespace {

constexpr const Kernel* all_kernels[] = {
#ifdef FOLIO_LEVELS_OF_X86_64
    &x86_64_v4::pages_kernel, &x86_64_v3::pages_kernel,
#endif
    &baseline::pages_kernel};

}  // namespace

std::span<const Kernel* const> kernels() noexcept { return all_kernels; }

const Kernel& kernel() noexcept {
  for (const Kernel* candidate : all_kernels)
    if (machine_has(candidate->needs)) return *candidate;
  return *all_kernels[std::size(all_kernels) - 1];
}

}  // namespace folio::inline v1::pages
