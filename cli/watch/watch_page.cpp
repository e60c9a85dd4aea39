// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watch_page.cpp: what does not change of the page; cli/watch/page/watch.js does the
/// rest.
#include "watch/watch_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "parts/machine.h"
#include "parts/page.h"
#include "watch/watched.h"

// The files that are built into the tool: cli/watch/page/.
extern const std::string_view watch_script, watch_css, watch_top;

namespace folio::cli {

std::string watch_page(const WatchOptions& options) {
  using nlohmann::ordered_json;
  ordered_json facts = ordered_json::array();
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) facts.push_back(ordered_json::array({name, text}));
  };
  add("Events", options.endpoint);
  add("Replay", options.replay);
  add("Topic", options.topic);
  add("Metrics", options.metrics.empty() ? "" : shown_url(options.metrics));
  add("Interval", fmt::format("{} ms", options.interval_ms));
  add("Watched since", date_now());
  add("folio", version());
  const std::string& engine =
      options.endpoint.empty() ? shown_url(options.metrics) : options.endpoint;
  return make_page(
      "folio watch " + engine, {{"facts", facts}, {"interval_ms", options.interval_ms}},
      {.script = watch_script, .style = watch_css, .top = watch_top, .asks_its_server = true});
}

}  // namespace folio::cli
