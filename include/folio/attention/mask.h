// SPDX-License-Identifier: Apache-2.0
/// folio/attention/mask.h: which keys a query sees: an interval of positions, plus optional sink
/// tokens in front of it.
///
/// For the query at position p, with context keys at positions [key_position, key_position +
/// context):
///
///     visible = [0, min(sink_tokens, end)) U [begin, end),   clipped to the context
///     begin   = max(p - left, start of p's chunk)
///     end     = min(p + right + 1, end of p's chunk)
///
/// -1 = unlimited, chunk 0 = no chunks. Positions may be negative, chunks are aligned there as
/// elsewhere (multiples of `chunk`), and a key at a negative position is no sink token. A kernel
/// sees begin and end, never the kind of mask. Batch::tree takes away new tokens, no more.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

struct Mask {
  int32_t left = -1;
  int32_t right = 0;
  int32_t chunk = 0;
  /// positions [0, sink_tokens) stay visible behind every window (StreamingLLM). For layers that
  /// were trained on all keys and are cut when they serve, where 1 is mostly enough; a model's own
  /// window layers never saw these tokens from beyond, and get far worse (docs/llama_cpp.md)
  int32_t sink_tokens = 0;
  bool operator==(const Mask&) const = default;

  static constexpr Mask causal() { return {}; }
  static constexpr Mask full() { return {-1, -1, 0, 0}; }
  /// The last `keys` keys, the query's own included.
  static constexpr Mask sliding_window(int32_t keys, int32_t sinks = 0) {
    return {keys - 1, 0, 0, sinks};
  }
  /// Attention within aligned chunks of `keys` positions (Llama 4).
  static constexpr Mask chunked(int32_t keys, bool is_causal = true) {
    return {-1, is_causal ? 0 : -1, keys, 0};
  }
};

}  // namespace folio::inline v1
