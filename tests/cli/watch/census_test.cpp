// SPDX-License-Identifier: Apache-2.0
/// tests/cli/watch/census_test.cpp: prefixes of names, whatever their parents are, and what is said
/// of them.
#include "watch/census.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/random.h"
#include "tier/events/wire.h"
#include "watch/watched.h"

namespace folio::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using tier::EventIndex;
using tier::Json;

PageName name_of(uint64_t number) { return tier::name_of_last_64_bits(number); }

/// An index that is told of names, in one batch.
class Told {
 public:
  static constexpr int tokens = 4;  // of a name
  void store(uint64_t name, uint64_t parent, const std::string& medium = "GPU", int32_t group = 0) {
    Json event = {{"type", "BlockStored"},
                  {"block_hashes", Json::array({name})},
                  {"parent_block_hash", parent == 0 ? Json() : Json(parent)},
                  {"token_ids", std::vector<int>(tokens)},
                  {"block_size", tokens},
                  {"medium", medium},
                  {"group_idx", group}};
    if (group > 0) event["kv_cache_spec_kind"] = "mamba";
    events_.push_back(std::move(event));
  }
  /// Of these numbers, each behind the one before.
  void store_chain(const std::vector<uint64_t>& names) {
    for (size_t i = 0; i < names.size(); ++i) store(names[i], i == 0 ? 0 : names[i - 1]);
  }
  Census census() {
    const std::vector<uint8_t> bytes = Json::to_msgpack(Json::array({1.0, events_, 0}));
    index_.apply(std::as_bytes(std::span(bytes))).or_throw();
    events_ = Json::array();
    return census_of(index_);
  }

 private:
  Json events_ = Json::array();
  EventIndex index_ = std::move(EventIndex::create()).value();
};

TEST(Census, of_nothing_is_empty) {
  const Census census = Told().census();
  EXPECT_EQ(census.names(), 0);
  EXPECT_EQ(census.prefixes.group, -1);
  EXPECT_TRUE(census.prefixes.segments.empty());
}

TEST(Census, counts_names_by_medium_and_group) {
  Told told;
  told.store(1, 0);
  told.store(1, 0, "CPU");
  told.store(2, 1);
  told.store(2, 1, "GPU", 1);
  const Census census = told.census();
  EXPECT_EQ(census.names(), 3);
  EXPECT_EQ(census.media, (std::vector<std::string>{"GPU", "CPU"}));
  EXPECT_EQ(census.in[0], 3);
  EXPECT_EQ(census.in[1], 1);
  ASSERT_EQ(census.groups.size(), 2U);
  EXPECT_EQ(census.groups[0].names, 2);
  EXPECT_EQ(census.groups[0].in[0], 2);
  EXPECT_EQ(census.groups[1].names, 1);
  EXPECT_EQ(census.prefixes.group, 0);
  EXPECT_EQ(census.prefixes.names, 2) << "of the leading group alone";
  EXPECT_EQ(census.prefixes.block_size, Told::tokens);
}

TEST(Census, finds_what_prompts_share) {
  Told told;  // 1 2 3 | 4 5, 4 6 and 7 behind 3; 10 11 alone; 20 behind one that has gone
  told.store_chain({1, 2, 3, 4, 5});
  told.store(6, 4);
  told.store(7, 3);
  told.store_chain({10, 11});
  told.store(20, 19);
  const Prefixes p = told.census().prefixes;
  EXPECT_EQ(p.trees, 3);
  EXPECT_EQ(p.cut_trees, 1);
  EXPECT_EQ(p.names, 10);
  EXPECT_EQ(p.endings, 5);
  EXPECT_EQ(p.longest, 5);
  EXPECT_EQ(p.shared, 4) << "1 2 3 4";
  EXPECT_EQ(p.unshared, 5 + 5 + 4 + 2 + 1);
  ASSERT_EQ(p.largest.size(), 3U);
  EXPECT_EQ(p.largest[0].root, name_of(1));
  EXPECT_EQ(p.largest[0].names, 7);
  EXPECT_EQ(p.largest[0].endings, 3);
  EXPECT_EQ(p.largest[0].longest, 5);
  EXPECT_EQ(p.largest[0].shared, 3);
  EXPECT_EQ(p.largest[0].in[0], 7);
  EXPECT_FALSE(p.largest[0].is_cut);
  EXPECT_EQ(p.largest[1].shared, 2) << "one ending: all of it";
  EXPECT_TRUE(p.largest[2].is_cut);
}

