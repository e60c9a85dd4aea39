// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_helpers.h: hybrid pools, and what of their pages each group has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pool/pool_helpers.h"

namespace folio::test {

constexpr GroupOptions full(int64_t bytes) { return {.page_bytes = bytes}; }
constexpr GroupOptions window(int64_t bytes, int32_t tokens, int32_t sinks = 0) {
  return {.rule = GroupRule::window, .page_bytes = bytes, .window = tokens, .sinks = sinks};
}
constexpr GroupOptions states(int64_t bytes, int32_t checkpoint) {
  return {.rule = GroupRule::state, .page_bytes = bytes, .checkpoint = checkpoint};
}

inline PagePool make_hybrid(const std::vector<GroupOptions>& groups, int64_t arena,
                            int32_t page_size = 16, PoolOptions options = {}) {
  options.page_size = page_size;
  options.max_sequences = 8;
  options.groups = groups;
  options.arena_bytes = arena;
  return make_pool(options);
}

/// Entries of a row; the sentinel as -1.
inline std::vector<int64_t> group_row(const PagePool& pool, SequenceId id, uint32_t group,
                                      size_t pages) {
  const std::vector<uint32_t> entries = row(pool, id, pages, group);
  std::vector<int64_t> shown(entries.begin(), entries.end());
  std::replace(shown.begin(), shown.end(), pool.group(group)->num_pages, int64_t{-1});
  return shown;
}

inline int64_t used(const PagePool& pool, uint32_t group) { return pool.group(group)->used_pages; }
inline int64_t cached(const PagePool& pool, uint32_t group) {
  return pool.group(group)->cached_pages;
}

}  // namespace folio::test
