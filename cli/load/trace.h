// SPDX-License-Identifier: Apache-2.0
/// cli/load/trace.h: reads request traces, a line of JSON for each request, in one of two forms:
///
///   Mooncake's           {"timestamp": ms, "input_length": tokens, "output_length": tokens,
///                         "hash_ids": [...]}, blocks of 512 tokens
///   kvcache-simulator's  {"block_size": tokens, "hash_ids": [...], "input_length": tokens}
///
/// An id names a block of the prompt: so many tokens, and everything in front of them; the last
/// block of a request may be partial. Other fields are ignored, and so are blank lines. The order
/// of the lines is the order of arrival.
///
/// The first request says which form the trace has: with block_size it is kvcache-simulator's.
/// Blocks are as large in all lines; one without block_size has the first one's. In
/// kvcache-simulator's form ids are any integers of 64 bits or strings (numbered as they come),
/// `timestamp` may be left out (then that of the line before) or a fraction, `output_length` may be
/// left out (0), null is as left out, and `block_tokens`, the tokens of each block, may only say
/// what block_size does.
#pragma once

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "folio/core/status.h"

namespace folio::cli {

/// Of Mooncake's form, whose lines do not say.
inline constexpr int32_t mooncake_tokens_per_block = 512;
inline constexpr int32_t most_tokens_per_block = 1 << 20;
/// Prompt and output of one request. No model has a longer context today, and sizes derived from it
/// stay far inside int64.
inline constexpr int64_t max_request_tokens = int64_t{1} << 24;
/// Ids are token ids of the page-per-block mode, which needs one value of its own.
inline constexpr int64_t max_hash_id = 0x7ffffffe;

struct TraceRequest {
  int64_t line = 0;  ///< of the file, from 1
  int64_t timestamp_ms = 0;
  int32_t input_length = 0;   ///< tokens, >= 1
  int32_t output_length = 0;  ///< tokens, >= 0
  /// of a block; all requests of a trace have the same
  int32_t tokens_per_block = mooncake_tokens_per_block;
  std::vector<int32_t> hash_ids;  ///< ceil(input_length / tokens_per_block)
};

/// Tokens that the request puts into a cache.
int64_t cached_tokens(const TraceRequest& request);

/// What a trace asks of a cache.
struct TraceDemand {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t longest_line = 0;    ///< of the trace: the request with most tokens
  int64_t longest_tokens = 0;  ///< its
  int64_t longest_bytes = 0;   ///< it needs, where all layers keep everything: the model says it
};
TraceDemand demand_of(std::span<const TraceRequest> trace);

/// The first `limit` requests of the file (0: all).
/// Errors: io if the file cannot be read; invalid_argument "file:line: reason" for the first line
/// that is no request, and for a file without requests. Memory is bounded by what the lines really
/// hold, whatever they claim.
Result<std::vector<TraceRequest>> read_trace(const std::string& path, int64_t limit);
/// The same of an open file; `path` is its name in messages.
Result<std::vector<TraceRequest>> read_trace(std::istream& file, const std::string& path,
                                             int64_t limit);

}  // namespace folio::cli
