// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/grouped.cpp: the baseline side of the AMX kernel for grouped heads: what it
/// accepts and how its work is cut.
#include "cpu/amx/grouped/grouped.h"

#include "cpu/amx/grouped/layout.h"
#include "cpu/skeleton/task_memory.h"

namespace folio::inline v1::grouped {

const char* refuse(const AttentionProblem& problem) noexcept {
  if (problem.key.head_size % 8 != 0 || problem.v_head_size % 8 != 0)
    return "key: expected a head_size and a v_head_size that are multiples of 8";
  if (!amx::visit_grouped_sizes(problem.key.head_size, problem.v_head_size, [](auto) {}))
    return "key: expected a head_size and a v_head_size of up to 512";
  return nullptr;
}

KernelGeometry geometry(const AttentionProblem& problem) noexcept {
  KernelGeometry g;
  amx::visit_grouped_sizes(problem.key.head_size, problem.v_head_size, [&](auto sizes) {
    g = skeleton::geometry<amx::GroupedMemory<decltype(sizes)>>(problem, amx::row_tile);
  });
  return g;
}

}  // namespace folio::inline v1::grouped
