// SPDX-License-Identifier: Apache-2.0
/// tests/cli/replay/random_requests.h: made-up requests, some of which share their first blocks.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "load/trace.h"

namespace folio::cli {

struct RequestLimits {
  int32_t blocks = 5;  ///< of a request, at most
  int32_t outputs = 200;
  int32_t choices = 3;  ///< of each block behind the first, which all requests share
};

/// Prompts of 1 to `blocks` blocks, the last one cut, with fewer than `outputs` outputs.
inline std::vector<TraceRequest> random_requests(std::mt19937& rng, int count,
                                                 const RequestLimits& limits = {}) {
  const auto below = [&](int32_t end) {
    return static_cast<int32_t>(rng() % static_cast<uint32_t>(end));
  };
  std::vector<TraceRequest> trace;
  for (int i = 0; i < count; ++i) {
    const int32_t blocks = below(limits.blocks) + 1;
    TraceRequest request;
    request.line = i + 1;
    request.input_length = blocks * mooncake_tokens_per_block - below(mooncake_tokens_per_block);
    request.output_length = below(limits.outputs);
    request.hash_ids = {0};
    for (int32_t block = 1; block < blocks; ++block)
      request.hash_ids.push_back(below(limits.choices) + limits.choices * block);
    trace.push_back(std::move(request));
  }
  return trace;
}

}  // namespace folio::cli
