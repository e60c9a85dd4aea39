// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/kernels.h: what the prefill kernel serves, and which of its instances: K and V
/// of 16 bits in planes of their own, head sizes 64, 128 and 256, every mask and term.
///
/// Plain C++: host code of the kernel list.
#pragma once

#include "cuda/attention/instances.h"
#include "cuda/attention_kernel.h"
#include "folio/attention/problem.h"
#include "kernel/support.h"

namespace folio::cuda {

inline constexpr Support supports_prefill = supports_planes;

/// A query's bits depend on its own inputs alone where tasks are not divided, which per_sequence
/// asks for.
inline constexpr Reproducible prefill_promises = Reproducible::per_sequence;

/// Null if the kernel has an instance of these shapes and types, else why not. Takes problems that
/// `supports_prefill` holds.
[[nodiscard]] const char* refuse_prefill(const AttentionProblem& problem) noexcept;

extern const DeviceKernel prefill_kernel;

}  // namespace folio::cuda
