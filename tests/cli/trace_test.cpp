// SPDX-License-Identifier: Apache-2.0
/// tests/cli/trace_test.cpp: good lines become requests. What is wrong with bad ones is tested by
/// bad_input_test.py, through the tool.
#include "trace.h"

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
