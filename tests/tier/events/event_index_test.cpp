// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_index_test.cpp: batches as they are encoded, and what an index makes of
/// them.
#include "folio/tier/event_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/random.h"
#include "tier/events/encoded_batches.h"
#include "tier/events/event_helpers.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using tier::BatchWriter;
using tier::IndexedGroup;
using tier::Json;
using Bytes = std::vector<uint8_t>;

// What msgspec makes of vLLM's structs of the same values.
TEST(EventWire, is_vllms_byte_for_byte) {
  BatchWriter maps(EventFormat::maps, NameForm::last_64_bits);
  maps.stored(number(300), {.tokens = {1, 200}}, "GPU");
  const std::string stored = std::string("\x93\xcb\x3f\xf8\0\0\0\0\0\0\x91\x8a", 12) +
                             "\xa4type\xab"
                             "BlockStored" +
                             "\xac"
                             "block_hashes\x91\xcd\x01\x2c" +
                             "\xb1parent_block_hash\xc0" + "\xa9token_ids\x92\x01\xcc\xc8" +
                             "\xaa"
                             "block_size\x02" +
                             "\xa7lora_id\xc0" + "\xa6medium\xa3GPU" + "\xa9lora_name\xc0" +
                             std::string("\xa9group_idx\0", 11) +
                             "\xb2kv_cache_spec_kind\xae"
                             "full_attention" +
                             "\x03";
  const Bytes got = maps.finish(1.5, 3);
  EXPECT_EQ(std::string(got.begin(), got.end()), stored);

  BatchWriter arrays(EventFormat::arrays, NameForm::bytes);
  arrays.removed(number(1), "CPU");
  arrays.cleared();
  EXPECT_EQ(arrays.size(), 2);
  const std::string removed = std::string("\x93\xcb\x3f\xf8\0\0\0\0\0\0\x92\x94", 12) +
                              "\xac"
                              "BlockRemoved\x91\xc4\x20" +
                              std::string(31, '\0') + "\x01" +
                              std::string(
                                  "\xa3"
                                  "CPU\0",
                                  5) +
                              "\x91\xb0"
                              "AllBlocksCleared" +
                              std::string(1, '\0');
  const Bytes more = arrays.finish(1.5, 0);
  EXPECT_EQ(std::string(more.begin(), more.end()), removed);
  EXPECT_EQ(arrays.size(), 0);
}

TEST(EventWire, tells_a_window_and_an_adapter_as_vllm_does) {
  for (const EventFormat format : event_formats) {
    BatchWriter writer(format, NameForm::last_64_bits);
    const tier::WireGroup window{.index = 3, .rule = GroupRule::window, .window = 1024};
    writer.stored(number(1), {.adapter = 7, .tokens = {5}, .group = window}, "GPU", "tales");
    writer.removed(number(1), "GPU", 3);
    writer.removed(number(2), "GPU", 3);
    writer.removed(number(2), "GPU");
    const Json events = Json::from_msgpack(writer.finish(1, 0))[1];
    ASSERT_EQ(events.size(), 3U) << "names of one group are joined, of two are not";
    const bool maps = format == EventFormat::maps;
    const auto field = [&](size_t event, const char* name, size_t place) {
      return maps ? events[event].value(name, Json()) : events[event][place];
    };
    EXPECT_EQ(field(0, "lora_name", 7), "tales");
    EXPECT_EQ(field(0, "group_idx", 9), 3);
    EXPECT_EQ(field(0, "kv_cache_spec_kind", 10), "sliding_window");
    EXPECT_EQ(field(0, "kv_cache_spec_sliding_window", 11), 1024);
    EXPECT_EQ(field(1, "group_idx", 3), 3);
    EXPECT_EQ(field(1, "block_hashes", 1), Json::array({1, 2}));
    EXPECT_EQ(field(2, "group_idx", 3), 0);
    EventIndex index = make_index();
    feed(index, batch(Json::array({events[0]}))).or_throw();
    ASSERT_EQ(index.num_groups(), 1);
    const IndexedGroup group = index.group(0);
    EXPECT_EQ(group.group, 3);
    EXPECT_TRUE(group.has_rule);
    EXPECT_EQ(group.rule, GroupRule::window);
    EXPECT_EQ(group.window, 1024);
    EXPECT_EQ(group.block_size, 1);
    EXPECT_EQ(index.group(1).block_size + index.group(-1).block_size, 0);
  }
}