TEST(Census, bears_circles_and_names_that_are_their_own_parents) {
  Told told;
  told.store(1, 2);
  told.store(2, 1);
  told.store(3, 3);
  told.store(4, 2);  // hangs on the circle
  told.store(5, 0);
  const Prefixes p = told.census().prefixes;
  EXPECT_EQ(p.in_circles, 4);
  EXPECT_EQ(p.trees, 1);
  EXPECT_EQ(p.names, 1);
}

TEST(Census, bears_a_chain_of_any_length) {
  Told told;
  std::vector<uint64_t> names(20'000);
  for (size_t i = 0; i < names.size(); ++i) names[i] = (i + 1) * 7919 % 1'000'003;
  told.store_chain(names);
  const Prefixes p = told.census().prefixes;
  EXPECT_EQ(p.longest, 20'000);
  ASSERT_EQ(p.segments.size(), 1U);
  EXPECT_EQ(p.segments[0].length, 20'000);
  EXPECT_EQ(p.segments[0].rows, 1);
}

TEST(Census, parts_a_prefix_where_its_media_change) {
  Told told;
  told.store_chain({1, 2, 3});
  told.store(1, 0, "CPU");
  told.store(2, 1, "CPU");
  const Prefixes p = told.census().prefixes;
  ASSERT_EQ(p.segments.size(), 2U);
  EXPECT_EQ(p.segments[0].length, 2);
  EXPECT_EQ(p.segments[0].media, 3U);
  EXPECT_EQ(p.segments[1].start, 2);
  EXPECT_EQ(p.segments[1].media, 1U);
}

/// Random forests: no segment overlaps another, none leaves the picture, each begins where
/// something ends, and what trees say adds up.
TEST(Census, draws_what_fits_into_the_picture) {
  test::Rng rng{test::test_seed()};
  for (int round = 0; round < 40; ++round) {
    Told told;
    const auto count = static_cast<uint64_t>(rng.between(1, 400));
    const int64_t branching = rng.between(1, 100);
    for (uint64_t name = 1; name <= count; ++name) {
      const bool goes_on = rng.between(0, 99) >= branching;
      const uint64_t parent =
          goes_on ? name - 1
                  : static_cast<uint64_t>(rng.between(0, static_cast<int64_t>(name) - 1));
      told.store(name, parent, rng.between(0, 9) == 0 ? "CPU" : "GPU");
    }
    const Prefixes p = told.census().prefixes;
    EXPECT_EQ(p.names, static_cast<int64_t>(count));
    EXPECT_LE(p.segments.size(), most_segments);
    std::set<std::pair<int32_t, int64_t>> ends;  // of segments, by row
    std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>> taken;
    for (const PrefixSegment& s : p.segments) {
      EXPECT_GE(s.row, 0);
      EXPECT_GE(s.rows, 1);
      EXPECT_LE(s.row + s.rows, most_rows);
      EXPECT_GE(s.length, 1);
      EXPECT_LE(s.start + s.length, p.longest);
      EXPECT_TRUE(s.start == 0 || ends.contains({s.row, s.start})) << s.row << ' ' << s.start;
      for (int32_t row = s.row; row < s.row + s.rows; ++row) {
        for (const auto& [begin, end] : taken[row])
          EXPECT_TRUE(s.start >= end || s.start + s.length <= begin) << round;
        taken[row].emplace_back(s.start, s.start + s.length);
        ends.emplace(row, s.start + s.length);
      }
    }
    if (p.endings <= most_rows && p.segments.size() < most_segments) {
      int64_t drawn = 0;
      for (const PrefixSegment& s : p.segments) {
        drawn += s.length;
        EXPECT_EQ(s.others, 0);
      }
      EXPECT_EQ(drawn, p.names) << "all of it has room";
    }
  }
}

// ---- What is said

TEST(Watched, urls_are_shown_without_what_logs_in) {
  EXPECT_EQ(shown_url("http://user:word@host:8000/metrics"), "http://host:8000/metrics");
  EXPECT_EQ(shown_url("http://a@b@host/x@y"), "http://host/x@y");
  EXPECT_EQ(shown_url("https://host/metrics?at=1@2"), "https://host/metrics?at=1@2");
  EXPECT_EQ(shown_url("http://[::1]:80"), "http://[::1]:80");
}

TEST(Watched, foreign_text_reaches_no_terminal_raw) {
  Told told;
  told.store(1, 0, "\x1b[2J\x07\xc2\x9b\n\xff");
  WatchOptions options;
  options.endpoint = "tcp://\x1b]0;owned\x07";
  Watched watched(options);
  watched.stream.link = Link::current;
  watched.census = told.census();
  watched.metrics.fault = "line 1 is '\x1b[31m'";
  watched.add({.seconds = 1, .stored = 1});
  for (const std::string& text : {screen_of(watched, 120, true), line_of(watched)}) {
    EXPECT_THAT(text, HasSubstr("?[2J"));
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<uint8_t>(c) >= 0x20) << text;
    EXPECT_THAT(text, Not(HasSubstr("\xff")));
    EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b")));
  }
}

TEST(Watched, a_screen_is_as_wide_as_the_terminal) {
  Told told;
  for (uint64_t i = 1; i < 30; ++i) told.store(i, i / 2, "a medium with a long name");
  WatchOptions options;
  options.endpoint = "tcp://127.0.0.1:5557";
  Watched watched(options);
  watched.stream.link = Link::current;
  watched.stream.figures.lost_batches = 1234;
  watched.census = told.census();
  for (int i = 0; i < 100; ++i) watched.add({.seconds = 1, .stored = i, .removed = 1});
  for (const int columns : {20, 40, 80, 200}) {
    const std::string screen = screen_of(watched, columns, true);
    size_t width = 0;
    for (const char c : screen) {
      if (c == '\n') width = 0;
      width += c != '\n' && (static_cast<uint8_t>(c) & 0xc0) != 0x80 ? 1 : 0;
      EXPECT_LE(width, static_cast<size_t>(columns));
    }
  }
  const std::string ascii = screen_of(watched, 80, false);
  EXPECT_TRUE(std::all_of(ascii.begin(), ascii.end(), [](char c) { return c > 0; })) << ascii;
  EXPECT_THAT(screen_of(watched, 80, true), HasSubstr("1,234 batches were lost"));
}

TEST(Watched, counters_without_a_ratio_have_no_rate) {
  WatchOptions options;
  Watched watched(options);
  watched.stream.link = Link::current;
  watched.stream.next_batch = uint64_t{1} << 63;
  watched.stream.silent_s = 1;
  Hits::Cache& cache = watched.metrics.caches.emplace_back();
  cache.name = "cache";
  cache.hits = cache.queries = 1;
  constexpr double none = std::numeric_limits<double>::quiet_NaN(),
                   most = std::numeric_limits<double>::max();
  const std::pair<double, double> pairs[] = {{none, none}, {none, 1}, {most, 0.1}, {1, none}};
  for (const auto& [hits, queries] : pairs) {
    WatchSample sample;
    sample.seconds = 1;
    sample.hits[0] = hits;
    sample.queries[0] = queries;
    watched.add(sample);
    EXPECT_EQ(hit_rate_in(sample, 0), std::nullopt) << hits << ' ' << queries;
    EXPECT_THAT(screen_of(watched, 120, true), HasSubstr("none asked now"));
  }
  EXPECT_THAT(screen_of(watched, 120, true), HasSubstr("number 9,223,372,036,854,775,807"));
}

TEST(Watched, json_is_whole_whatever_names_are) {
  Told told;
  told.store(1, 0, "\xff\xfe</script>");
  WatchOptions options;
  Watched watched(options);
  watched.census = told.census();
  const auto json = json_of(watched, true);
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const auto read = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(read["media"][0]["name"], "\xef\xbf\xbd\xef\xbf\xbd</script>");
  EXPECT_EQ(read["names"], 1);
  EXPECT_TRUE(read["metrics"].is_null());
  EXPECT_FALSE(json_of(watched, false).contains("history"));
}

}  // namespace
}  // namespace folio::cli
