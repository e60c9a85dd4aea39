// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/kernels.h: what the MLA decode kernels serve, and which of their instances: latent
/// rows of 576 of which 512 are V, in 16 bits, every mask and term.
///
/// Any number of query rows is served, 16 or 32 to a task; what more than that costs is that latent
/// rows are read again for each task. Plain C++: host code of the kernel list.
#pragma once

#include "cuda/attention_kernel.h"
#include "folio/attention/problem.h"
#include "kernel/support.h"

namespace folio::cuda {

inline constexpr Support supports_mla = {
    .features = {Feature::value_in_key, Feature::window, Feature::lookahead, Feature::chunks,
                 Feature::sink_tokens, Feature::intervals, Feature::tree, Feature::softcap,
                 Feature::sink_logits, Feature::alibi, Feature::bias},
    .q = {DType::bf16, DType::f16},
    .key = {DType::bf16, DType::f16},
    .value = {},
    .out = activation_types,
    .plane_alignment = 16};

/// A row's bits depend on its query and keys alone: spans lie at absolute multiples, tiles and rows
/// are independent of one another.
inline constexpr Reproducible mla_promises = Reproducible::per_query;

/// Null if there is an instance of these shapes and types, else why not. Takes problems that
/// `supports_mla` holds.
[[nodiscard]] const char* refuse_mla(const AttentionProblem& problem) noexcept;

extern const DeviceKernel mla_kernel;        ///< of devices whose blocks have 227 KiB
extern const DeviceKernel mla_small_kernel;  ///< of the others: 99 KiB, 16 rows to a task

}  // namespace folio::cuda
