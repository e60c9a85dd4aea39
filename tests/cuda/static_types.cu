// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/static_types.cu: every static type as a kernel argument, every member in device code.
/// Compiled, not run.
#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand.h"
#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/paged_kv_cache.h"
#include "folio/cache/paged_kv_cache_collection.h"
#include "folio/cache/static_view.h"
#include "folio/core/element.h"

namespace {

using namespace folio;

constexpr KVCacheStaticParams llama{8, 128};
constexpr KVCacheStaticParams latent{1, 576, true};
using Paged = PagedKVCacheCollection<DType::bf16, llama, 16>;
// Spelled out: nvcc 13 writes host code that does not compile for cache_of<PagedCache>.
using PagedCache = PagedKVCache<DType::bf16, llama, 16>;
using Quantised = PagedKVCacheCollection<DType::f8_e4m3, llama, 64, DType::f16, 48>;
using Latent = PagedKVCacheCollection<DType::i8, latent, 128, DType::f32, 576>;
using Continuous = ContinuousKVCacheCollection<DType::f16, llama>;

template <class Cache>
__device__ float read_cache(const Cache& cache, int b, int head, int token) {
  constexpr int tile = Cache::page_size_ > 0 ? Cache::page_size_ : 64;
  const auto aligned = static_cast<uint32_t>(token / (2 * tile) * (2 * tile));
  float sum = cache.template load<8, DType::f32>(b, head, token, 8)[3];
  sum += to_float(cache.template load<2, DType::bf16>(b, head, token, 0)[1]);
  if constexpr (Cache::quantization_enabled) {
    sum += to_float(cache.template load_scale<1>(b, head, token, 0)[0]) +
           to_float(cache.template load_quantized<4>(b, head, token, 4)[1]);
    cache.store_scale(b, head, token, 0, Vec<typename Cache::scale_type, 1>{});
  }
  cache.store(b, head, token, 0, Vec<typename Cache::element_type, 4>{});
  const auto rows = cache.template populate<2 * tile, 2 * tile>(b, aligned);
  const auto peer = cache.template populate<2 * tile, tile * 2, true, false>(b, aligned);
  const auto* at = cache.template block_paged_ptr<tile>(b, aligned, head);
  sum += static_cast<float>(rows.get_row(5) + rows.k_row(0) + peer.k_row(0)) +
         static_cast<float>(peer.valid_k_pages());
  sum += at != nullptr ? to_float(*at) : 0.0f;
  sum += static_cast<float>(cache.row_idx(b, token) + cache.num_kv_rows() +
                            cache.get_tma_row(token) + cache.max_tile_size());
  sum += static_cast<float>(cache.cache_length(b) + cache.cache_lengths_nd()(b) +
                            cache.max_prompt_length() + cache.max_context_length());
  const bool has_scales =
      cache.scales_raw_ptr() != nullptr && cache.scales_block_paged_ptr(b, token, head) != nullptr;
  return cache.copy().empty_cache() || has_scales ? sum : -sum;
}

/// Descriptions of tiles are numbers on a device too.
template <class Cache>
__device__ float read_tiles(const Cache& cache, int row, int column) {
  constexpr int tile = Cache::page_size_ > 0 ? Cache::page_size_ : 64;
  const auto rows = cache.template create_tma_tile<tma::Swizzle::b128, tile>();
  const auto ragged = cache.template create_ragged_tma_tile<tma::Swizzle::b128, tile>();
  const auto gather =
      cache
          .template create_gather4_tma_tile<Cache::row_size, Cache::row_size, tma::Swizzle::b128>();
  const auto at = ragged.coordinates({row, column, -row}, 0, 1);
  const auto faults = static_cast<int>(rows.fault().rule) + static_cast<int>(gather.fault().rule) +
                      static_cast<int>(at[2]);
  return static_cast<float>(rows.layout.offset(row, column) + gather.map.transaction_bytes() +
                            faults);
}

template <class Operand>
__device__ float read_operand(const Operand& operand, int b, int head, int token) {
  const OperandRun run = operand.run(b, token, head);
  float sum = run.data != nullptr ? static_cast<float>(run.rows * run.slot_stride_bytes) : 0.0f;
  if constexpr (Operand::page_size != dynamic) {
    constexpr int tile = Operand::page_size > 0 ? Operand::page_size : 64;
    const auto rows =
        operand.template populate<tile, tile>(b, static_cast<uint32_t>(token / tile * tile));
    sum += static_cast<float>(rows.rows[0]) +
           (operand.template block_paged_ptr<1>(b, token, head) != nullptr ? 1.0f : 0.0f);
  }
  if constexpr (Operand::quantization_enabled) {
    const auto scale = operand.template load_scale<1>(b, token, head, 0);
    sum += static_cast<float>(sizeof scale);
  }
  sum += static_cast<float>(operand.cache_length(b) + operand.max_context_length() +
                            operand.num_kv_rows());
  sum += static_cast<float>(operand.row_idx(b, token) + operand.get_tma_row(token));
  return operand.scales_raw_ptr() != nullptr ||
                 operand.scales_block_paged_ptr(b, token, head) != nullptr
             ? sum
             : -sum;
}

template <class Cache>
__global__ void use_cache(Cache cache, float* out) {
  out[threadIdx.x] = read_cache(cache, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y),
                                static_cast<int>(threadIdx.x)) +
                     read_tiles(cache, static_cast<int>(threadIdx.x), static_cast<int>(blockIdx.y));
}

