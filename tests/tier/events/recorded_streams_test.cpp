// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/recorded_streams_test.cpp: what engines told of their caches, against what
/// they found in them. The streams are those of record_streams.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "folio/tier/event_index.h"
#include "tier/events/wire.h"

namespace folio::test {
namespace {

using tier::IndexedGroup;
using tier::Json;

/// A line of a recording: {"batch"}, {"find", "tokens"}, or the first one.
class Recording {
 public:
  explicit Recording(const std::string& name)
      : file_(std::filesystem::path(FOLIO_STREAMS) / ("streams_" + name + ".jsonl")) {
    std::string line;
    EXPECT_TRUE(std::getline(file_, line)) << name;
    head = Json::parse(line);
  }
  [[nodiscard]] bool next(Json& line) {
    std::string text;
    if (!std::getline(file_, text)) return false;
    line = Json::parse(text);
    return true;
  }
  Json head;

 private:
  std::ifstream file_;
};

/// As on the wire: of token ids a recording has the number.
std::vector<uint8_t> batch_of(const Json& line) {
  Json events = line["batch"];
  for (Json& event : events)
    if (event.contains("token_ids"))
      event["token_ids"] = std::vector<int32_t>(event["token_ids"].get<size_t>());
  return Json::to_msgpack(Json::array({1.5, events, 0}));
}

std::vector<PageName> names_of(const Json& line) {
  std::vector<PageName> names;
  for (const Json& name : line["find"])
    names.push_back(tier::name_of_last_64_bits(name.is_number_unsigned()
                                                   ? name.get<uint64_t>()
                                                   : static_cast<uint64_t>(name.get<int64_t>())));
  return names;
}

struct Asked {
  int asks = 0, hits = 0;    ///< in all; where something was found
  int wrong = 0;             ///< other than the engine
  int below = 0, above = 0;  ///< of these
};

Asked follow(const std::string& name, EventIndexOptions options, EventIndexFigures* figures) {
  Recording recording(name);
  const auto block = recording.head["block_size"].get<int32_t>();
  EventIndex index = std::move(EventIndex::create(options)).value();
  Asked asked;
  for (Json line; recording.next(line);) {
    if (line.contains("batch")) {
      const std::vector<uint8_t> batch = batch_of(line);
      index.apply(std::as_bytes(std::span(batch))).or_throw();
      continue;
    }
    const int32_t engine = line["tokens"].get<int32_t>() / block;
    const int32_t found = index.find(names_of(line));
    ++asked.asks;
    asked.hits += engine > 0 ? 1 : 0;
    asked.below += found < engine ? 1 : 0;
    asked.above += found > engine ? 1 : 0;
  }
  asked.wrong = asked.below + asked.above;
  if (figures != nullptr) *figures = index.figures();
  return asked;
}

class RecordedStream : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordedStream, finds_what_the_engine_found) {
  const IndexedGroup chunks[] = {
      {.group = 1, .rule = GroupRule::chunked, .has_rule = true, .chunk = 64}};
  EventIndexOptions options;
  if (GetParam() == "vllm_llama4") options.groups = chunks;
  if (GetParam() == "vllm_sizes") options.block_size = 16;
  EventIndexFigures figures;
  const Asked asked = follow(GetParam(), options, &figures);
  EXPECT_GT(asked.asks, 10);
  EXPECT_GT(asked.hits, 5);
  EXPECT_EQ(asked.wrong, 0) << asked.below << " below and " << asked.above << " above, of "
                            << asked.asks;
  EXPECT_EQ(figures.refused_events + figures.ignored_events + figures.malformed_batches, 0);
  EXPECT_EQ(figures.unknown_kinds + figures.untaken_names, 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, RecordedStream,
                         ::testing::Values("vllm_plain", "vllm_gemma2", "vllm_window",
                                           "vllm_gemma3", "vllm_llama4", "vllm_mamba", "vllm_sizes",
                                           "vllm_full_of_windows", "sglang"),
                         [](const auto& info) { return info.param; });

TEST(RecordedStreams, without_the_chunk_that_no_event_tells_are_an_upper_bound) {
  const Asked asked = follow("vllm_llama4", {}, nullptr);
  EXPECT_EQ(asked.below, 0);
  EXPECT_GT(asked.above, 0);
}

TEST(RecordedStreams, of_windows_leave_blocks_out) {
  EventIndexFigures figures;
  follow("vllm_gemma2", {}, &figures);
  EXPECT_GT(figures.sparse_events, 0);
}

TEST(RecordedStreams, that_are_not_counted_by_copies_are_forgotten_too_early) {
  const Asked asked = follow("vllm_plain", {.counts_copies = false}, nullptr);
  EXPECT_GT(asked.below, 0);
  EXPECT_EQ(asked.above, 0);
}

}  // namespace
}  // namespace folio::test
