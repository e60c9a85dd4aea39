// SPDX-License-Identifier: Apache-2.0
/// tests/cli/load/trace_test.cpp: good lines become requests. What is wrong with bad ones is tested
/// by bad_input_test.py, through the tool.
#include "load/trace.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace folio::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string path_of(const std::string& name) {
  static const test::TemporaryFolder folder;
  return folder.path(name);
}

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = path_of(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

constexpr const char* three_requests =
    R"({"timestamp": 0, "input_length": 600, "output_length": 52, "hash_ids": [4, 6]})"
    "\n\n"
    R"({"hash_ids": [4], "model": "m", "output_length": 0, "input_length": 512, )"
    R"("timestamp": 27000})"
    "\n"
    R"({"timestamp": 30000, "input_length": 1, "output_length": 7, "hash_ids": [2147483646]})";

TEST(Trace, lines_become_requests_in_order) {
  const auto trace = read_trace(write_file("three", three_requests), 0);
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->size(), 3u);
  const TraceRequest& first = trace->front();
  EXPECT_EQ(first.line, 1);
  EXPECT_EQ(first.input_length, 600);
  EXPECT_EQ(first.output_length, 52);
  EXPECT_THAT(first.hash_ids, ElementsAre(4, 6));
  EXPECT_EQ((*trace)[1].line, 3) << "the blank line counts";
  EXPECT_EQ((*trace)[1].timestamp_ms, 27000);
  EXPECT_THAT(trace->back().hash_ids, ElementsAre(max_hash_id));
}

TEST(Trace, lines_with_block_size_are_taken_as_kvcache_simulator_has_them) {
  // The least that it takes, an engine's log as its converter writes it, and all other fields.
  const auto trace = read_trace(
      write_file("blocks",
                 R"({"block_size":64,"hash_ids":[2001,2002],"input_length":128})"
                 "\n"
                 R"({"id": "r1", "timestamp": 1780000000.25, "block_size": 64, "hash_ids": )"
                 R"([2001, 17293822569102704642, -3], "input_length": 130, "output_length": 9})"
                 "\n"
                 R"({"hash_ids": ["2001", "x"], "input_length": 65, "timestamp": null, )"
                 R"("block_size": null, "block_tokens": [64, 1], "output_length": null})"),
      0);
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->size(), 3u);
  for (const TraceRequest& request : *trace) EXPECT_EQ(request.tokens_per_block, 64);
  EXPECT_THAT((*trace)[0].hash_ids, ElementsAre(0, 1));
  EXPECT_THAT((*trace)[1].hash_ids, ElementsAre(0, 2, 3));
  EXPECT_THAT((*trace)[2].hash_ids, ElementsAre(0, 4)) << "5 and \"5\" are one id";
  EXPECT_EQ((*trace)[0].timestamp_ms, 0);
  EXPECT_EQ((*trace)[1].timestamp_ms, 1780000000);
  EXPECT_EQ((*trace)[2].timestamp_ms, 1780000000) << "that of the line before";
  EXPECT_EQ((*trace)[0].output_length, 0);
  EXPECT_EQ((*trace)[1].output_length, 9);
}

TEST(Trace, lines_without_block_size_have_blocks_of_512) {
  const auto trace = read_trace(write_file("without", three_requests), 0);
  ASSERT_TRUE(trace) << trace.error().message();
  for (const TraceRequest& request : *trace)
    EXPECT_EQ(request.tokens_per_block, mooncake_tokens_per_block);
}

TEST(Trace, limit_takes_the_first_requests) {
  const auto trace = read_trace(write_file("limit", three_requests), 2);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->size(), 2u);
}

TEST(Trace, error_names_file_line_and_reason) {
  const std::string path = write_file("bad", "{\"timestamp\": 0}\n");
  const auto trace = read_trace(path, 0);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code(), Errc::invalid_argument);
  EXPECT_THAT(std::string(trace.error().message()), HasSubstr(path + ":1: "));
}

TEST(Trace, absent_file_is_an_io_error) {
  const auto trace = read_trace(path_of("absent"), 0);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code(), Errc::io);
}

}  // namespace
}  // namespace folio::cli
