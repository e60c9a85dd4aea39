// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/grouped_amx_bf16.cpp: which piece of the kernel for grouped heads on AMX
/// tiles in hardware does a problem.
#include "cpu/amx/grouped/grouped.h"

#include "cpu/amx/grouped/layout.h"

namespace folio::inline v1::amx_bf16 {
namespace {

amx::Piece piece_for(const AttentionProblem& problem) {
  amx::Piece piece = amx::Piece::narrow;
  amx::visit_grouped_sizes(problem.key.head_size, problem.v_head_size,
                           [&](auto sizes) { piece = amx::piece_of<decltype(sizes)>; });
  return piece;
}

}  // namespace

void run_grouped(const KernelCall& call, const Task& task, void* scratch,
                 std::byte* partials) noexcept {
  const bool is_wide = piece_for(*call.problem) == amx::Piece::wide;
  (is_wide ? run_grouped_wide : run_grouped_narrow)(call, task, scratch, partials);
}

void finish_grouped(const KernelCall& call, const Task& task, void* scratch,
                    const std::byte* partials) noexcept {
  const bool is_wide = piece_for(*call.problem) == amx::Piece::wide;
  (is_wide ? finish_grouped_wide : finish_grouped_narrow)(call, task, scratch, partials);
}

}  // namespace folio::inline v1::amx_bf16
