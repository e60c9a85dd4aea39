// SPDX-License-Identifier: Apache-2.0
/// tests/support/kv_buffer_configs.h: configurations of KVBuffer: those of the seed's own kernels
/// and those of ours.
#pragma once

#include "folio/attention/kv_buffer.h"

namespace folio::test {

/// Lanes of a warp, as the seed has them.
struct Warps {
  static constexpr int warp_size = 64;
  static constexpr int kv_num_heads = 2;
  static constexpr bool transpose = true;
};

// max-facts.md, 13.10, row by row.
struct SeedBf16Depth128 : Warps {
  static constexpr IndexList<3> mma_shape{32, 32, 16};
  static constexpr tma::XorSwizzle swizzle{3, 0, 4};
  static constexpr int BN = 64, WN = 64, BK = 32, num_threads = 256, depth = 128;
};
struct SeedBf16Depth64 : Warps {
  static constexpr IndexList<3> mma_shape{32, 32, 16};
  static constexpr tma::XorSwizzle swizzle{3, 0, 4};
  static constexpr int BN = 64, WN = 64, BK = 32, num_threads = 256, depth = 64;
};
struct SeedFp8Depth128 : Warps {
  static constexpr IndexList<3> mma_shape{32, 32, 64};
  static constexpr int BN = 64, WN = 64, BK = 64, num_threads = 256, depth = 128;
};
struct SeedFp8Latent : Warps {
  static constexpr IndexList<3> mma_shape{16, 16, 128};
  static constexpr int BN = 128, WN = 32, BK = 128, num_threads = 256, depth = 576, bk_smem = 64;
};
struct SeedFp8LatentUneven : SeedFp8Latent {
  static constexpr int num_threads = 320;
};
struct SeedBf16Depth256 : Warps {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr tma::XorSwizzle swizzle{3, 0, 3};
  static constexpr int BN = 128, WN = 128, BK = 64, num_threads = 512, depth = 256;
};

// Others of its kernels' shapes, worked by hand.
struct SeedValues : Warps {
  static constexpr IndexList<3> mma_shape{32, 32, 16};
  static constexpr int BN = 64, WN = 64, BK = 32, num_threads = 256, depth = 128;
  static constexpr bool transpose = false;
};
/// depth_per_warp = 16 with BK = 32: staging is as wide as a block, registers are as wide as the
/// depth.
struct SeedNarrowValues : Warps {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr int BN = 64, WN = 32, BK = 32, num_threads = 128, depth = 16, smem_depth = 32,
                       cache_depth = 128, head_dim_offset = 48;
  static constexpr bool transpose = false;
};
struct SeedStreamedKeys : Warps {
  static constexpr IndexList<3> mma_shape{32, 32, 16};
  static constexpr int BN = 64, WN = 32, BK = 32, num_threads = 128, depth = 512,
                       reg_chunk_depth = 128;
  static constexpr bool full_kv = false;
};
struct SeedStreamedValues : SeedValues {
  static constexpr int num_threads = 128;
  static constexpr bool full_kv = false;
  static constexpr int num_smem_stages = 3;
};
struct SeedPartialStrip : Warps {
  static constexpr IndexList<3> mma_shape{32, 32, 16};
  static constexpr int BN = 64, WN = 64, BK = 64, num_threads = 64, depth = 80, smem_depth = 128;
};
/// The rope part of a latent row.
struct SeedRopeKeys : Warps {
  static constexpr IndexList<3> mma_shape{32, 32, 16};
  static constexpr int BN = 64, WN = 64, BK = 32, num_threads = 128, depth = 64, cache_depth = 576,
                       head_dim_offset = 512;
  static constexpr int kv_num_heads = 1;
};

/// One thread, tiles of AMX's size.
template <int Depth>
struct ThreadKeys {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr int BN = 64, BK = 32, depth = Depth;
  static constexpr bool transpose = true;
};
template <int Depth>
struct ThreadValues {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr int BN = 64, BK = 32, bk_smem = Depth, depth = Depth;
  static constexpr bool transpose = false;
};

}  // namespace folio::test
