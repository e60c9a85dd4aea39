// SPDX-License-Identifier: Apache-2.0
/// tests/pool/groups_model_test.cpp: random calls on hybrid pools of random groups, for every
/// eviction policy. RapidCheck prints the seed and shrinks.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "pool/group_model.h"

namespace folio::test {
namespace {

using Call = std::array<uint8_t, 4>;

std::vector<TokenId> letters(size_t count, uint8_t pattern) {
  std::vector<TokenId> tokens(count, 0);
  for (size_t i = 0; pattern % 2 != 0 && i < count; ++i)
    tokens[i] = static_cast<TokenId>(pattern >> (1 + i % 7) & 1);
  return tokens;
}

void admit(GroupModel& model, const Call& call) {
  std::vector<TokenId> prompt;
  if (model.num_sequences() != 0 && call[1] % 2 == 0)
    prompt = model.tokens(call[1] / 2U % model.num_sequences());
  const std::vector<TokenId> tail = letters(call[2] % 20U, call[3]);
  prompt.insert(prompt.end(), tail.begin(), tail.end());
  model.admit(prompt);
}

int32_t cut(const GroupModel& model, size_t s, uint8_t choice) {
  const auto length = static_cast<int32_t>(model.tokens(s).size());
  if (choice > 252) return length + 1;
  if (choice > 249) return -1;
  return choice % 2 == 0 ? std::max(0, length - choice / 2 % 5) : choice / 2 % (length + 1);
}

void apply(GroupModel& model, const Call& call) {
  const uint32_t kind = call[0] % 32U;
  if (model.num_sequences() == 0 || kind < 5) return admit(model, call);
  const size_t s = call[1] % model.num_sequences();
  const auto tokens = letters(call[2] % 9U, call[3]);
  const auto count = static_cast<int32_t>(tokens.size());
  if (kind < 6 && call[1] % 2 == 0) return model.reserve_all(count);
  if (kind < 6) return model.reserve(s, call[2] > 250 ? -1 : count);
  if (kind < 8) return model.commit(s, tokens);
  if (kind < 16) {
    model.reserve(s, count + (kind < 10 ? 3 : 0));
    if (kind < 14) model.take_copies();
    return model.commit(s, tokens);
  }
  if (kind < 18) return model.trim(s, cut(model, s, call[2]));
  if (kind < 22) return model.fork(s, cut(model, s, call[2]));
  if (kind < 25) {
    if (call[2] % 8 == 0) return model.fork_children(s, cut(model, s, call[2] / 8), call[3] % 4U);
    if (call[2] % 8 == 1) return model.keep_path(s);
    if (call[2] % 8 == 2) return model.clear();
    if (call[2] % 8 > 4) return model.release(s);
    const std::vector<TokenId> present = model.tokens(s);
    if (call[2] % 8 == 3) model.preempt(s);
    return model.resume(s, present);
  }
  if (kind < 26) return model.take_copies();
  if (kind < 29) {
    std::vector<size_t> members;
    for (size_t i = 0; i < model.num_sequences(); ++i) {
      if ((call[2] >> i & 1) != 0) members.push_back(i);
    }
    return model.begin_step(members);
  }
  return model.num_steps() == 0 ? model.take_copies() : model.end_step(call[2] % model.num_steps());
}

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
  options.watermark_pages = *rc::gen::inRange(0, 4) == 0 ? 1 : 0;
  options.arena_bytes = slab * *rc::gen::inRange(1, 12);
  options.groups = groups;
  const auto calls = *rc::gen::scale(15.0, rc::gen::arbitrary<std::vector<Call>>());
  GroupModel model(options);
  for (const Call& call : calls) apply(model, call);
  RC_CLASSIFY(model.pool().stats().hit_pages != 0, "hits");
  RC_CLASSIFY(model.pool().stats().evicted_pages != 0, "evictions");
  RC_CLASSIFY(model.refused_rooms != 0, "refused rooms");
  RC_CLASSIFY(model.refused_lengths != 0, "refused lengths");
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
