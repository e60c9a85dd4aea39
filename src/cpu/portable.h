// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable.h: the plain functions that each build of the portable kernel exports, and what they share.
#pragma once

#include <cstddef>

#include "cpu/kernel.h"

namespace folio {
inline namespace v1 {

namespace portable {
[[nodiscard]] const char* refuse(const AttentionProblem& problem) noexcept;
[[nodiscard]] KernelGeometry geometry(const AttentionProblem& problem) noexcept;
}  // namespace portable

namespace x86_64 {
void run_portable(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_portable(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;
}  // namespace x86_64

namespace x86_64_v3 {
void run_portable(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_portable(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;
}  // namespace x86_64_v3

namespace x86_64_v4 {
void run_portable(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept;
void finish_portable(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept;
}  // namespace x86_64_v4

}  // namespace v1
}  // namespace folio
