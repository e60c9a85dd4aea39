// SPDX-License-Identifier: Apache-2.0
/// folio/cache/step_members.h: what static caches say of the step's sequences, said once.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"

namespace folio::inline v1::detail {

/// `Self` has the fields cache_lengths, max_seq_length and max_cache_length.
template <class Self>
struct StepMembers {
  using cache_lengths_tt_layout = Layout<IntTuple<-1>>;
  using cache_lengths_tt_type = TensorView<const uint32_t, cache_lengths_tt_layout>;
  using lookup_table_tt_layout = Layout<IntTuple<-1, -1>, IntTuple<-1, 1>>;
  using lookup_table_tt_type = TensorView<const uint32_t, lookup_table_tt_layout>;

  FOLIO_HOST_DEVICE constexpr Self copy() const { return self(); }
  FOLIO_HOST_DEVICE constexpr cache_lengths_tt_type cache_lengths_nd() const {
    return self().cache_lengths;
  }
  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return self().cache_lengths(batch_idx);
  }
  /// True exactly when every cache length is 0. Reads them: call it where they live.
  FOLIO_HOST_DEVICE constexpr bool empty_cache() const {
    for (int64_t b = 0; b < self().cache_lengths.extent(0); ++b) {
      if (self().cache_lengths(b) != 0) return false;
    }
    return true;
  }
  /// Upper bound of the new tokens of a sequence in this step.
  FOLIO_HOST_DEVICE constexpr uint32_t max_prompt_length() const { return self().max_seq_length; }
  /// Upper bound of cache length plus new tokens of a sequence.
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const {
    return self().max_cache_length;
  }

 private:
  FOLIO_HOST_DEVICE constexpr const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace folio::inline v1::detail
