// SPDX-License-Identifier: Apache-2.0
/// src/attention/kernel_list.cpp: the kernels of this build, best first, and the selector.
#include "attention/kernel_list.h"

#include <iterator>

#include "cpu/amx/grouped/grouped.h"
#include "cpu/amx/latent/latent.h"
#include "cpu/avx512/kernels.h"
#include "cpu/features.h"
#include "cpu/neon/kernels.h"
#include "cpu/packed/kernels.h"
#include "cpu/portable/portable.h"
#include "cuda/attention_kernel.h"
#include "cuda/decode/kernels.h"
#include "cuda/decode/quantised_kernels.h"
#include "cuda/mla/kernels.h"
#include "cuda/prefill/kernels.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {
namespace {

/// A kernel of a CUDA device, for values of one type: weights are rounded to it.
constexpr Kernel device_kernel(std::string_view name, Capabilities needs, Reproducible promises,
                               Support supports, DType type, KernelRefuse* refuse,
                               const cuda::DeviceKernel& device) {
  supports.q = supports.key = type;
  if (supports.features.has(Feature::value_plane)) supports.value = type;
  return {.name = name,
          .needs = needs,
          .promises = promises,
          .supports = supports,
          .refuse = refuse,
          .weights = type,
          .device = &device};
}

constexpr Kernel latent_kernel(std::string_view name, Capabilities needs, DType type,
                               const cuda::DeviceKernel& device) {
  return device_kernel(name, needs, cuda::mla_promises, cuda::supports_mla, type, cuda::refuse_mla,
                       device);
}
constexpr Kernel prefill_kernel(std::string_view name, DType type) {
  return device_kernel(name, needs_cuda, cuda::prefill_promises, cuda::supports_prefill, type,
                       cuda::refuse_prefill, cuda::prefill_kernel);
}

constexpr Kernel decode_kernel(std::string_view name, DType type) {
  return device_kernel(name, needs_cuda, cuda::decode_promises, cuda::supports_decode, type,
                       cuda::refuse_decode, cuda::decode_kernel);
}

constexpr Kernel decode_tiles_kernel(std::string_view name, DType type) {
  return device_kernel(name, needs_tensor_maps, cuda::decode_promises, cuda::supports_decode_tiles,
                       type, cuda::refuse_decode_tiles, cuda::decode_tiles_kernel);
}

/// K and V of one 8-bit type, q of any that the kernel takes.
constexpr Kernel quantised_kernel(std::string_view name, DType stored) {
  Support supports = cuda::supports_quantised_decode;
  supports.key = supports.value = stored;
  return {.name = name,
          .needs = needs_cuda,
          .promises = cuda::quantised_decode_promises,
          .supports = supports,
          .refuse = cuda::refuse_quantised_decode,
          .weights = cuda::quantised_decode_rounding,
          .operands = cuda::quantised_decode_rounding,
          .device = &cuda::quantised_decode_kernel};
}

constexpr Kernel all_kernels[] = {
    decode_kernel("attention_cuda_decode_bf16", DType::bf16),
    decode_kernel("attention_cuda_decode_f16", DType::f16),
    quantised_kernel("attention_cuda_decode_e4m3", DType::f8_e4m3),
    quantised_kernel("attention_cuda_decode_e5m2", DType::f8_e5m2),
    quantised_kernel("attention_cuda_decode_i8", DType::i8),
    // behind the copies by cp.async, which serve more, until a GPU has said which is faster
    decode_tiles_kernel("attention_cuda_decode_tiles_bf16", DType::bf16),
    decode_tiles_kernel("attention_cuda_decode_tiles_f16", DType::f16),
    latent_kernel("attention_cuda_latent_bf16", needs_large_blocks, DType::bf16, cuda::mla_kernel),
    latent_kernel("attention_cuda_latent_f16", needs_large_blocks, DType::f16, cuda::mla_kernel),
    latent_kernel("attention_cuda_latent_small_bf16", needs_cuda, DType::bf16,
                  cuda::mla_small_kernel),
    latent_kernel("attention_cuda_latent_small_f16", needs_cuda, DType::f16,
                  cuda::mla_small_kernel),
    prefill_kernel("attention_cuda_prefill_bf16", DType::bf16),
    prefill_kernel("attention_cuda_prefill_f16", DType::f16),
#ifdef FOLIO_LEVELS_OF_X86_64
#ifndef FOLIO_WITHOUT_AMX_BF16
    {.name = "attention_latent_amx_bf16",
     .needs = needs_amx_bf16,
     .promises = Reproducible::per_query,
     .supports = latent::supports,
     .refuse = latent::refuse,
     .geometry = latent::geometry,
     .run = amx_bf16::run_latent,
     .finish = amx_bf16::finish_latent,
     .arithmetic = Arithmetic::amx,
     .weights = DType::bf16,
     .operands = DType::bf16},
    {.name = "attention_grouped_amx_bf16",
     .needs = needs_amx_bf16,
     .promises = Reproducible::per_query,
     .supports = grouped::supports,
     .refuse = grouped::refuse,
     .geometry = grouped::geometry,
     .run = amx_bf16::run_grouped,
     .finish = amx_bf16::finish_grouped,
     .arithmetic = Arithmetic::amx,
     .weights = DType::bf16,
     .operands = DType::bf16},
#endif
#ifndef FOLIO_WITHOUT_AVX512_BF16
    // taken where the problem asks for it alone; behind tiles, which are faster at many rows
    {.name = "attention_avx512_int8",
     .needs = needs_avx512_bf16,
     .promises = Reproducible::per_sequence,
     .supports = avx512::supports_int8,
     .refuse = avx512::refuse_int8,
     .geometry = avx512::geometry_int8,
     .run = avx512::run_int8,
     .finish = avx512::finish_int8,
     .weights = DType::i8},
    {.name = "attention_packed_avx512",
     .needs = needs_avx512_bf16,
     .promises = Reproducible::per_sequence,
     .supports = packed::supports,
     .refuse = packed::refuse,
     .geometry = avx512::geometry_packed,
     .run = avx512::run_packed,
     .finish = avx512::finish_packed,
     .weights = DType::i8},
    {.name = "attention_avx512_bf16",
     .needs = needs_avx512_bf16,
     .promises = Reproducible::per_query,
     .supports = avx512::supports_bf16,
     .refuse = avx512::refuse,
     .geometry = avx512::geometry_bf16,
     .run = avx512::run_bf16,
     .finish = avx512::finish_bf16,
     .arithmetic = Arithmetic::bf16_dot,
     .reads_in_place = true,
     .weights = DType::bf16,
     .operands = DType::bf16},
#endif
    {.name = "attention_avx512_f32",
     .needs = needs_x86_64_v4,
     .promises = Reproducible::per_query,
     .supports = avx512::supports_f32,
     .refuse = avx512::refuse,
     .geometry = avx512::geometry_f32,
     .run = avx512::run_f32,
     .finish = avx512::finish_f32,
     .reads_in_place = true},
    {.name = "attention_paged_any_x86_64_v4",
     .needs = needs_x86_64_v4,
     .promises = Reproducible::per_query,
     .supports = portable::supports,
     .refuse = portable::refuse,
     .geometry = portable::geometry,
     .run = x86_64_v4::run_portable,
     .finish = x86_64_v4::finish_portable},
    {.name = "attention_packed_x86_64_v3",
     .needs = needs_x86_64_v3,
     .promises = Reproducible::per_sequence,
     .supports = packed::supports,
     .refuse = packed::refuse,
     .geometry = x86_64_v3::geometry_packed,
     .run = x86_64_v3::run_packed,
     .finish = x86_64_v3::finish_packed,
     .weights = DType::i8,
     .weight_steps = 127},
    {.name = "attention_paged_any_x86_64_v3",
     .needs = needs_x86_64_v3,
     .promises = Reproducible::per_query,
     .supports = portable::supports,
     .refuse = portable::refuse,
     .geometry = portable::geometry,
     .run = x86_64_v3::run_portable,
     .finish = x86_64_v3::finish_portable},
#endif
#ifdef FOLIO_LEVELS_OF_AARCH64
    {.name = "attention_neon_bf16",
     .needs = needs_arm_bf16,
     .promises = Reproducible::per_query,
     .supports = neon::supports_bf16,
     .refuse = portable::refuse,
     .geometry = neon::geometry_bf16,
     .run = arm_bf16::run_portable,
     .finish = arm_bf16::finish_portable,
     .arithmetic = Arithmetic::bf16_dot,
     .weights = DType::bf16,
     .operands = DType::bf16},
#endif
    {.name = "attention_paged_any_" FOLIO_BASELINE,
     .needs = needs_cpu,
     .promises = Reproducible::per_query,
     .supports = portable::supports,
     .refuse = portable::refuse,
     .geometry = portable::geometry,
     .run = baseline::run_portable,
     .finish = baseline::finish_portable},
};

bool is_for_many_rows(const Kernel& kernel) {
  return kernel.device != nullptr && kernel.device->rows == cuda::Rows::many;
}

bool is_slow(const Kernel& kernel, const MachineProfile& profile) {
  return kernel.arithmetic == Arithmetic::bf16_dot && profile.bf16_dot_is_slow;
}

Result<const Kernel*> select_named(const AttentionProblem& problem, Capabilities machine,
                                   std::string_view name) {
  for (const Kernel& kernel : all_kernels) {
    if (kernel.name != name) continue;
    const char* reason = refusal(kernel, problem, machine);
    if (reason == nullptr) return &kernel;
    return fail(Errc::unsupported, "Attention::create: kernel {} refuses: {}{}", name, reason,
                explain(kernel.name, kernel.supports, problem).text);
  }
  return fail(Errc::invalid_argument,
              "Attention::create: kernel is \"{}\", expected a name of the kernel list", name);
}

}  // namespace

