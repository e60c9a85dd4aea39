// SPDX-License-Identifier: Apache-2.0
/// folio/cache/static_params.h: the sizes of a cache as a template argument.
#pragma once

#include <cstdint>

namespace folio::inline v1 {

/// A structural type: `PagedKVCache<DType::bf16, KVCacheStaticParams{8, 128}, 16>`.
struct KVCacheStaticParams {
  int32_t num_heads = 1;  ///< KV heads on this device
  int32_t head_size = 1;  ///< elements of a head; for MLA the width of the latent row
  bool is_mla = false;    ///< K only; V lies inside K's rows
  bool operator==(const KVCacheStaticParams&) const = default;
};

}  // namespace folio::inline v1
