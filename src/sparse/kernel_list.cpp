// SPDX-License-Identifier: Apache-2.0
/// src/sparse/kernel_list.cpp: the index kernels of this build.
#include "sparse/kernel_list.h"

#include <iterator>

#include "cpu/features.h"
#include "cpu/index/index.h"

namespace folio::inline v1 {
namespace {

constexpr IndexKernel all_index_kernels[] = {
#ifndef FOLIO_PORTABLE_KERNELS_ONLY
    {.name = "index_any_x86_64_v4", .needs = needs_x86_64_v4, .collect = x86_64_v4::collect_scores},
    {.name = "index_any_x86_64_v3", .needs = needs_x86_64_v3, .collect = x86_64_v3::collect_scores},
#endif
    {.name = "index_any_" FOLIO_BASELINE, .needs = needs_cpu, .collect = baseline::collect_scores},
};

}  // namespace

std::span<const IndexKernel> index_kernels() noexcept { return all_index_kernels; }

const IndexKernel& index_kernel_of_machine() noexcept {
  for (const IndexKernel& kernel : all_index_kernels)
    if (machine_has(kernel.needs)) return kernel;
  return all_index_kernels[std::size(all_index_kernels) - 1];
}

}  // namespace folio::inline v1
