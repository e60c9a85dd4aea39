// SPDX-License-Identifier: Apache-2.0
/// src/sparse/kernel_list.cpp: the index kernels of this build, best first, and the selector.
#include "sparse/kernel_list.h"

#include <iterator>

#include "cpu/features.h"
#include "cpu/index/bf16.h"
#include "cpu/index/index.h"
#include "sparse/check_index.h"

namespace folio::inline v1 {
namespace {

constexpr IndexKernel all_index_kernels[] = {
#ifdef FOLIO_LEVELS_OF_X86_64
#ifndef FOLIO_WITHOUT_AMX_BF16
    {.name = "index_amx_bf16",
     .needs = needs_amx_bf16,
     .supports = indexer::supports_bf16,
     .refuse = indexer::refuse_bf16,
     .geometry = indexer::geometry_bf16,
     .score = amx_bf16::score_index,
     .select = amx_bf16::select_index,
     .collect = amx_bf16::collect_scores,
     .arithmetic = Arithmetic::amx,
     .operands = DType::bf16},
#endif
#ifndef FOLIO_WITHOUT_AVX512_BF16
    {.name = "index_avx512_bf16",
     .needs = needs_avx512_bf16,
     .supports = indexer::supports_bf16,
     .refuse = indexer::refuse_bf16,
     .geometry = indexer::geometry_bf16,
     .score = avx512_bf16::score_index,
     .select = avx512_bf16::select_index,
     .collect = avx512_bf16::collect_scores,
     .arithmetic = Arithmetic::bf16_dot,
     .operands = DType::bf16},
#endif
    {.name = "index_any_x86_64_v4",
     .needs = needs_x86_64_v4,
     .supports = indexer::supports,
     .refuse = indexer::refuse,
     .geometry = indexer::geometry,
     .score = x86_64_v4::score_index,
     .select = x86_64_v4::select_index,
     .collect = x86_64_v4::collect_scores},
    {.name = "index_any_x86_64_v3",
     .needs = needs_x86_64_v3,
     .supports = indexer::supports,
     .refuse = indexer::refuse,
     .geometry = indexer::geometry,
     .score = x86_64_v3::score_index,
     .select = x86_64_v3::select_index,
     .collect = x86_64_v3::collect_scores},
#endif
    {.name = "index_any_" FOLIO_BASELINE,
     .needs = needs_cpu,
     .supports = indexer::supports,
     .refuse = indexer::refuse,
     .geometry = indexer::geometry,
     .score = baseline::score_index,
     .select = baseline::select_index,
     .collect = baseline::collect_scores},
};

Result<const IndexKernel*> select_named(const IndexProblem& problem, Capabilities machine,
                                        std::string_view name) {
  for (const IndexKernel& kernel : all_index_kernels) {
    if (kernel.name != name) continue;
    const char* const reason = refusal(kernel, problem, machine);
    if (reason == nullptr) return &kernel;
    return fail(Errc::unsupported, "Index::create: kernel {} refuses: {}", name, reason);
  }
  return fail(Errc::invalid_argument,
              "Index::create: kernel is \"{}\", expected a name of the list of index kernels",
              name);
}

}  // namespace

std::span<const IndexKernel> index_kernels() noexcept { return all_index_kernels; }

const IndexKernel& index_kernel_of_machine() noexcept {
  for (const IndexKernel& kernel : all_index_kernels)
    if (machine_has(kernel.needs)) return kernel;
  return all_index_kernels[std::size(all_index_kernels) - 1];
}

const char* refusal(const IndexKernel& kernel, const IndexProblem& problem,
                    Capabilities machine) noexcept {
  if (const char* reason = lacks(kernel.needs, machine); reason != nullptr) return reason;
  if (const char* reason = unsupported(kernel.supports, as_attention(problem)); reason != nullptr)
    return reason;
  return kernel.refuse(problem);
}

Result<const IndexKernel*> select_index_kernel(const IndexProblem& problem, Capabilities machine,
                                               const MachineProfile& profile,
                                               std::string_view name) noexcept {
  if (!name.empty()) return select_named(problem, machine, name);
  const char* reason = "no kernel is built in";
  const IndexKernel* slow = nullptr;
  for (const IndexKernel& kernel : all_index_kernels) {
    const char* const refused = refusal(kernel, problem, machine);
    if (refused != nullptr) {
      reason = refused;
      continue;
    }
    if (kernel.arithmetic != Arithmetic::bf16_dot || !profile.bf16_dot_is_slow) return &kernel;
    if (slow == nullptr) slow = &kernel;
  }
  if (slow != nullptr) return slow;
  return fail(Errc::unsupported, "Index::create: {}", reason);
}

}  // namespace folio::inline v1
