// SPDX-License-Identifier: Apache-2.0
/// src/attention/kernel_list.cpp: the kernels of this build, best first, and the selector.
#include "attention/kernel_list.h"

#include "cpu/amx/grouped/grouped.h"
#include "cpu/amx/latent/latent.h"
#include "cpu/avx512/kernels.h"
#include "cpu/portable/portable.h"

namespace folio::inline v1 {
namespace {

constexpr Kernel all_kernels[] = {
    {"attention_latent_amx_bf16", needs_amx_bf16, Reproducible::per_query, latent::refuse,
     latent::geometry, amx_bf16::run_latent, amx_bf16::finish_latent, Unit::amx, DType::bf16},
    {"attention_grouped_amx_bf16", needs_amx_bf16, Reproducible::per_query, grouped::refuse,
     grouped::geometry, amx_bf16::run_grouped, amx_bf16::finish_grouped, Unit::amx, DType::bf16},
    {"attention_avx512_bf16", needs_avx512_bf16, Reproducible::per_query, avx512::refuse_bf16,
     avx512::geometry_bf16, avx512::run_bf16, avx512::finish_bf16, Unit::bf16_dot, DType::bf16,
     DType::bf16},
    {"attention_avx512_f32", needs_x86_64_v4, Reproducible::per_query, avx512::refuse_f32,
     avx512::geometry_f32, avx512::run_f32, avx512::finish_f32},
    {"attention_paged_any_x86_64_v4", needs_x86_64_v4, Reproducible::per_query, portable::refuse,
     portable::geometry, x86_64_v4::run_portable, x86_64_v4::finish_portable},
    {"attention_paged_any_x86_64_v3", needs_x86_64_v3, Reproducible::per_query, portable::refuse,
     portable::geometry, x86_64_v3::run_portable, x86_64_v3::finish_portable},
    {"attention_paged_any_x86_64",
     {},
     Reproducible::per_query,
     portable::refuse,
     portable::geometry,
     x86_64::run_portable,
     x86_64::finish_portable},
};

bool is_slow(const Kernel& kernel, const MachineProfile& profile) {
  return kernel.unit == Unit::bf16_dot && profile.bf16_dot_is_slow;
}

Result<const Kernel*> select_named(const AttentionProblem& problem, Capabilities machine,
                                   std::string_view name) {
  for (const Kernel& kernel : all_kernels) {
    if (kernel.name != name) continue;
    const char* reason = refusal(kernel, problem, machine);
    if (reason == nullptr) return &kernel;
    return fail(Errc::unsupported, "Attention::create: kernel {} refuses: {}", name, reason);
  }
  return fail(Errc::invalid_argument,
              "Attention::create: kernel is \"{}\", expected a name of the kernel list", name);
}

}  // namespace

std::span<const Kernel> kernels() noexcept { return all_kernels; }

const char* refusal(const Kernel& kernel, const AttentionProblem& problem,
                    Capabilities machine) noexcept {
  if (const char* reason = lacks(kernel.needs, machine); reason != nullptr) return reason;
  if (problem.reproducible > kernel.promises)
    return "reproducible: the kernel does not promise the level asked for";
  return kernel.refuse(problem);
}

Result<const Kernel*> select(const AttentionProblem& problem, Capabilities machine,
                             const MachineProfile& profile, std::string_view name) noexcept {
  if (!name.empty()) return select_named(problem, machine, name);
  const char* reason = "no kernel is built in";
  const Kernel* slow = nullptr;
  for (const Kernel& kernel : all_kernels) {
    const char* const refused = refusal(kernel, problem, machine);
    if (refused == nullptr && !is_slow(kernel, profile)) return &kernel;
    if (refused == nullptr && slow == nullptr) slow = &kernel;
    if (refused != nullptr) reason = refused;
  }
  if (slow != nullptr) return slow;
  return fail(Errc::unsupported, "Attention::create: {}", reason);
}

}  // namespace folio::inline v1