// ---- Copies and groups

Json removed(const std::vector<int>& names, int group) {
  return {
      {"type", "BlockRemoved"}, {"block_hashes", names}, {"medium", "GPU"}, {"group_idx", group}};
}
Json cleared() { return {{"type", "AllBlocksCleared"}}; }
Status tell(EventIndex& index, const std::vector<Json>& events) {
  return feed(index, batch(Json(events)));
}
std::vector<PageName> numbers(uint32_t count) {
  std::vector<PageName> names;
  for (uint32_t i = 1; i <= count; ++i) names.push_back(number(i));
  return names;
}

TEST(EventIndex, forgets_a_name_with_the_last_of_its_copies) {
  EventIndex index = make_index();
  EventIndex once = make_index({.counts_copies = false});
  const auto say = [&](const std::vector<Json>& events) {
    for (EventIndex* i : {&index, &once}) tell(*i, events).or_throw();
  };
  say({stored({1, 2, 3, 4}, nullptr, 0, "full_attention"), stored({4}, 3, 0, "full_attention"),
       stored({4}, 3, 0, "full_attention")});
  say({removed({4}, 0)});
  EXPECT_EQ(index.find(numbers(4)), 4);
  EXPECT_EQ(once.find(numbers(4)), 3);
  say({removed({4}, 0)});
  EXPECT_EQ(index.find(numbers(4)), 4);
  say({removed({4, 4, 4}, 0)});
  EXPECT_EQ(index.find(numbers(4)), 3) << "more are removed than were stored: there is none";
  say({stored({4}, 3, 0, "full_attention")});
  EXPECT_EQ(index.find(numbers(4)), 4) << "nothing is owed";
  say({removed({4}, 0), cleared(), stored({1}, nullptr, 0, "full_attention")});
  say({removed({1}, 0)});
  EXPECT_EQ(index.find(numbers(4)), 0) << "copies of before the clear do not count";
}

TEST(EventIndex, keeps_the_names_of_groups_apart) {
  EventIndex index = make_index();
  tell(index, {stored({1, 2}, nullptr, 0, "full_attention"), stored({1, 2}, nullptr, 1, "mamba"),
               removed({1}, 1)})
      .or_throw();
  EXPECT_EQ(index.find(numbers(2)), 2) << "of states the last one counts";
  EXPECT_EQ(index.figures().names, 3);
  tell(index, {removed({2}, 1)}).or_throw();
  EXPECT_EQ(index.find(numbers(2)), 0) << "the first group has both, the other no state";
  EXPECT_EQ(index.num_groups(), 2);
  tell(index, {stored({1}, nullptr, 1, "mamba")}).or_throw();
  EXPECT_EQ(index.find(numbers(2)), 1);
}

/// A window of 9 tokens needs the last two blocks of 4.
TEST(EventIndex, understands_blocks_that_windows_leave_out) {
  EventIndex index = make_index();
  tell(index,
       {stored({1, 2, 3, 4}, nullptr, 0, "full_attention"),
        stored({5, 6, 7}, 4, 0, "full_attention"), stored({3, 4}, nullptr, 1, "sliding_window", 2),
        stored({6}, 4, 1, "sliding_window", 1), stored({7}, 6, 1, "sliding_window")})
      .or_throw();
  EXPECT_EQ(index.find(numbers(7)), 7);
  EXPECT_EQ(index.find(numbers(6)), 4) << "5 is not there";
  EXPECT_EQ(index.find(numbers(3)), 0) << "nor is 2";
  EXPECT_EQ(index.figures().sparse_events, 2);
  index.visit(
      [](void*, const IndexedName& n) noexcept {
        const bool is_unknown = n.group == 1 && n.name != number(7);
        EXPECT_EQ(n.has_parent, !is_unknown && n.name != number(1));
        EXPECT_TRUE(n.name != number(5) || n.parent == number(4));
        EXPECT_TRUE(n.name != number(7) || n.parent == number(6));
      },
      nullptr);
}

