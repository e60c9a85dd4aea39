// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/kernels.h: the entries of the AVX-512 kernels.
#pragma once

#include "cpu/kernel.h"

namespace folio {
inline namespace v1 {
namespace avx512 {

/// attention_avx512_f32: everything in float32. q and out f32, bf16 or f16; K and V any stored type, any scales.
const char* refuse_f32(const AttentionProblem& problem) noexcept;
KernelGeometry geometry_f32(const AttentionProblem& problem) noexcept;
void run_f32(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_f32(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;

/// attention_avx512_bf16: products of bf16. q bf16; K and V bf16 or 8-bit, any scales; out f32, bf16 or f16.
const char* refuse_bf16(const AttentionProblem& problem) noexcept;
KernelGeometry geometry_bf16(const AttentionProblem& problem) noexcept;
void run_bf16(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_bf16(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;

}  // namespace avx512
}  // namespace v1
}  // namespace folio
