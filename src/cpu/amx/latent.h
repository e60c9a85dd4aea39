// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent.h: the plain functions of the AMX kernel for latent (MLA) heads.
#pragma once

#include <cstddef>

#include "cpu/kernel.h"

namespace folio {
inline namespace v1 {

namespace latent {
/// Accepts value_in_key with bf16 queries and rows, up to 96 dims of which 64 are V, or 288 to 576 of which up to 512 are V.
[[nodiscard]] const char* refuse(const AttentionProblem& problem) noexcept;
[[nodiscard]] KernelGeometry geometry(const AttentionProblem& problem) noexcept;
}  // namespace latent

namespace amx_bf16 {
void run_latent(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_latent(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;
}  // namespace amx_bf16

}  // namespace v1
}  // namespace folio
