// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watch.h: `folio watch`: what an engine's caches have and find, while it runs.
#pragma once

#include <cstdint>
#include <string>

#include "folio/core/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of the library that reads options
class App;
}

namespace folio::cli {

struct WatchOptions {
  std::string endpoint, replay, topic;  ///< of the event stream; empty: none
  std::string metrics;                  ///< URL of a Prometheus text; empty: none
  int64_t interval_ms = 1000;
  int64_t wait_ms = 5000;  ///< for `once`
  int64_t max_names = int64_t{1} << 20;
  bool once = false, json_lines = false, quiet = false;
  bool has_page = false;
  int64_t page_port = 0;  ///< 0: a free one
  std::string json;       ///< a file; empty: none
};

void add_watch_options(CLI::App& app, WatchOptions& options);

/// Shows until a signal ends it; `once`: until there is something to show. Dies of that signal when
/// all is written and the terminal is as it was. Errors: invalid_argument for options that cannot
/// be; busy for a port that is taken; unsupported for what this build lacks; io where nobody
/// answers `once`, and for files and standard output
Status watch(const WatchOptions& options);

}  // namespace folio::cli
