// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/event_index_refusals_test.cpp: what an index does not take: events that cannot
/// be, what is no batch, more than it may hold, and options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/event_index.h"
#include "support/random.h"
#include "tier/events/encoded_batches.h"
#include "tier/events/event_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using tier::BatchWriter;
using tier::IndexedGroup;
using tier::Json;
using Bytes = std::vector<uint8_t>;

TEST(EventIndex, refuses_events_that_cannot_be_and_takes_the_others) {
  EventIndex index = make_index();
  const Json good = {{"type", "BlockStored"},
                     {"block_hashes", Json::array({1})},
                     {"parent_block_hash", nullptr},
                     {"token_ids", Json::array()},
                     {"block_size", 0},
                     {"medium", nullptr}};
  const auto with = [&](const char* field, Json value) {
    Json event = good;
    event[field] = std::move(value);
    return event;
  };
  Json without = good;
  without.erase("token_ids");
  const Json bad[] = {
      without,
      with("block_hashes", 1),
      with("block_hashes", {1.5}),
      with("block_hashes", {"1"}),
      with("block_hashes", Json::array({Json::binary(Bytes(31))})),
      with("block_hashes", Json::array({Json::binary(Bytes(33))})),
      with("block_hashes", Json::array({Json::array()})),
      with("parent_block_hash", Json::binary(Bytes(8))),
      with("parent_block_hash", "x"),
      with("token_ids", nullptr),
      with("block_size", "16"),
      with("block_size", -1),
      with("block_size", int64_t{1} << 31),
      with("block_size", 1.5),
      with("group_idx", -1),
      with("group_idx", EventIndex::max_groups),
      with("group_idx", ~uint64_t{0}),
      with("group_idx", "0"),
      with("kv_cache_spec_kind", 3),
      with("kv_cache_spec_kind", std::string(65, 'k')),
      with("kv_cache_spec_sliding_window", 0),
      with("kv_cache_spec_sliding_window", int64_t{1} << 40),
      with("kv_cache_spec_sliding_window", "64"),
      with("medium", 5),
      with("medium", std::string(65, 'm')),
      with("type", 5),
      {{"block_hashes", Json::array({1})}},
      {{"type", "BlockRemoved"}},
      Json::array({"BlockStored"}),
      Json::array({"BlockRemoved", 3}),
      {{"type", "BlockRemoved"}, {"block_hashes", Json::array({1})}, {"group_idx", -7}},
      Json::array({"BlockRemoved", Json::array({1}), "GPU", EventIndex::max_groups}),
      Json::array(),
      Json::object(),
      nullptr,
      17,
      "BlockStored",
  };
  Json events = bad;
  events.insert(events.begin() + 5, good);
  events.push_back({{"type", "BlockMoved"}, {"block_hashes", "what"}});
  events.push_back(Json::array({"TierBlocksCleared", "CPU"}));
  feed(index, batch(events)).or_throw();
  EXPECT_EQ(index.figures(), (EventIndexFigures{.batches = 1,
                                                .events = 1,
                                                .refused_events = std::ssize(bad),
                                                .ignored_events = 2,
                                                .names = 1,
                                                .stored_copies = 1}));
  EXPECT_EQ(contents_of(index), (Contents{{number(1), {"GPU"}}}));
}

TEST(EventIndex, refuses_what_is_no_batch) {
  EventIndex index = make_index();
  const auto nested = [](uint8_t level, size_t levels) {
    Bytes bytes = {0x93, 0x01};
    bytes.insert(bytes.end(), levels, level);
    return bytes;
  };
  const Bytes bad[] = {
      {},
      {0xc1},
      {0x93},
      {0x93, 0xcb, 0x3f},
      {0x05},
      Json::to_msgpack(Json::object()),
      Json::to_msgpack(Json::array({1})),
      Json::to_msgpack(Json::array({"now", Json::array(), 0})),
      Json::to_msgpack(Json::array({1, Json::object(), 0})),
      {0x93, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff},  // 2^32 - 1 events
      {0x93, 0x01, 0xdf, 0xff, 0xff, 0xff, 0xff},
      {0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0},
      {0xdb, 0xff, 0xff, 0xff, 0xff, 'x'},
      {0xc6, 0xff, 0xff, 0xff, 0xff, 'x'},
      {0xc9, 0xff, 0xff, 0xff, 0xff, 'x'},
      nested(0x91, 1 << 20),
      nested(0x81, 1 << 20),
      nested(0xdc, 1 << 20),
  };
  for (const Bytes& bytes : bad) {
    const Status refused = feed(index, bytes);
    EXPECT_EQ(refused.code(), Errc::invalid_argument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("are no batch of events"));
  }
  Bytes trailing = batch(Json::array());
  EXPECT_TRUE(feed(index, trailing).is_ok());
  trailing.push_back(0);
  EXPECT_FALSE(feed(index, trailing).is_ok());
  Bytes many = {0x92, 0x01, 0xdd, 0x00, 0x80, 0x00, 0x00};  // 2^23 nulls
  many.insert(many.end(), size_t{1} << 23, 0xc0);
  EXPECT_FALSE(feed(index, many).is_ok()) << "one byte would become sixteen";
  EXPECT_EQ(index.figures().malformed_batches, std::ssize(bad) + 2);
  EXPECT_EQ(index.apply({static_cast<const std::byte*>(nullptr), 0}).code(),
            Errc::invalid_argument);
}

