// SPDX-License-Identifier: Apache-2.0
/// tests/pool/retention_helpers.h: pools that keep what they are asked to keep.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/pool_helpers.h"

namespace folio::test {

inline constexpr int32_t pinned = retention_level::pinned;
using Ranges = std::vector<RetentionRange>;

inline Ranges everything(int32_t level, int64_t ms = 0) {
  return {{.level = level, .milliseconds = ms}};
}

inline PagePool keeping_pool(uint32_t pages, int64_t max_ms = 1000) {
  return make_pool({.num_pages = pages, .page_size = 4, .max_retention_ms = max_ms});
}

/// Comes, is computed, and goes. The first `prompt` tokens are the prompt.
inline void serve(PagePool& pool, const Tokens& tokens, const Ranges& ranges = {},
                  DecodeRetention decode = {}, size_t prompt = 0) {
  if (prompt == 0) prompt = tokens.size();
  const Admission a =
      pool.admit({tokens.data(), prompt}, {.retention = ranges, .decode_retention = decode})
          .value();
  feed(pool, a.id, {tokens.begin() + a.cached_tokens, tokens.end()});
  pool.release(a.id).or_throw();
  expect_sound(pool);
}

inline int32_t found(const PagePool& pool, const Tokens& tokens) {
  return pool.peek(tokens + Tokens{-1});
}

}  // namespace folio::test
