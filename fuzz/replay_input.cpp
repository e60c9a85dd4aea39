// SPDX-License-Identifier: Apache-2.0
/// fuzz/replay_input.cpp: whatever stands on the command line and in the trace, `folio replay`
/// takes it within its promised bounds or says why not.
///
/// Input: with a line end it is a trace; without one, the words of a command line, separated by
/// single spaces (two spaces: an empty word).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "load/options.h"
#include "load/trace.h"

namespace {

using namespace folio;
using namespace folio::cli;

/// A promise of the parsers; one that does not hold is a finding.
void expect(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

bool is_between(int64_t low, int64_t value, int64_t high) { return low <= value && value <= high; }

/// One line that a terminal and a log can take.
void expect_a_reason(std::string_view message) {
  expect(!message.empty(), "a refusal has a reason");
  expect(message.size() < 1000, "a reason is short");
  expect(std::all_of(message.begin(), message.end(),
                     [](unsigned char c) { return is_between(0x20, c, 0x7e); }),
         "a reason is printable");
}

void check_options(const ReplayOptions& o) {
  const ModelShape& m = o.model.sizes;
  expect(!o.trace.file.empty(), "a trace is named");
  expect(is_between(0, o.trace.limit, int64_t{1} << 40), "limit");
  expect(is_between(0, o.cache.pages, 0x7fffffff), "pages");
  expect(is_between(1, o.model.page_size, 1 << 20), "page_size");
  expect(is_between(1, o.steps.max_batch, 4096), "max_batch");
  expect(is_between(1, o.steps.step_tokens, 1 << 20), "step_tokens");
  expect(is_between(0, o.threads, 4096), "threads");
  expect(o.verify.share >= 0.0 && o.verify.share <= 1.0, "verify_share");
  expect(is_between(1, m.layers, 1024), "layers");
  expect(is_between(1, m.kv_heads, m.q_heads) && m.q_heads <= 1024, "heads");
  expect(m.q_heads % m.kv_heads == 0, "groups of heads");
  expect(is_between(8, m.v_head_size, m.head_size) && m.head_size <= 576, "head sizes");
  expect(m.head_size % 8 == 0 && m.v_head_size % 8 == 0, "head sizes in steps of 8");
  const KVFormat& kv = o.model.kv;
  expect(kv.dtype != DType::invalid, "kv_dtype");
  expect(is_between(0, kv.granule(), 1 << 20), "granularity");
  if (const int32_t block = kv.hadamard.block; block != 0) {
    expect(m.head_size % block == 0 && m.v_head_size % block == 0, "hadamard");
  } else {
    expect(kv.hadamard.sign_seed == 0, "sign_seed");
  }
  expect(o.compute == Compute::none || o.compute == Compute::attention, "compute");
}

void read_options(std::string_view line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  CLI::App app;
  ReplayOptions options;
  add_replay_options(app, options);
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    expect(error.what()[0] != '\0', "a refusal has a reason");
    return;
  }
  const Status resolved = resolve(options);
  if (!resolved.is_ok()) return expect_a_reason(resolved.message());
  check_options(options);
}

void read_lines(std::string_view text) {
  std::istringstream file{std::string(text)};
  const auto trace = read_trace(file, "trace", 0);
  if (!trace) return expect_a_reason(trace.error().message());
  expect(!trace->empty(), "a trace has requests");
  int64_t line = 0;
  for (const TraceRequest& r : *trace) {
    expect(r.line > line, "lines ascend");
    line = r.line;
    expect(is_between(0, r.timestamp_ms, int64_t{1} << 53), "timestamp");
    expect(is_between(1, r.input_length, max_request_tokens), "input_length");
    expect(is_between(0, r.output_length, max_request_tokens - r.input_length), "output_length");
    const int64_t blocks = (int64_t{r.input_length} + r.tokens_per_block - 1) / r.tokens_per_block;
    expect(static_cast<int64_t>(r.hash_ids.size()) == blocks, "one id for each block");
    for (const int32_t id : r.hash_ids) expect(is_between(0, id, max_hash_id), "hash_ids");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.find('\n') == input.npos) {
    read_options(input);
  } else {
    read_lines(input);
  }
  return 0;
}