TEST(EventIndex, takes_rules_that_no_event_tells_from_its_options) {
  const std::vector<Json> events = {stored({1, 2, 3, 4, 5}, nullptr, 0, "full_attention"),
                                    stored({4}, 3, 1, "chunked_local_attention")};
  EventIndex index = make_index();
  tell(index, events).or_throw();
  EXPECT_EQ(index.find(numbers(5)), 5) << "an upper bound";
  EXPECT_FALSE(index.group(1).has_rule);
  const IndexedGroup chunks{.group = 1, .rule = GroupRule::chunked, .has_rule = true, .chunk = 12};
  EventIndex knows = make_index({.groups = {&chunks, 1}});
  tell(knows, events).or_throw();
  EXPECT_EQ(knows.find(numbers(5)), 4) << "the chunk that begins behind 3 has no 5";
  tell(knows, {removed({4}, 1)}).or_throw();
  EXPECT_EQ(knows.find(numbers(5)), 3) << "a chunk that begins needs nothing";
}

TEST(EventIndex, asks_each_group_for_blocks_of_its_own_size) {
  Json large = stored({2, 4}, nullptr, 0, "full_attention", 2);
  large["block_size"] = 8;
  EventIndex index = make_index();
  tell(index, {large, stored({1, 2, 3, 4}, nullptr, 1, "sliding_window")}).or_throw();
  EXPECT_EQ(index.find(numbers(4)), 4);
  EXPECT_EQ(index.find(numbers(3)), 2) << "no hit ends inside a block";
  tell(index, {removed({2}, 0)}).or_throw();
  EXPECT_EQ(index.find(numbers(4)), 0);
}

TEST(EventIndex, has_an_upper_bound_where_kinds_are_unknown_and_counts_them) {
  EventIndex index = make_index();
  tell(index,
       {stored({1, 2, 3}, nullptr, 0, "full_attention"),
        stored({1}, nullptr, 1, "quantum_attention"), stored({1}, nullptr, 2, "cross_attention")})
      .or_throw();
  EXPECT_EQ(index.find(numbers(3)), 3);
  EXPECT_EQ(index.figures().unknown_kinds, 1);
  EXPECT_EQ(index.figures().refused_events, 0);
}

/// A naive engine of two groups, over random doubled names: how many copies of each there are.
TEST(EventIndex, counts_like_a_naive_engine) {
  Rng rng(test_seed());
  EventIndex index = make_index();
  std::map<std::pair<int, int>, int> copies;  // group, name
  const auto naive = [&](int length) {
    const auto has = [&](int group, int name) { return copies[{group, name}] > 0; };
    for (int n = length; n > 0; --n) {
      bool all = has(1, n) && (n == 1 || has(1, n - 1));
      for (int name = 1; name <= n; ++name) all = all && has(0, name);
      if (all) return n;
    }
    return 0;
  };
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    const int group = rng.int_between(0, 1), name = rng.int_between(1, 6);
    if (rng.chance(0.6)) {
      ++copies[{group, name}];
      tell(index,
           {stored({name}, nullptr, group, group == 0 ? "full_attention" : "sliding_window")})
          .or_throw();
    } else if (rng.chance(0.99)) {
      int& count = copies[{group, name}];
      count = std::max(count - 1, 0);
      tell(index, {removed({name}, group)}).or_throw();
    } else {
      copies.clear();
      tell(index, {cleared(), stored({}, nullptr, 0, "full_attention"),
                   stored({}, nullptr, 1, "sliding_window")})
          .or_throw();
    }
    if (index.num_groups() < 2) continue;
    const int expected = naive(6);
    ASSERT_EQ(index.find(numbers(6)), expected) << round;
    found += expected;
  }
  EXPECT_GT(found, 1000);
}

