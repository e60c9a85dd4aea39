// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/tma_gather4.cpp: gathers of rows that are not the cache's, and boxes that the
/// hardware has not.
// expect 1: unsatisfied tile_height_is_a_multiple_of_4
// expect 2: unsatisfied tile_width_is_at_most_tile_stride
// expect 3: unsatisfied tile_stride_is_the_row_of_the_cache
// expect 4: unsatisfied gather4_box_is_whole_16_bytes_and_at_most_256_elements
// expect 5: unsatisfied groups_of_4_rows_begin_at_multiples_of_128_bytes
// expect 6: unsatisfied tile_stride_is_the_row_of_the_cache
// expect 7: unsatisfied gather4_box_is_whole_16_bytes_and_at_most_256_elements
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
constexpr KVCacheStaticParams latent{1, 640, true}, narrow{1, 24, true};
using Cache = PagedKVCache<DType::f8_e4m3, latent, 64>;
using Narrow = PagedKVCache<DType::bf16, narrow, 64>;
constexpr tma::Swizzle b128 = tma::Swizzle::b128, none = tma::Swizzle::none;

#ifndef FOLIO_BAD
auto use() {
  static_cast<void>(Cache().create_gather4_tma_tile<640, 640, b128, 64>());
  static_cast<void>(
      Cache()
          .create_gather4_tma_tile<80, 80, none, 64, tma::DataType::i64, tma::L2Promotion::b256>());
  return Cache().create_rope_gather4_tma_tile<64, 512, b128, 64>();
}
#elif FOLIO_BAD == 1
auto use() { return Cache().create_gather4_tma_tile<640, 640, b128, 6>(); }
#elif FOLIO_BAD == 2
auto use() { return Cache().create_gather4_tma_tile<704, 640, b128>(); }
#elif FOLIO_BAD == 3
auto use() { return Cache().create_gather4_tma_tile<512, 512, b128>(); }
#elif FOLIO_BAD == 4
auto use() { return Cache().create_gather4_tma_tile<640>(); }
#elif FOLIO_BAD == 5
auto use() { return Narrow().create_gather4_tma_tile<24, 24, none, 8>(); }
#elif FOLIO_BAD == 6
auto use() { return Cache().create_rope_gather4_tma_tile<64, 528, b128>(); }
#elif FOLIO_BAD == 7
auto use() { return Cache().create_gather4_tma_tile<12, 640>(); }
#endif
