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
#ifndef FOLIO_PORTABLE_KERNELS_ONLY
    {"attention_latent_amx_bf16", Isa::amx_bf16, Reproducible::per_query, latent::refuse,
     latent::geometry, amx_bf16::run_latent, amx_bf16::finish_latent, Unit::amx, DType::bf16},
    {"attention_grouped_amx_bf16", Isa::amx_bf16, Reproducible::per_query, grouped::refuse,
     grouped::geometry, amx_bf16::run_grouped, amx_bf16::finish_grouped, Unit::amx, DType::bf16},
    {"attention_avx512_bf16", Isa::avx512_bf16, Reproducible::per_query, avx512::refuse_bf16,
     avx512::geometry_bf16, avx512::run_bf16, avx512::finish_bf16, Unit::bf16_dot, DType::bf16,
     DType::bf16},
    {"attention_avx512_f32", Isa::x86_64_v4, Reproducible::per_query, avx512::refuse_f32,
     avx512::geometry_f32, avx512::run_f32, avx512::finish_f32},
    {"attention_paged_any_x86_64_v4", Isa::x86_64_v4, Reproducible::per_query, portable::refuse,
     portable::geometry, x86_64_v4::run_portable, x86_64_v4::finish_portable},
    {"attention_paged_any_x86_64_v3", Isa::x86_64_v3, Reproducible::per_query, portable::refuse,
     portable::geometry, x86_64_v3::run_portable, x86_64_v3::finish_portable},
#endif
    {"attention_paged_any_" FOLIO_BASELINE, Isa::x86_64, Reproducible::per_query, portable::refuse,
     portable::geometry, baseline::run_portable, baseline::finish_portable},
};

const char* missing(Isa isa) {
  switch (isa) {
    case Isa::amx_bf16: return "this machine lacks AMX-BF16, or the system refuses it";
    case Isa::avx512_bf16: return "this machine lacks the AVX512-BF16 instructions";
    case Isa::x86_64_v4: return "this machine lacks the x86-64-v4 instructions";
    default: return "this machine lacks the x86-64-v3 instructions";
  }
}

bool is_slow(const Kernel& kernel, const MachineProfile& profile) {
  return kernel.unit == Unit::bf16_dot && profile.bf16_dot_is_slow;
}

Result<const Kernel*> select_named(const AttentionProblem& problem, Isa isa,
                                   std::string_view name) {
  for (const Kernel& kernel : all_kernels) {
    if (kernel.name != name) continue;
    const char* reason = refusal(kernel, problem, isa);
    if (reason == nullptr) return &kernel;
    return fail(Errc::unsupported, "Attention::create: kernel {} refuses: {}", name, reason);
  }
  return fail(Errc::invalid_argument,
              "Attention::create: kernel is \"{}\", expected a name of the kernel list", name);
}

}  // namespace

std::span<const Kernel> kernels() noexcept { return all_kernels; }

const char* refusal(const Kernel& kernel, const AttentionProblem& problem, Isa isa) noexcept {
  if (kernel.isa > isa) return missing(kernel.isa);
  if (problem.reproducible > kernel.promises)
    return "reproducible: the kernel does not promise the level asked for";
  return kernel.refuse(problem);
}

Result<const Kernel*> select(const AttentionProblem& problem, Isa isa,
                             const MachineProfile& profile, std::string_view name) noexcept {
  if (!name.empty()) return select_named(problem, isa, name);
  const char* reason = "no kernel is built in";
  const Kernel* slow = nullptr;
  for (const Kernel& kernel : all_kernels) {
    const char* const refused = refusal(kernel, problem, isa);
    if (refused == nullptr && !is_slow(kernel, profile)) return &kernel;
    if (refused == nullptr && slow == nullptr) slow = &kernel;
    if (refused != nullptr) reason = refused;
  }
  if (slow != nullptr) return slow;
  return fail(Errc::unsupported, "Attention::create: {}", reason);
}

}  // namespace folio::inline v1