TEST(EventIndex, is_bounded) {
  EXPECT_THAT(std::string(EventIndex::create({.max_names = 0}).error().message()),
              HasSubstr("max_names is 0"));
  for (const int32_t media : {0, 33, -1})
    EXPECT_THAT(std::string(EventIndex::create({.max_media = media}).error().message()),
                HasSubstr("max_media is"));
  EventIndex doubled = make_index({.max_names = 2});
  for (int i = 0; i < 3; ++i)
    feed(doubled, batch({stored({1, 2}, nullptr, 0, "full_attention"),
                         stored({1, 2}, nullptr, 1, "full_attention")}))
        .or_throw();
  EXPECT_EQ(doubled.figures().names, 2);
  EXPECT_EQ(doubled.figures().untaken_names, 6) << "names of each group count";
  EventIndex index = make_index({.max_names = 2, .max_media = 1});
  BatchWriter writer(EventFormat::maps, NameForm::bytes);
  writer.stored(number(1), {}, "A");
  writer.stored(number(1), {}, "B");  // a medium too many
  writer.stored(number(2), {}, "A");
  writer.stored(number(3), {}, "A");  // a name too many
  writer.removed(number(1), "A");
  writer.stored(number(4), {}, "A");
  feed(index, writer.finish(1, 0)).or_throw();
  EXPECT_EQ(contents_of(index), (Contents{{number(2), {"A"}}, {number(4), {"A"}}}));
  EXPECT_EQ(index.figures().untaken_names, 2);
  EXPECT_EQ(index.medium(0), "A");
  EXPECT_EQ(index.medium(1), "");
  EXPECT_EQ(index.medium(-1), "");
  index.visit(nullptr, nullptr);
}

TEST(EventIndex, refuses_groups_that_cannot_be) {
  const auto refusal = [](std::vector<IndexedGroup> groups) {
    const Result<EventIndex> made = EventIndex::create({.groups = groups});
    EXPECT_EQ(made.error().code(), Errc::invalid_argument);
    return std::string(made.error().message());
  };
  const IndexedGroup good{.has_rule = true};
  EXPECT_THAT(refusal({{.group = -1, .has_rule = true}}), HasSubstr("groups has group -1"));
  EXPECT_THAT(refusal({{.group = 64, .has_rule = true}}), HasSubstr("expected 0 .. 63"));
  EXPECT_THAT(refusal({{.group = 2}}), HasSubstr("no rule of group 2"));
  EXPECT_THAT(refusal({good, good}), HasSubstr("group 0 twice"));
  EXPECT_THAT(refusal({{.rule = GroupRule::window, .has_rule = true}}),
              HasSubstr("window of group 0 is 0"));
  EXPECT_THAT(refusal({{.rule = GroupRule::chunked, .has_rule = true, .chunk = -4}}),
              HasSubstr("chunk of group 0 is -4"));
  EXPECT_THAT(refusal({{.has_rule = true, .block_size = -1}}),
              HasSubstr("block_size of group 0 is -1"));
  EXPECT_THAT(std::string(EventIndex::create({.block_size = -1}).error().message()),
              HasSubstr("block_size is -1"));
}

/// Good batches with bytes changed, cut out, doubled, and bytes of no meaning.
TEST(EventIndex, survives_whatever_it_is_fed) {
  Rng rng(test_seed());
  EventIndex index = make_index({.max_names = 100});
  for (int round = 0; round < 20'000; ++round) {
    BatchWriter writer(rng.pick(event_formats), rng.pick(name_forms));
    for (int64_t i = rng.between(0, 4); i >= 0; --i) {
      const PageName name = number(static_cast<uint32_t>(rng.between(0, 200)));
      const int64_t what = rng.between(0, 9);
      if (what < 6)
        writer.stored(name, {.parent = name, .has_parent = rng.chance(0.5), .tokens = {1, 2, 300}},
                      rng.chance(0.5) ? "GPU" : "CPU");
      else if (what < 9)
        writer.removed(name, "GPU");
      else
        writer.cleared();
    }
    Bytes bytes = writer.finish(1e9 + 0.1, 0);
    for (int64_t i = rng.between(0, 3); i > 0 && !bytes.empty(); --i) {
      const auto at = [&] { return bytes.begin() + rng.between(0, std::ssize(bytes) - 1); };
      switch (rng.between(0, 3)) {
        case 0: *at() = static_cast<uint8_t>(rng.between(0, 255)); break;
        case 1: bytes.erase(at(), bytes.end()); break;
        case 2: bytes.insert(at(), static_cast<uint8_t>(rng.between(0x80, 0xdf))); break;
        default: bytes.erase(at()); break;
      }
    }
    static_cast<void>(feed(index, bytes));
  }
  const EventIndexFigures figures = index.figures();
  EXPECT_LE(figures.names, 100);
  EXPECT_EQ(figures.batches + figures.malformed_batches, 20'000);
  EXPECT_GT(figures.malformed_batches, 1000);
  EXPECT_GT(figures.refused_events, 100);
  EXPECT_GT(figures.ignored_events, 10);
}

}  // namespace
}  // namespace folio::test
