// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention_kernel.h: what an entry of the kernel list is on a CUDA device: which
/// instance serves a problem, and how its work is cut.
///
/// Plain data and functions of the problem alone; no CUDA header.
#pragma once

#include <cstdint>

#include "cuda/plan/device_plan.h"
#include "folio/attention/problem.h"

namespace folio::cuda {

/// Whose rows a kernel is made for.
enum class Rows : uint8_t {
  any,   ///< every sequence, best at few rows
  many,  ///< sequences of many rows, beside a kernel for any
};

/// All functions take a resolved problem that the kernel does not refuse.
struct DeviceKernel {
  Rows rows = Rows::any;
  /// The instance, by its name in src/cuda/kernels.txt; a literal.
  const char* (*instance)(const AttentionProblem&) noexcept = nullptr;
  /// `rows` and `span_keys`; the border fills in rows_at_most.
  DeviceGeometry (*geometry)(const AttentionProblem&) noexcept = nullptr;
  /// of the instance: the grid has so many blocks for each multiprocessor
  int32_t (*blocks_per_processor)(const AttentionProblem&) noexcept = nullptr;
  /// The instance's argument is an AttendTileCall, with tensor maps of K and V; else AttendCall.
  bool takes_tensor_maps = false;
};

}  // namespace folio::cuda
