// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/instances.h: what decides among the instances of attention kernels whose K
/// and V have planes of their own: head size, type, and whether rare options are wanted.
///
/// Plain C++: host code of the kernel list.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/problem.h"
#include "kernel/support.h"

namespace folio::cuda {

/// Elements of 16 bits, every mask and term.
inline constexpr Support supports_planes = {
    .features = {Feature::value_plane, Feature::window, Feature::lookahead, Feature::chunks,
                 Feature::sink_tokens, Feature::intervals, Feature::tree, Feature::softcap,
                 Feature::sink_logits, Feature::alibi, Feature::bias},
    .q = {DType::bf16, DType::f16},
    .key = {DType::bf16, DType::f16},
    .value = {DType::bf16, DType::f16},
    .out = {DType::f32, DType::bf16, DType::f16},
    .plane_alignment = 16};

/// What plain instances lack: more than one interval of keys a row, and terms of logits.
[[nodiscard]] inline bool wants_general(const AttentionProblem& problem) {
  return problem.softcap != 0.0f || problem.alibi || problem.bias || problem.intervals ||
         problem.tree || problem.mask.sink_tokens != 0;
}

/// The instances of a head size.
struct Instances {
  int32_t head_size;
  const char* names[2][2];  // [f16][general]
};

/// Where a table has a head size; its length if it has not.
template <class Row, size_t Rows>
[[nodiscard]] constexpr size_t row_of(const Row (&table)[Rows], int32_t head_size) {
  size_t row = 0;
  while (row < Rows && table[row].head_size != head_size) ++row;
  return row;
}

/// A name of a table that has the problem's head size.
template <size_t Rows>
[[nodiscard]] const char* name_of(const Instances (&table)[Rows], const AttentionProblem& problem) {
  return table[row_of(table, problem.key.head_size)]
      .names[problem.key.dtype == DType::f16 ? 1 : 0][wants_general(problem) ? 1 : 0];
}

/// Null if tables of head sizes 64, 128 and 256 have an instance of these shapes and types, else
/// why not. Takes problems that `supports_planes` holds.
[[nodiscard]] inline const char* refuse_planes(const AttentionProblem& problem) {
  const int32_t head_size = problem.key.head_size;
  if (head_size != 64 && head_size != 128 && head_size != 256)
    return "key.head_size: expected 64, 128 or 256 (on a device)";
  if (problem.v_head_size != head_size)
    return "v_head_size: expected that of the keys (on a device)";
  if (problem.q_dtype != problem.key.dtype || problem.value.dtype != problem.key.dtype)
    return "q_dtype, key.dtype, value.dtype: expected the same type (on a device)";
  return nullptr;
}

}  // namespace folio::cuda
