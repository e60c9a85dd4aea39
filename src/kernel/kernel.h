// SPDX-License-Identifier: Apache-2.0
/// src/kernel/kernel.h: what a kernel is to the rest of folio, on any device: a name, what it needs
/// of the machine, what it supports and promises, and how it is started: a geometry and two plain
/// functions (task.h), or on a device what it launches.
#pragma once

#include <string_view>

#include "kernel/capability.h"
#include "kernel/support.h"
#include "kernel/task.h"

namespace folio::cuda {
struct DeviceKernel;
}

namespace folio::inline v1 {

/// What a kernel multiplies with. Machines differ in which is fast: profile.h.
enum class Arithmetic : uint8_t { vector = 0, bf16_dot = 1, amx = 2 };

struct Kernel {
  std::string_view name;    ///< a literal: null-terminated
  Capabilities needs = {};  ///< what the machine must offer
  Reproducible promises = Reproducible::per_plan;
  Support supports = {};  ///< of problems; what is not named is refused
  KernelRefuse* refuse = nullptr;
  KernelGeometryOf* geometry = nullptr;
  KernelRun* run = nullptr;
  KernelFinish* finish = nullptr;
  Arithmetic arithmetic = Arithmetic::vector;
  /// reads rows of 16 bits where they lie, where few rows of a head are computed: machines differ
  /// in up to how many that is faster than tiles (InPlaceProfile)
  bool reads_in_place = false;
  /// What softmax weights are rounded to before they meet the values; i8: to steps of a tile, and q
  /// to steps of its row (AttentionProblem::int8_operands).
  DType weights = DType::f32;
  int32_t weight_steps = 255;  ///< of a tile, where values are i8 and weights, too
  /// What elements of K and V are rounded to once they are scaled, where their scale varies along
  /// the row, as in blocks: one scale per token and head, or less, is applied to logits and weights
  /// in float32 and costs nothing. And what `supports.rounded` is rounded to.
  DType operands = DType::f32;
  /// of a CUDA device (cuda/attention_kernel.h); geometry, run and finish are null then
  const cuda::DeviceKernel* device = nullptr;
};

/// How the kernel wants this problem split. Where bits are to be free of a row's neighbours in a
/// task, only kernels whose every row is by itself may share tasks.
inline KernelGeometry geometry_of(const Kernel& kernel, const AttentionProblem& problem) noexcept {
  KernelGeometry geometry = kernel.geometry(problem);
  if (problem.reproducible != Reproducible::per_plan && kernel.promises != Reproducible::per_query)
    geometry.shared_cut = 0;
  return geometry;
}

}  // namespace folio::inline v1
