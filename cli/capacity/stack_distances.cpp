// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/stack_distances.cpp: places in the order of last use, counted by a Fenwick tree.
#include "capacity/stack_distances.h"

#include <algorithm>
#include <unordered_map>

namespace folio::cli {
namespace {

/// Marks on a line of places, and how many stand up to one.
class Marks {
 public:
  explicit Marks(int64_t places) : sums_(static_cast<size_t>(places) + 1) {}
  void add(int64_t place, int32_t value) {
    for (auto i = static_cast<size_t>(place) + 1; i < sums_.size(); i += i & (~i + 1))
      sums_[i] += value;
  }
  [[nodiscard]] int64_t before(int64_t place) const {
    int64_t sum = 0;
    for (auto i = static_cast<size_t>(place); i > 0; i &= i - 1) sum += sums_[i];
    return sum;
  }

 private:
  std::vector<int32_t> sums_;
};

/// Tokens of the first `blocks` blocks of the request.
int64_t tokens_of(const TraceRequest& request, size_t blocks) {
  return std::min(static_cast<int64_t>(blocks) * request.tokens_per_block,
                  int64_t{request.input_length});
}

}  // namespace

Blocks name_blocks(std::span<const TraceRequest> trace) {
  Blocks blocks;
  blocks.trace.assign(trace.begin(), trace.end());
  // A block's parent is named before it, so both fit one word.
  std::unordered_map<uint64_t, int32_t> names;
  for (TraceRequest& request : blocks.trace) {
    int32_t parent = -1;
    for (int32_t& id : request.hash_ids) {
      const uint64_t key = uint64_t(uint32_t(parent)) << 32 | uint64_t(uint32_t(id));
      parent = id = names.try_emplace(key, static_cast<int32_t>(names.size())).first->second;
    }
    const auto length = static_cast<int64_t>(request.hash_ids.size());
    if (length <= blocks.longest) continue;
    blocks.longest = length;
    blocks.longest_line = request.line;
  }
  blocks.distinct = static_cast<int64_t>(names.size());
  return blocks;
}

LruCurve::LruCurve(const Blocks& blocks)
    : hit_blocks_(static_cast<size_t>(blocks.distinct) + 1),
      hit_tokens_(hit_blocks_.size()),
      saved_work_(hit_blocks_.size()) {
  for (const TraceRequest& request : blocks.trace)
    lookup_blocks_ += static_cast<int64_t>(request.hash_ids.size());
  Marks marks(lookup_blocks_);
  std::vector<int64_t> place_of(static_cast<size_t>(blocks.distinct), -1);
  int64_t marked = 0, next = 0;
  for (const TraceRequest& request : blocks.trace) {
    for (size_t i = 0; i < request.hash_ids.size(); ++i) {
      const int64_t place = place_of[static_cast<size_t>(request.hash_ids[i])];
      if (place < 0) break;  // nor has anything behind it been used
      const auto needed = static_cast<size_t>(marked - marks.before(place));
      ++hit_blocks_[needed];
      const int64_t before = tokens_of(request, i), with = tokens_of(request, i + 1);
      hit_tokens_[needed] += with - before;
      saved_work_[needed] += work_of(with) - work_of(before);
    }
    for (size_t i = request.hash_ids.size(); i-- > 0;) {  // as they are given up
      int64_t& place = place_of[static_cast<size_t>(request.hash_ids[i])];
      if (place >= 0) marks.add(place, -1);
      if (place < 0) ++marked;
      place = next++;
      marks.add(place, 1);
    }
  }
  for (size_t capacity = 1; capacity < hit_blocks_.size(); ++capacity) {
    hit_blocks_[capacity] += hit_blocks_[capacity - 1];
    hit_tokens_[capacity] += hit_tokens_[capacity - 1];
    saved_work_[capacity] += saved_work_[capacity - 1];
  }
}

BlockCounts LruCurve::at(int64_t capacity) const {
  const int64_t held = std::min(capacity, distinct());
  BlockCounts counts;
  counts.lookup_blocks = lookup_blocks_;
  counts.hit_blocks = hit_blocks_[static_cast<size_t>(held)];
  counts.hit_tokens = hit_tokens_[static_cast<size_t>(held)];
  counts.saved_work = saved_work_[static_cast<size_t>(held)];
  counts.evicted_blocks = lookup_blocks_ - counts.hit_blocks - held;
  return counts;
}

int64_t LruCurve::capacity_for(int64_t hit_tokens) const {
  return std::lower_bound(hit_tokens_.begin(), hit_tokens_.end(), hit_tokens) - hit_tokens_.begin();
}

}  // namespace folio::cli
