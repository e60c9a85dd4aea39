// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/config.h: the optional members of a KVBuffer's Config and their
/// defaults.
///
/// A Config is a type whose static members carry the seed's parameter names. Left out, they have
/// these values:
///
///   WN = BN                warp_size = 1          num_threads = warp_size
///   cache_depth = depth    head_dim_offset = 0    kv_num_heads = dynamic
///   smem_depth = depth     bk_smem = BK           num_smem_stages = 2
///   full_kv = true         swizzle = none
///   reg_chunk_depth = depth                 reg_chunk_keys = WN
///   smem_dtype = the operand's dtype        Loader = PlainLoader       Fragments = KVMmaOp
///
/// mma_shape, BN, BK, depth and transpose (true: K, false: V) have no default. A warp is 64 lanes
/// in the seed's own configurations, one thread on a CPU: a lane then holds a whole MMA tile.
#pragma once

#include "folio/attention/operand/concept.h"
#include "folio/core/dtype.h"
#include "folio/tma/swizzle.h"

namespace folio::inline v1::detail {

template <class C>
constexpr int config_warp_size() {
  if constexpr (requires { C::warp_size; }) {
    return C::warp_size;
  } else {
    return 1;
  }
}
template <class C>
constexpr int config_wn() {
  if constexpr (requires { C::WN; }) {
    return C::WN;
  } else {
    return C::BN;
  }
}
template <class C>
constexpr int config_num_threads() {
  if constexpr (requires { C::num_threads; }) {
    return C::num_threads;
  } else {
    return config_warp_size<C>();
  }
}
template <class C>
constexpr int config_kv_num_heads() {
  if constexpr (requires { C::kv_num_heads; }) {
    return C::kv_num_heads;
  } else {
    return operand::dynamic;
  }
}
template <class C>
constexpr bool config_full_kv() {
  if constexpr (requires { C::full_kv; }) {
    return C::full_kv;
  } else {
    return true;
  }
}
template <class C>
constexpr int config_cache_depth() {
  if constexpr (requires { C::cache_depth; }) {
    return C::cache_depth;
  } else {
    return C::depth;
  }
}
template <class C>
constexpr int config_head_dim_offset() {
  if constexpr (requires { C::head_dim_offset; }) {
    return C::head_dim_offset;
  } else {
    return 0;
  }
}
template <class C>
constexpr int config_reg_chunk_depth() {
  if constexpr (requires { C::reg_chunk_depth; }) {
    return C::reg_chunk_depth;
  } else {
    return C::depth;
  }
}
template <class C>
constexpr int config_reg_chunk_keys() {
  if constexpr (requires { C::reg_chunk_keys; }) {
    return C::reg_chunk_keys;
  } else {
    return config_wn<C>();
  }
}
template <class C>
constexpr int config_smem_depth() {
  if constexpr (requires { C::smem_depth; }) {
    return C::smem_depth;
  } else {
    return C::depth;
  }
}
template <class C>
constexpr int config_bk_smem() {
  if constexpr (requires { C::bk_smem; }) {
    return C::bk_smem;
  } else {
    return C::BK;
  }
}
template <class C>
constexpr int config_num_smem_stages() {
  if constexpr (requires { C::num_smem_stages; }) {
    return C::num_smem_stages;
  } else {
    return 2;
  }
}
template <class C>
constexpr tma::XorSwizzle config_swizzle() {
  if constexpr (requires { C::swizzle; }) {
    return C::swizzle;
  } else {
    return {};
  }
}
template <class C>
constexpr DType config_smem_dtype(DType stored) {
  if constexpr (requires { C::smem_dtype; }) {
    return C::smem_dtype;
  } else {
    return stored;
  }
}

}  // namespace folio::inline v1::detail
