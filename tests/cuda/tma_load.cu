// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/tma_load.cu: the kernels of tma_kernels.cuh for a paged and a latent cache, so that
/// their code can be looked at.
#include "cuda/tma_kernels.cuh"

namespace folio::test {

using Paged = PagedKVCache<DType::bf16, KVCacheStaticParams{8, 128}, 16>;
using Latent = PagedKVCache<DType::bf16, KVCacheStaticParams{1, 576, true}, 64>;

template __global__ void run_loads<2>(const __grid_constant__ tma::EncodedTensorMap,
                                      const ListedCopy*, int, int, int, std::byte*);
template __global__ void run_loads<3>(const __grid_constant__ tma::EncodedTensorMap,
                                      const ListedCopy*, int, int, int, std::byte*);
template __global__ void run_loads<4>(const __grid_constant__ tma::EncodedTensorMap,
                                      const ListedCopy*, int, int, int, std::byte*);
template __global__ void run_loads<5>(const __grid_constant__ tma::EncodedTensorMap,
                                      const ListedCopy*, int, int, int, std::byte*);
template __global__ void load_row_tile<Paged, 128>(const Paged,
                                                   const __grid_constant__ tma::EncodedTensorMap,
                                                   const TMATensorTile<3>, uint32_t, uint32_t, int,
                                                   std::byte*);
template __global__ void load_row_tile<Latent, 64>(const Latent,
                                                   const __grid_constant__ tma::EncodedTensorMap,
                                                   const TMATensorTile<3>, uint32_t, uint32_t, int,
                                                   std::byte*);
template __global__ void load_page_tile<Paged>(const Paged,
                                               const __grid_constant__ tma::EncodedTensorMap,
                                               const TMATensorTile<5>, uint32_t, uint32_t, int,
                                               std::byte*);
template __global__ void load_selected<Latent>(const Latent,
                                               const __grid_constant__ tma::EncodedTensorMap,
                                               const TMATensorTile<2>, const int64_t*, std::byte*);

}  // namespace folio::test