template <class Operand>
__global__ void use_operand(Operand operand, float* out) {
  out[threadIdx.x] = read_operand(operand, static_cast<int>(blockIdx.x),
                                  static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x));
}

template <class Collection>
__global__ void use_collection(Collection collection, float* out) {
  const auto cache = collection.get_key_cache(blockIdx.z);
  float sum =
      to_float(cache.template load<1, DType::f32>(blockIdx.x, blockIdx.y, threadIdx.x, 0)[0]);
  if constexpr (!Collection::kv_params.is_mla)
    sum += static_cast<float>(collection.get_value_cache(blockIdx.z).num_kv_rows());
  const PagedKVView view = view_of(cache);
  const PageTable table = table_of(cache);
  out[threadIdx.x] = sum + static_cast<float>(view.page_stride_bytes + table.row_start(blockIdx.x) +
                                              collection.cache_length(blockIdx.x));
}

/// The plain instance: one thread, one tile.
struct Keys {
  static constexpr IndexList<3> mma_shape{16, 16, 16};
  static constexpr int BN = 32, BK = 32, depth = 64;
  static constexpr bool transpose = true;
  static constexpr tma::XorSwizzle swizzle{3, 0, 4};
};
template <class Operand>
__global__ void use_buffer(Operand operand, typename KVBuffer<Operand, Keys>::smem_type* smem,
                           float* out) {
  KVBuffer<Operand, Keys> buffer(operand, blockIdx.x, blockIdx.y, {smem, {}}, 40);
  buffer.template load_from_dram<0>();
  buffer.load_from_shared(0);
  buffer.zero_partial_tile_pad();
  typename KVBuffer<Operand, Keys>::smem_type a[16 * 16] = {};
  buffer.kv_mma_op.template mma<1, 1>(a, 1, out);
}

template <class Collection>
void launch_collection(const Collection& collection, float* out) {
  using Cache = typename Collection::CacheType;
  const Cache cache = collection.get_key_cache(0);
  use_collection<<<1, 32>>>(collection, out);
  use_cache<<<1, 32>>>(cache, out);
  use_operand<<<1, 32>>>(KVCacheMHAOperand<Cache>{cache}, out);
  if constexpr (Cache::quantization_enabled)
    use_operand<<<1, 32>>>(KVCacheScalesMHAOperand<Cache>{cache}, out);
}

}  // namespace

/// Launches every kernel once.
int launch_static_types(MemorySpan blocks, MemorySpan scales, const CacheTables& tables,
                        const PagedKVView& view, float* out) {
  const auto paged = Paged::make(blocks, 4, 2, tables);
  const auto quantised = Quantised::make(blocks, 4, 2, tables, scales);
  const auto narrow = Latent::make(blocks, 4, 2, tables, scales);
  const auto continuous = Continuous::make(blocks, 4, 2, 64, tables);
  const auto back = cache_of<PagedCache>(view, tables);
  if (!paged || !quantised || !narrow || !continuous || !back) return 1;
  launch_collection(*paged, out);
  launch_collection(*quantised, out);
  launch_collection(*narrow, out);
  launch_collection(*continuous, out);
  use_cache<<<1, 32>>>(*back, out);
  use_operand<<<1, 32>>>(TensorMHAOperand<DType::bf16>{}, out);
  use_operand<<<1, 32>>>(TensorMHAOperand<DType::i8, DType::f32, 32>{}, out);
  use_operand<<<1, 32>>>(RaggedMHAOperand<DType::bf16>{}, out);
  use_operand<<<1, 32>>>(ViewMHAOperand<DType::bf16>{}, out);
  use_buffer<<<1, 1>>>(ViewMHAOperand<DType::bf16>{}, nullptr, out);
  use_buffer<<<1, 1>>>(KVCacheMHAOperand<PagedCache>{*back}, nullptr, out);
  use_operand<<<1, 32>>>(ViewMHAOperand<DType::f8_e4m3, DType::f8_e8m0>{}, out);
  return 0;
}
