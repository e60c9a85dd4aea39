// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watched.h: all that is known of an engine now, for people, pages and scripts.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "folio/tier/event_subscriber.h"
#include "watch/history.h"
#include "watch/watch.h"

namespace folio::cli {

/// Of the event stream.
enum class Link : uint8_t {
  none,         ///< not asked for
  nobody,       ///< nobody has answered yet
  waiting,      ///< somebody is there, and has told nothing yet
  catching_up,  ///< what was missed is being asked for
  current,
  gone,  ///< whoever was there is not
};

struct WatchedStream {
  Link link = Link::none;
  uint64_t next_batch = 0;
  std::optional<double> silent_s;  ///< since the last batch; none: there was none
  std::optional<double> gone_s;    ///< since the connection ended
  tier::EventSubscriberFigures figures;
  tier::EventIndexFigures index;
};

struct WatchedMetrics {
  bool is_asked = false;
  std::string fault;            ///< why the last look failed; empty: it did not
  std::optional<double> age_s;  ///< of the last look that did not fail
  std::vector<Hits::Cache> caches;
  std::vector<Reading> readings;
  int64_t samples = 0;
};

constexpr size_t most_recent = 40;

struct Watched {
  explicit Watched(const WatchOptions& given) : options(given), history(most_watch_samples) {}
  const WatchOptions& options;
  double seconds = 0;  ///< since it began
  WatchedStream stream;
  Census census;
  WatchedMetrics metrics;
  WatchHistory history;             ///< of all the time
  std::vector<WatchSample> recent;  ///< the last ones, at most most_recent
  void add(const WatchSample& sample) {
    history.add(sample);
    recent.push_back(sample);
    if (recent.size() > most_recent) recent.erase(recent.begin());
  }
};

/// Without the user and password of a URL, for others' eyes.
std::string shown_url(const std::string& url);
/// "current", "gone for 12 s, trying again", ...: what `watched.stream` is.
std::string state_of(const Watched& watched);
/// What makes the figures less than the truth, a sentence each; metrics that cannot be had, too.
std::vector<std::string> warnings_of(const Watched& watched);
/// What a cache found of what was looked for, in the last three samples; none: nothing was. Three,
/// as a sample may have no look at the metrics, or two.
std::optional<double> hit_rate_now(const Watched& watched, size_t cache);
/// ... in one sample.
std::optional<double> hit_rate_in(const WatchSample& sample, size_t cache);
/// ... since the watch began.
std::optional<double> hit_rate_watched(const Watched& watched, size_t cache);
/// ... since the engine began.
std::optional<double> hit_rate_in_all(const Hits::Cache& cache);
/// Copies a second in the last sample, or 0.
double stored_now(const Watched& watched);
double removed_now(const Watched& watched);
/// The last 16 digits of a name in hexadecimal: what engines' logs show.
std::string short_name(const PageName& name);
/// A medium in words for people: printable, at most 24 characters.
std::string shown_medium(const std::string& medium);

/// A screen of so many columns; lines end in a newline.
std::string screen_of(const Watched& watched, int columns, bool is_utf8);
/// One line, for what is no terminal.
std::string line_of(const Watched& watched);
/// For scripts; `for_page`: with what pictures need, too.
nlohmann::ordered_json json_of(const Watched& watched, bool for_page);

}  // namespace folio::cli
