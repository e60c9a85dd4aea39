// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/populate.cu: populate of eight pages, alone, so that its loads can be counted.
#include "folio/cache/paged_kv_cache.h"

using Cache = folio::PagedKVCache<folio::DType::bf16, folio::KVCacheStaticParams{8, 128}, 16>;

__global__ void resolve(Cache cache, uint32_t* rows) {
  const auto found = cache.populate<128, 128>(blockIdx.x, blockIdx.y * 128);
  for (int i = 0; i < found.num_pages; ++i) rows[i] = found.rows[i];
  rows[found.num_pages] = static_cast<uint32_t>(found.valid_pages);
}
