// SPDX-License-Identifier: Apache-2.0
/// tests/pool/groups_model_test.cpp: random calls on hybrid pools of random groups, for every
/// eviction policy. RapidCheck prints the seed and shrinks.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "pool/group_calls.h"

namespace folio::test {
namespace {

GroupOptions any_group(int32_t page_size) {
  GroupOptions g;
  g.rule = static_cast<GroupRule>(*rc::gen::inRange(0, 4));
  int32_t size = page_size;
  if (g.rule == GroupRule::window) {
    g.window = *rc::gen::inRange(1, 14);
    g.sinks = *rc::gen::inRange(0, g.window);
  }
  if (g.rule == GroupRule::chunked) g.chunk = *rc::gen::inRange(1, 12);
  if (g.rule == GroupRule::state) g.checkpoint = size = page_size * *rc::gen::inRange(1, 4);
  g.page_bytes = int64_t{size} * *rc::gen::inRange(1, 4);
  return g;
}

void any_calls(Eviction eviction) {
  PoolOptions options;
  options.page_size = *rc::gen::inRange(1, 5);
  options.max_sequences = static_cast<uint32_t>(*rc::gen::inRange(1, 6));
  options.max_pages_per_sequence = static_cast<uint32_t>(*rc::gen::inRange(1, 12));
  options.prefix_reuse = *rc::gen::inRange(0, 8) != 0;
  options.eviction = eviction;
  std::vector<GroupOptions> groups(1);
  if (*rc::gen::inRange(0, 5) != 0) {
    groups[0].page_bytes = int64_t{options.page_size} * *rc::gen::inRange(1, 4);
  } else {
    options.num_pages = static_cast<uint32_t>(*rc::gen::inRange(1, 20));
  }
  for (int more = *rc::gen::inRange(1, 4); more > 0; --more)
    groups.push_back(any_group(options.page_size));
  std::vector<int64_t> bytes;
  for (const GroupOptions& g : groups) bytes.push_back(g.page_bytes);
  int64_t slab = 1;
  for (const int64_t b : bytes) slab = b == 0 ? slab : std::lcm(slab, b);
  options.lookahead_tokens = *rc::gen::inRange(0, 4) == 0 ? *rc::gen::inRange(1, 4) : 0;
  if (options.prefix_reuse) {
    options.min_partial_tokens = *rc::gen::inRange(0, options.page_size);
    options.max_retention_ms = *rc::gen::inRange(0, 2) * 100;
    options.max_spans = static_cast<uint32_t>(std::max(0, *rc::gen::inRange(-1, 4)));
  }
  options.max_io_pins = static_cast<uint32_t>(*rc::gen::inRange(0, 4));
  options.watermark_pages = *rc::gen::inRange(0, 4) == 0 ? 1 : 0;
  options.arena_bytes = slab * *rc::gen::inRange(1, 12);
  options.groups = groups;
  const auto calls = *rc::gen::scale(15.0, rc::gen::arbitrary<std::vector<GroupCall>>());
  GroupModel model(options);
  for (const GroupCall& call : calls) apply(model, call);
  RC_CLASSIFY(model.pool().stats().hit_pages != 0, "hits");
  RC_CLASSIFY(model.pool().stats().evicted_pages != 0, "evictions");
  RC_CLASSIFY(model.refused_rooms != 0, "refused rooms");
  RC_CLASSIFY(model.refused_lengths != 0, "refused lengths");
  RC_CLASSIFY(model.partial_hits != 0, "partial hits");
  RC_CLASSIFY(model.refused_partial_hits != 0, "refused partial hits");
  RC_CLASSIFY(model.item_hits != 0, "hits behind items");
  RC_CLASSIFY(model.partial_item_hits != 0, "partial hits behind items");
  RC_CLASSIFY(model.gone_by_level != 0, "evictions by level");
  RC_CLASSIFY(model.pool().stats().pinned_pages != 0, "pinned pages");
  RC_CLASSIFY(model.transfers != 0, "transfers");
  RC_CLASSIFY(model.committed_loads != 0, "loads");
  RC_CLASSIFY(model.shortened_loads != 0, "shortened loads");
  model.finish();
}

RC_GTEST_PROP(Groups, any_sequence_of_calls_leaves_every_group_what_it_may_see, ()) {
  any_calls(Eviction::lru);
}

RC_GTEST_PROP(Groups, any_sequence_of_calls_is_right_with_s3_fifo, ()) {
  any_calls(Eviction::s3_fifo);
}

RC_GTEST_PROP(Groups, any_sequence_of_calls_is_right_with_lfu, ()) { any_calls(Eviction::lfu); }

}  // namespace
}  // namespace folio::test
