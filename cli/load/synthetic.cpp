// SPDX-License-Identifier: Apache-2.0
/// cli/load/synthetic.cpp: tokens and rows of a replay.
#include "load/synthetic.h"

#include <algorithm>
#include <cstring>

namespace folio::cli {

std::vector<TokenId> prompt_of(const TraceRequest& request) {
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(request.input_length));
  const int32_t of_block = request.tokens_per_block;
  for (int32_t i = 0; i < request.input_length; ++i) {
    tokens.push_back(
        block_token(request.hash_ids[static_cast<size_t>(i / of_block)], i % of_block, of_block));
  }
  return tokens;
}

std::vector<TokenId> history_of(const TraceRequest& request, int64_t index) {
  std::vector<TokenId> tokens = prompt_of(request);
  for (int32_t i = 0; i + 1 < request.output_length; ++i) tokens.push_back(output_token(index, i));
  return tokens;
}

void fill_row(const RowName& name, std::span<float> row) {
  // One mix for the token, one for the row, one for each eight elements.
  constexpr size_t lanes = sizeof(uint64_t);
  const uint64_t token = mix(static_cast<uint64_t>(static_cast<uint32_t>(name.token)) << 32 |
                             static_cast<uint64_t>(name.position));
  const uint64_t place = static_cast<uint64_t>(name.layer) << 34 |
                         static_cast<uint64_t>(name.head) << 2 | static_cast<uint64_t>(name.role);
  const uint64_t seed = mix(token ^ place);
  for (size_t begin = 0; begin < row.size(); begin += lanes) {
    const uint64_t bits = mix(seed + begin);
    int8_t bytes[lanes];
    std::memcpy(bytes, &bits, sizeof bits);
    const size_t count = std::min(lanes, row.size() - begin);
    for (size_t i = 0; i < count; ++i)
      row[begin + i] = static_cast<float>(bytes[i]) * (1.0f / 128.0f);
  }
}

}  // namespace folio::cli
