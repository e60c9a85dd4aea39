// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/tma_tile.cpp: tiles that no kernel could use.
// expect 1: unsatisfied head_is_a_multiple_of_16_bytes
// expect 2: unsatisfied tile_columns_are_whole_swizzle_chunks
// expect 3: unsatisfied tile_and_page_divide_one_another
// expect 4: unsatisfied box_has_at_most_256_rows
// expect 5: unsatisfied copies_begin_at_multiples_of_128_bytes
// expect 6: unsatisfied fold_is_one_or_every_chunk_of_the_tile
// expect 7: unsatisfied folded_head_is_whole_swizzle_chunks
// expect 8: unsatisfied row_major_tile_is_whole_atoms_of_8_rows
// expect 9: unsatisfied tile_and_heads_are_whole_groups
// expect 10: unsatisfied head_is_padded_depth_bytes_and_the_rope
// expect 11: unsatisfied padded_depth_is_a_multiple_of_16_bytes
// expect 12: unsatisfied cache_keeps_a_latent_row
// expect 13: unsatisfied depth_lies_within_the_head
// expect 14: unsatisfied folded_head_is_whole_swizzle_chunks
// expect 15: unsatisfied tile_and_page_divide_one_another
#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/paged_kv_cache.h"

using namespace folio;
template <int NumHeads, int HeadSize, bool IsMla = false>
inline constexpr KVCacheStaticParams sizes{NumHeads, HeadSize, IsMla};
template <int PageSize, int HeadSize = 128>
using Cache = PagedKVCache<DType::bf16, sizes<2, HeadSize>, PageSize>;
using Latent = PagedKVCache<DType::bf16, sizes<1, 576, true>, 64>;
using Fp8 = PagedKVCache<DType::f8_e4m3, sizes<1, 640, true>, 64>;
constexpr tma::Swizzle b128 = tma::Swizzle::b128, b32 = tma::Swizzle::b32;

#ifndef FOLIO_BAD
auto use() {
  static_cast<void>(Cache<16>().create_tma_tile<b128, 64>());
  static_cast<void>(Cache<16>().create_tma_tile<b128, 64, 128, 2>());
  static_cast<void>(Cache<16>().create_tma_tile<b128, 64, 128, 2, true>());
  static_cast<void>(Cache<16>().create_ragged_tma_tile<b128, 64, 128, 2>());
  static_cast<void>(Cache<16>().create_page_tma_tile<b128, 64>());
  static_cast<void>(Fp8().create_rope_tma_tile<b128, 64, 64, 512>());
  return Latent().create_latent_tma_tile<b128, 64, 512>();
}
#elif FOLIO_BAD == 1
auto use() { return Cache<16, 20>().create_tma_tile<b128, 64>(); }
#elif FOLIO_BAD == 2
auto use() { return Cache<16>().create_tma_tile<b128, 64, 96>(); }
#elif FOLIO_BAD == 3
auto use() { return Cache<48>().create_tma_tile<b128, 64>(); }
#elif FOLIO_BAD == 4
auto use() { return Cache<512>().create_tma_tile<b128, 512>(); }
#elif FOLIO_BAD == 5
auto use() { return Cache<1>().create_tma_tile<b32, 64>(); }
#elif FOLIO_BAD == 6
auto use() { return Cache<16, 256>().create_tma_tile<b128, 64, 256, 3>(); }
#elif FOLIO_BAD == 7
auto use() { return Cache<16, 72>().create_tma_tile<b128, 64, 128, 2>(); }
#elif FOLIO_BAD == 8
auto use() { return Cache<4>().create_tma_tile<b128, 64, 128, 2, true>(); }
#elif FOLIO_BAD == 9
auto use() { return Cache<16>().create_ragged_tma_tile<b128, 64, 128, 3>(); }
#elif FOLIO_BAD == 10
auto use() { return Fp8().create_rope_tma_tile<b128, 64, 64, 528>(); }
#elif FOLIO_BAD == 11
auto use() { return Fp8().create_rope_tma_tile<b32, 64, 72 * 4, 64 + 8>(); }
#elif FOLIO_BAD == 12
auto use() { return Cache<16>().create_latent_tma_tile<b128, 64, 64>(); }
#elif FOLIO_BAD == 13
auto use() { return Latent().create_latent_tma_tile<b128, 64, 640>(); }
#elif FOLIO_BAD == 14
auto use() { return Cache<16, 72>().create_page_tma_tile<b128, 64>(); }
#elif FOLIO_BAD == 15
auto use() { return Cache<48>().create_ragged_tma_tile<b128, 64>(); }
#endif
