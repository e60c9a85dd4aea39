// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/grouped.cpp: the baseline side of the AMX kernel for grouped heads: what it
/// accepts, how its work is cut, and which piece does it.
#include "cpu/amx/grouped/grouped.h"

#include "cpu/amx/grouped/layout.h"
#include "cpu/skeleton/task_runner.h"

namespace folio::inline v1::grouped {
namespace {

bool is_activation(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

bool is_stored(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::i8 || dtype == DType::f8_e4m3 ||
         dtype == DType::f8_e5m2;
}

/// Elements of 16 bits are loaded from any even address: what the plane's natural alignment
/// promises.
bool has_fine_scales(const PagedKVView& view, int32_t head_size) {
  const ScaleView& scales = view.scales;
  return scales.dtype != DType::invalid && scales.granule_stride_bytes != 0 &&
         scales.granularity < head_size;
}

}  // namespace

const char* refuse(const AttentionProblem& problem) noexcept {
  if (problem.key_tail.dtype != DType::invalid)
    return "key_tail: further key columns with a dtype of their own have no kernel yet";
  if (problem.selection) return "selection: attention over selected keys has no kernel yet";
  if (problem.q_dtype != DType::bf16) return "q_dtype: expected bf16";
  if (!is_activation(problem.out_dtype)) return "out_dtype: expected f32, bf16 or f16";
  if (!is_stored(problem.key.dtype)) return "key: expected a dtype of bf16, i8, f8_e4m3 or f8_e5m2";
  const bool has_value = !problem.value_in_key;
  if (has_value && !is_stored(problem.value.dtype))
    return "value: expected a dtype of bf16, i8, f8_e4m3 or f8_e5m2";
  if (problem.key.head_size % 8 != 0 || problem.v_head_size % 8 != 0)
    return "key: expected a head_size and a v_head_size that are multiples of 8";
  if (!amx::visit_grouped_sizes(problem.key.head_size, problem.v_head_size, [](auto) {}))
    return "key: expected a head_size and a v_head_size of up to 256";
  if (has_fine_scales(problem.key, problem.key.head_size))
    return "key.scales: expected one scale per token and head, or one for more";
  if (has_value && has_fine_scales(problem.value, problem.v_head_size))
    return "value.scales: expected one scale per token and head, or one for more";
  return nullptr;
}

KernelGeometry geometry(const AttentionProblem& problem) noexcept {
  KernelGeometry g;
  g.rows = amx::grouped_rows;
  g.row_granule = amx::row_tile;
  g.span_keys = skeleton::span_keys;
  amx::visit_grouped_sizes(problem.key.head_size, problem.v_head_size, [&](auto sizes) {
    using Runner = skeleton::TaskRunner<amx::GroupedMemory<decltype(sizes)>>;
    g.scratch_bytes = Runner::scratch_bytes(problem);
    g.partial_bytes = Runner::partial_bytes(problem);
  });
  return g;
}

}  // namespace folio::inline v1::grouped

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
