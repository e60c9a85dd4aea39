// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/instances.h: the MLA decode kernels of kernels.txt.
#pragma once

#include "cuda/mla/latent.h"

namespace folio::cuda::mla {

/// Of blocks with 227 KiB of shared memory. Rare options take registers that 16 rows have left.
template <DType Type, bool General>
using Latent = LatentKernel<
    Config<Type, 576, 512, General ? 16 : 32, General ? 5 : 3, shared_bytes_90, General>>;

/// Of blocks with 99 KiB.
template <DType Type, bool General>
using SmallLatent = LatentKernel<Config<Type, 576, 512, 16, 2, shared_bytes_120, General>>;

}  // namespace folio::cuda::mla
