// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watch_options.cpp: the command line of `folio watch`.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "parts/text.h"
#include "parts/values.h"
#include "watch/watch.h"

namespace folio::cli {
namespace {

/// A URL that can be asked for metrics.
CLI::Validator metrics_url() {
  const auto check = [](std::string& word) {
    const bool has_scheme = word.starts_with("http://") || word.starts_with("https://");
    const bool is_plain =
        std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c < 0x7f; });
    if (has_scheme && is_plain && word.size() <= 2000) return std::string();
    return "got '" + printable(word, 40) + "', expected http://HOST:PORT/metrics, or https://";
  };
  return {check, "URL"};
}

}  // namespace

void add_watch_options(CLI::App& app, WatchOptions& options) {
  app.add_option("endpoint", options.endpoint,
                 "Where the engine publishes events: tcp://HOST:PORT or ipc://PATH")
      ->transform(word("the engine's endpoint"));
  app.add_option("--replay", options.replay,
                 "Its replay endpoint: what was told before, and what was missed")
      ->transform(word("the engine's replay endpoint"));
  app.add_option("--topic", options.topic, "Only what has a topic that begins so");
  app.add_option("--metrics", options.metrics, "Its Prometheus metrics: hits over time")
      ->transform(metrics_url());
  constexpr int64_t hour_ms = 3'600'000;
  app.add_option("--interval-ms", options.interval_ms, "Between two looks")
      ->transform(integer_from(100, hour_ms))
      ->capture_default_str();
  app.add_option("--page", options.page_port,
                 "Serve a page that updates itself on 127.0.0.1, at this port or a free one")
      ->expected(0, 1)
      ->default_str("0")
      ->transform(integer_from(0, 65535))
      ->each([&options](const std::string&) { options.has_page = true; });
  app.add_flag("--once", options.once, "Show once, when what the engine has is known, and end")
      ->disable_flag_override();
  app.add_option("--wait-ms", options.wait_ms, "How long --once waits for it")
      ->transform(integer_from(0, hour_ms))
      ->capture_default_str();
  app.add_flag("--json-lines", options.json_lines,
               "A JSON object in a line each time, instead of text")
      ->disable_flag_override();
  app.add_option("--json", options.json, "Write the last figures to this file at the end")
      ->transform(word("the name of a file"));
  app.add_flag("--quiet", options.quiet, "Show nothing on standard output")
      ->disable_flag_override();
  app.add_option("--max-names", options.max_names, "Names that are followed at most")
      ->transform(integer_from(1, int64_t{1} << 26))
      ->capture_default_str();
}

}  // namespace folio::cli
