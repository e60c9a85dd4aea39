// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/kv_buffer_kernels.h: KVBuffer of a block of warps, by cp.async and by TMA: what tests
/// run in the emulator and nvcc compiles for GPUs.
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer.h"

namespace folio::test {

/// Four warps, blocks of 128 bytes swizzled as tensor maps do it.
struct LaneWarps {
  static constexpr IndexList<3> mma_shape{16, 8, 16};
  static constexpr tma::XorSwizzle swizzle{3, 0, 3};
  static constexpr int warp_size = 32, num_threads = 128;
};
struct LaneKeys : LaneWarps {
  static constexpr int BN = 64, WN = 16, BK = 64, depth = 128, bk_smem = 64;
  static constexpr bool transpose = true;
};
struct LaneValues : LaneWarps {
  static constexpr int BN = 64, BK = 32, depth = 128, bk_smem = 64, num_smem_stages = 3;
  static constexpr bool transpose = false;
};
/// Strips of a long head, one at a time.
struct LaneStreamedKeys : LaneWarps {
  static constexpr int BN = 64, WN = 32, BK = 64, depth = 256, bk_smem = 64, num_smem_stages = 4,
                       reg_chunk_depth = 64;
  static constexpr bool transpose = true, full_kv = false;
};
/// Bytes, which are staged as they are.
struct LaneBytes : LaneWarps {
  static constexpr int BN = 64, BK = 128, depth = 128, bk_smem = 128;
  static constexpr bool transpose = true;
};
/// A rope behind a latent part, more keys than a set holds, an uneven share of steps.
struct LaneRope : LaneWarps {
  static constexpr int BN = 96, WN = 96, BK = 64, depth = 64, bk_smem = 64, num_threads = 64,
                       cache_depth = 576, head_dim_offset = 512;
  static constexpr bool transpose = true;
};

/// No fragments: bytes have none.
template <class Shape>
struct NoFragments {
  struct MMATileType {};
};
template <class Base, class Shape>
struct LaneFragments {
  using type = WarpFragments<Shape>;
};
template <class Shape>
struct LaneFragments<LaneBytes, Shape> {
  using type = NoFragments<Shape>;
};

template <class Base, class Machine>
struct ByCpAsync : Base {
  template <class Shape>
  using Loader = CpAsyncLoader<Shape, Machine>;
  template <class Shape>
  using Fragments = typename LaneFragments<Base, Shape>::type;
};
template <class Base, class Machine>
struct ByTma : Base {
  template <class Shape>
  using Loader = TmaLoader<Shape, Machine>;
  template <class Shape>
  using Fragments = typename LaneFragments<Base, Shape>::type;
};

}  // namespace folio::test