TEST(EventIndex, knows_what_was_stored_less_what_was_removed) {
  for (const EventFormat format : event_formats) {
    for (const NameForm form : name_forms) {
      EventIndex index = make_index();
      BatchWriter writer(format, form);
      const PageName a = name_of(0x01020304), b = number(7), c = number(8);
      writer.stored(a, {.tokens = {1, 2}}, "GPU");
      writer.stored(b, {.parent = a, .has_parent = true, .adapter = 5, .tokens = {3, 4}}, "GPU");
      writer.stored(b, {}, "STORAGE");
      writer.stored(c, {.parent = b, .has_parent = true}, "STORAGE");
      feed(index, writer.finish(1, 0)).or_throw();
      const PageName chain[] = {a, b, c};
      const bool is_short = form == NameForm::last_64_bits;
      EXPECT_EQ(index.find(chain), 3);
      EXPECT_EQ(index.find(chain, "GPU"), 2);
      EXPECT_EQ(index.find(chain, "STORAGE"), 0);
      EXPECT_EQ(index.find(std::span(chain).subspan(1), "STORAGE"), 2);
      EXPECT_EQ(index.find(chain, "CPU"), 0);
      EXPECT_EQ(index.find({}), 0);
      const PageName shortened = is_short ? number(0) : a;
      EXPECT_EQ(contents_of(index),
                (Contents{{shortened, {"GPU"}}, {b, {"GPU", "STORAGE"}}, {c, {"STORAGE"}}}));
      index.visit(
          [](void* first, const IndexedName& name) noexcept {
            if (name.name == number(7)) {
              EXPECT_TRUE(name.has_parent);
              EXPECT_EQ(name.parent, *static_cast<PageName*>(first));
            }
          },
          const_cast<PageName*>(&shortened));
      writer.removed(a, "GPU");
      writer.removed(b, "GPU");
      writer.removed(b, "CPU");  // where it is not
      feed(index, writer.finish(1, 0)).or_throw();
      EXPECT_EQ(index.find(chain), 0);
      EXPECT_EQ(index.find(std::span(chain).subspan(1)), 2);
      EXPECT_EQ(index.figures().names, 2);
      writer.cleared();
      feed(index, writer.finish(1, 0)).or_throw();
      EXPECT_EQ(index.find(std::span(chain).subspan(1)), 0);
      EXPECT_EQ(
          index.figures(),
          (EventIndexFigures{
              .batches = 3, .events = 7, .names = 0, .stored_copies = 4, .removed_copies = 4}));
    }
  }
}

TEST(EventIndex, reads_several_blocks_of_an_event_as_a_chain_and_fields_of_others) {
  EventIndex index = make_index();
  // A later vLLM's fields, an older one's that ends early, and SGLang's without a medium.
  feed(index, batch({{{"later", {{"deep", {1, {2, {3}}}}}},
                      {"type", "BlockStored"},
                      {"block_hashes", {1, 2, -1}},
                      {"parent_block_hash", 9},
                      {"token_ids", {1, 2, 3}},
                      {"block_size", 1},
                      {"medium", "CPU"}},
                     {"BlockStored", {5}, nullptr, {1}, 1, nullptr},
                     {"BlockRemoved", {6}}}))
      .or_throw();
  const PageName last = tier::name_of_last_64_bits(~uint64_t{0});
  EXPECT_EQ(
      contents_of(index),
      (Contents{
          {number(1), {"CPU"}}, {number(2), {"CPU"}}, {last, {"CPU"}}, {number(5), {"GPU"}}}));
  index.visit(
      [](void*, const IndexedName& n) noexcept {
        EXPECT_EQ(n.has_parent, n.name != number(5));
        EXPECT_TRUE(n.name != number(1) || n.parent == number(9));
        EXPECT_TRUE(n.name != number(2) || n.parent == number(1));
      },
      nullptr);
  EXPECT_EQ(index.figures().refused_events, 0);
}

}  // namespace
}  // namespace folio::test
