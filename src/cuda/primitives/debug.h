// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/debug.h: whether kernels are built to be debugged: waits end after a while,
/// and failures say why (-DFOLIO_CUDA_DEBUG).
#pragma once

namespace folio::cuda {

#ifdef FOLIO_CUDA_DEBUG
inline constexpr bool is_debug = true;
#else
inline constexpr bool is_debug = false;
#endif

}  // namespace folio::cuda