std::span<const Kernel> kernels() noexcept { return all_kernels; }

bool is_of_kind(const Kernel& kernel, Capabilities machine) noexcept {
  return kernel.needs.has(Capability::cpu) == machine.has(Capability::cpu);
}

const char* refusal(const Kernel& kernel, const AttentionProblem& problem,
                    Capabilities machine) noexcept {
  if (const char* reason = lacks(kernel.needs, machine); reason != nullptr) return reason;
  if (problem.reproducible > kernel.promises)
    return "reproducible: the kernel does not promise the level asked for";
  if (const char* reason = unsupported(kernel.supports, problem); reason != nullptr) return reason;
  return kernel.refuse(problem);
}

Result<const Kernel*> select(const AttentionProblem& problem, Capabilities machine,
                             const MachineProfile& profile, std::string_view name) noexcept {
  if (!name.empty()) return select_named(problem, machine, name);
  const char* reason = "no kernel is built in";
  const Kernel *slow = nullptr, *last = nullptr;
  for (const Kernel& kernel : all_kernels) {
    if (!is_of_kind(kernel, machine) || is_for_many_rows(kernel)) continue;
    const char* const refused = refusal(kernel, problem, machine);
    if (refused == nullptr && !is_slow(kernel, profile)) return &kernel;
    if (refused == nullptr && slow == nullptr) slow = &kernel;
    if (refused == nullptr) continue;
    reason = refused;
    last = &kernel;
  }
  if (slow != nullptr) return slow;
  // The last supports the most.
  return fail(Errc::unsupported, "Attention::create: {}{}", reason,
              last == nullptr ? "" : explain(last->name, last->supports, problem).text);
}

