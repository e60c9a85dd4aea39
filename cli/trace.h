// SPDX-License-Identifier: Apache-2.0
/// cli/trace.h: reads request traces in Mooncake's JSONL form.
///
/// One line is one request: {"timestamp": ms, "input_length": tokens, "output_length": tokens,
/// "hash_ids": [...]}. An id stands for 512 tokens and for everything in front of them; the last
/// block of a request may be partial. Other fields are ignored, and so are blank lines. The order
/// of the lines is the order of arrival.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "folio/core/status.h"

namespace folio::cli {

inline constexpr int32_t tokens_per_block = 512;
/// Prompt and output of one request. No model has a longer context today, and sizes derived from it
/// stay far inside int64.
inline constexpr int64_t max_request_tokens = int64_t{1} << 24;
/// Ids are token ids of the page-per-block mode, which needs one value of its own.
inline constexpr int64_t max_hash_id = 0x7ffffffe;

struct TraceRequest {
  int64_t line = 0;  ///< of the file, from 1
  int64_t timestamp_ms = 0;
  int32_t input_length = 0;       ///< tokens, >= 1
  int32_t output_length = 0;      ///< tokens, >= 0
  std::vector<int32_t> hash_ids;  ///< ceil(input_length / tokens_per_block)
};

/// The first `limit` requests of the file (0: all).
/// Errors: io if the file cannot be read; invalid_argument "file:line: reason" for the first line
/// that is no request, and for a file without requests. Memory is bounded by what the lines really
/// hold, whatever they claim.
Result<std::vector<TraceRequest>> read_trace(const std::string& path, int64_t limit);
/// The same of an open file; `path` is its name in messages.
Result<std::vector<TraceRequest>> read_trace(std::istream& file, const std::string& path,
                                             int64_t limit);

}  // namespace folio::cli
