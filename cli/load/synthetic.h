// SPDX-License-Identifier: Apache-2.0
/// cli/load/synthetic.h: the invented content of a replay: tokens, and the queries, keys and values
/// that a model would compute.
///
/// An element is a hash of (token, position, layer, head, role, dim), so a page that holds other
/// tokens, or the same tokens at other positions or of another layer, gives other outputs. Elements
/// are n / 128 with n in [-128, 127]: exact in f32, bf16 and f16. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/pool/page_pool.h"
#include "load/trace.h"

namespace folio::cli {

/// A full-avalanche mixer of 64 bits (the finaliser of SplitMix64: Steele, Lea & Flood 2014).
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Token `index` of a block that a hash id stands for.
constexpr TokenId block_token(int32_t hash_id, int32_t index, int32_t tokens_per_block) {
  const auto block = static_cast<uint64_t>(hash_id);
  return static_cast<TokenId>(
      mix(block * static_cast<uint64_t>(tokens_per_block) + static_cast<uint64_t>(index)) >> 33);
}

/// Output token `index` of a request: traces do not say what was generated, so each request
/// generates something of its own.
constexpr TokenId output_token(int64_t request, int32_t index) {
  return static_cast<TokenId>(
      mix(~(static_cast<uint64_t>(request) << 25 | static_cast<uint64_t>(index))) >> 33);
}

std::vector<TokenId> prompt_of(const TraceRequest& request);

/// The prompt and the outputs that are fed back; the last output never is. [input_length +
/// max(output_length, 1) - 1]
std::vector<TokenId> history_of(const TraceRequest& request, int64_t index);

enum class Role : uint8_t { query, key, value };

/// Which row of which token.
struct RowName {
  TokenId token = 0;
  int64_t position = 0;
  Role role = Role::query;
  int32_t layer = 0;
  int32_t head = 0;
};

void fill_row(const RowName& name, std::span<float> row);

}  // namespace folio::cli