const Kernel* select_many_rows(const AttentionProblem& problem, Capabilities machine) noexcept {
  if (problem.reproducible == Reproducible::per_query) return nullptr;
  for (const Kernel& kernel : all_kernels) {
    if (is_for_many_rows(kernel) && refusal(kernel, problem, machine) == nullptr) return &kernel;
  }
  return nullptr;
}

FewRows select_few_rows(const AttentionProblem& problem, Capabilities machine,
                        const MachineProfile& profile, const Kernel& kernel) noexcept {
  const PagedKVView& key = problem.key;
  const bool is_bf16 =
      key.dtype == DType::bf16 && (problem.value_in_key || problem.value.dtype == DType::bf16);
  if (problem.reproducible != Reproducible::per_plan || kernel.arithmetic != Arithmetic::amx ||
      !is_bf16)
    return {};
  const int32_t most = PageCursor::heads_are_adjacent(key) ? profile.in_place.rows_token_major
                                                           : profile.in_place.rows_head_major;
  if (most == 0) return {};
  for (const Kernel& other : all_kernels)
    if (other.reads_in_place && !is_slow(other, profile) &&
        refusal(other, problem, machine) == nullptr)
      return {&other, most};
  return {};
}

int32_t Attention::kernel_count() noexcept { return static_cast<int32_t>(std::size(all_kernels)); }

Attention::KernelName Attention::kernel_name(int32_t index) noexcept {
  if (index < 0 || index >= kernel_count()) return {};
  const Kernel& kernel = all_kernels[index];
  return {kernel.name, machine_has(kernel.needs)};
}

}  // namespace folio::inline v1
