// SPDX-License-Identifier: Apache-2.0
/// cli/replay/offline_optimum.cpp: next uses from the end of the trace, then one pass with a heap.
#include "replay/offline_optimum.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace folio::cli {
namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

/// Of each id of each request, in order: the next request that has it.
std::vector<int64_t> next_uses(std::span<const TraceRequest> trace) {
  std::unordered_map<int32_t, int64_t> later;
  std::vector<int64_t> next;  // from the end
  for (auto r = static_cast<int64_t>(trace.size()); r-- > 0;) {
    const std::vector<int32_t>& ids = trace[static_cast<size_t>(r)].hash_ids;
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      const auto [at, is_first] = later.try_emplace(*id, never);
      next.push_back(std::exchange(at->second, r));
    }
  }
  std::reverse(next.begin(), next.end());
  return next;
}

class Cache {
 public:
  explicit Cache(int64_t capacity) : capacity_(capacity) {}

  /// Leading ids that are cached; then all are, with these next uses.
  int64_t serve(std::span<const int32_t> ids, const int64_t* next, BlockCounts& counts) {
    const auto missing =
        std::find_if_not(ids.begin(), ids.end(), [&](int32_t id) { return blocks_.contains(id); });
    for (const int32_t id : ids) {
      if (blocks_.contains(id)) continue;
      if (static_cast<int64_t>(blocks_.size()) == capacity_) {
        evict();
        ++counts.evicted_blocks;
      }
      blocks_[id] = {};
    }
    for (size_t depth = 0; depth < ids.size(); ++depth) {
      const Use use{next[depth], static_cast<int64_t>(depth)};
      blocks_[ids[depth]] = use;
      farthest_.push({use, ids[depth]});
    }
    return missing - ids.begin();
  }

 private:
  using Use = std::pair<int64_t, int64_t>;  ///< next request, depth in it

  /// Candidates that were served since are in the heap again. What the present request needs is
  /// none: its next use is now.
  void evict() {
    for (;;) {
      const auto [use, id] = farthest_.top();
      farthest_.pop();
      const auto at = blocks_.find(id);
      if (at == blocks_.end() || at->second != use) continue;
      blocks_.erase(at);
      return;
    }
  }

  int64_t capacity_;
  std::unordered_map<int32_t, Use> blocks_;
  std::priority_queue<std::pair<Use, int32_t>> farthest_;
};

}  // namespace

BlockCounts offline_optimum(std::span<const TraceRequest> trace, int64_t capacity) {
  const std::vector<int64_t> next = next_uses(trace);
  Cache cache(capacity);
  BlockCounts counts;
  const int64_t* at = next.data();
  for (const TraceRequest& request : trace) {
    const int64_t hits = cache.serve(request.hash_ids, at, counts);
    at += request.hash_ids.size();
    counts.lookup_blocks += static_cast<int64_t>(request.hash_ids.size());
    counts.hit_blocks += hits;
    const int64_t tokens = std::min(hits * request.tokens_per_block, int64_t{request.input_length});
    counts.hit_tokens += tokens;
    counts.saved_work += work_of(tokens);
  }
  return counts;
}

}  // namespace folio::cli
