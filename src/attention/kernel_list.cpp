// SPDX-License-Identifier: Apache-2.0
/// src/attention/kernel_list.cpp: the kernels of this build, best first, and the selector.
#include "attention/kernel_list.h"

#include "cpu/features.h"
#include "cpu/portable.h"

namespace folio {
inline namespace v1 {
namespace {

constexpr Kernel all_kernels[] = {
    {"attention_paged_any_x86_64_v4", Isa::x86_64_v4, Reproducible::per_query, portable::refuse, portable::geometry,
     x86_64_v4::run_portable, x86_64_v4::finish_portable},
    {"attention_paged_any_x86_64_v3", Isa::x86_64_v3, Reproducible::per_query, portable::refuse, portable::geometry,
     x86_64_v3::run_portable, x86_64_v3::finish_portable},
    {"attention_paged_any_x86_64", Isa::x86_64, Reproducible::per_query, portable::refuse, portable::geometry,
     x86_64::run_portable, x86_64::finish_portable},
};

const char* missing(Isa isa) {
  return isa == Isa::x86_64_v4 ? "this machine lacks the x86-64-v4 instructions"
                               : "this machine lacks the x86-64-v3 instructions";
}

}  // namespace

std::span<const Kernel> kernels() noexcept { return all_kernels; }

const char* refusal(const Kernel& kernel, const AttentionProblem& problem, Isa isa) noexcept {
  if (kernel.isa > isa) return missing(kernel.isa);
  if (problem.reproducible > kernel.promises) return "reproducible: the kernel does not promise the level asked for";
  return kernel.refuse(problem);
}

Result<const Kernel*> select(const AttentionProblem& problem, Isa isa, std::string_view name) noexcept {
  const char* reason = "no kernel is built in";
  for (const Kernel& kernel : all_kernels) {
    if (!name.empty() && kernel.name != name) continue;
    reason = refusal(kernel, problem, isa);
    if (reason == nullptr) return &kernel;
    if (!name.empty()) return fail(Errc::unsupported, "Attention::create: kernel {} refuses: {}", name, reason);
  }
  if (!name.empty())
    return fail(Errc::invalid_argument, "Attention::create: kernel is \"{}\", expected a name of the kernel list", name);
  return fail(Errc::unsupported, "Attention::create: {}", reason);
}

}  // namespace v1
}  // namespace folio
