// SPDX-License-Identifier: Apache-2.0
/// folio/cache/layer_caches.h: what every collection of static caches has: a plane for each layer.
#pragma once

#include <cstdint>

#include "folio/cache/check_static.h"
#include "folio/cache/kv_cache.h"
#include "folio/core/host_device.h"
#include "folio/core/status.h"

namespace folio::inline v1::detail {

/// `Self` has blocks [pages, kv, layers, ...], cache_lengths and plane(kv, layer).
template <class Self, class Cache>
struct LayerCaches {
  FOLIO_HOST_DEVICE constexpr int64_t num_layers() const { return self().blocks.extent(2); }
  /// The plane of a layer. A layer out of range has a cache without pages: it loads zeros and
  /// stores nothing.
  FOLIO_HOST_DEVICE constexpr Cache get_key_cache(int64_t layer_idx) const {
    return self().plane(0, layer_idx);
  }
  FOLIO_HOST_DEVICE constexpr Cache get_value_cache(int64_t layer_idx) const
    requires cache_has_a_value_plane<Cache::kv_params>
  {
    return self().plane(1, layer_idx);
  }
  /// The same, with invalid_argument for a layer out of range.
  Result<Cache> checked_key_cache(int64_t layer_idx) const noexcept {
    if (Status status = check_layer("checked_key_cache", layer_idx, num_layers()); !status.is_ok())
      return status;
    return get_key_cache(layer_idx);
  }
  Result<Cache> checked_value_cache(int64_t layer_idx) const noexcept
    requires cache_has_a_value_plane<Cache::kv_params>
  {
    if (Status status = check_layer("checked_value_cache", layer_idx, num_layers());
        !status.is_ok())
      return status;
    return get_value_cache(layer_idx);
  }
  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t bs_idx) const {
    return self().cache_lengths(bs_idx);
  }

 private:
  FOLIO_HOST_DEVICE constexpr const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace folio::inline v1::detail
