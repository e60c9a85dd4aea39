// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watched.cpp: what is said of an engine, in words.
#include "watch/watched.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <tuple>

#include "parts/text.h"

namespace folio::cli {

std::string shown_url(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const size_t end = std::min(url.find_first_of("/?#", host), url.size());
  const size_t at = url.rfind('@', end);
  return at == url.npos || at < host ? url : url.substr(0, host) + url.substr(at + 1);
}

std::string state_of(const Watched& watched) {
  const WatchedStream& stream = watched.stream;
  switch (stream.link) {
    case Link::none: return "no event stream";
    case Link::nobody: return "nobody answers, trying again";
    case Link::waiting: return "connected, nothing told yet";
    case Link::catching_up: return "catching up";
    case Link::current: return "current";
    case Link::gone:
      return fmt::format("gone for {}, trying again", elapsed(stream.gone_s.value_or(0)));
  }
  return {};
}

std::vector<std::string> warnings_of(const Watched& watched) {
  const auto& [stream, options] = std::tie(watched.stream, watched.options);
  std::vector<std::string> all;
  const auto warn = [&](int64_t count, std::string_view text) {
    if (count > 0) all.push_back(fmt::format(fmt::runtime(text), grouped(count)));
  };
  warn(stream.figures.earlier_batches,
       options.replay.empty()
           ? "{} batches came before the first one seen: what they stored is not shown (--replay "
             "asks for it)"
           : "{} batches came before the first one that the engine still has: what they stored is "
             "not shown");
  if (stream.link == Link::nobody && stream.silent_s)
    all.emplace_back("what is shown came by --replay: nobody publishes at the endpoint");
  warn(stream.figures.lost_batches, "{} batches were lost: names may be missing, or be gone");
  warn(stream.figures.restarts, "the engine began anew, {} times so far");
  warn(stream.figures.malformed_messages, "{} messages were no batches");
  warn(stream.index.malformed_batches, "{} batches could not be read");
  warn(stream.index.refused_events, "{} events could not be read");
  warn(stream.index.untaken_names, "{} names were not taken: more than --max-names, or media");
  warn(watched.census.prefixes.in_circles, "{} names are their own ancestors: not among prefixes");
  if (!watched.metrics.fault.empty())
    all.push_back(fmt::format("--metrics: {}", watched.metrics.fault));
  else if (watched.metrics.age_s && watched.metrics.caches.empty() &&
           watched.metrics.readings.empty())
    all.push_back(fmt::format("--metrics: none of {} samples is of a known cache",
                              grouped(watched.metrics.samples)));
  return all;
}

namespace {

/// None of counters that add up to no number, too.
std::optional<double> share(double part, double whole) {
  if (!(whole > 0)) return {};
  const double share = part / whole;
  return std::isfinite(share) ? std::optional(share) : std::nullopt;
}

template <class Iterator>
std::optional<double> rate_in(Iterator first, Iterator last, size_t cache) {
  double hits = 0, queries = 0;
  for (; first != last; ++first) {
    hits += first->hits[cache];
    queries += first->queries[cache];
  }
  return share(hits, queries);
}

}  // namespace

std::optional<double> hit_rate_now(const Watched& watched, size_t cache) {
  constexpr ptrdiff_t samples = 3;
  const auto& all = watched.recent;
  return rate_in(all.end() - std::min(samples, std::ssize(all)), all.end(), cache);
}

std::optional<double> hit_rate_in(const WatchSample& sample, size_t cache) {
  return rate_in(&sample, &sample + 1, cache);
}

std::optional<double> hit_rate_watched(const Watched& watched, size_t cache) {
  const auto& all = watched.history.samples();
  return rate_in(all.begin(), all.end(), cache);
}

std::optional<double> hit_rate_in_all(const Hits::Cache& cache) {
  return share(cache.hits, cache.queries);
}

double stored_now(const Watched& watched) {
  if (watched.recent.empty()) return 0;
  const WatchSample& last = watched.recent.back();
  return share(static_cast<double>(last.stored), last.seconds).value_or(0);
}

double removed_now(const Watched& watched) {
  if (watched.recent.empty()) return 0;
  const WatchSample& last = watched.recent.back();
  return share(static_cast<double>(last.removed), last.seconds).value_or(0);
}

std::string short_name(const PageName& name) {
  std::string text;
  for (size_t i = name.bytes.size() - 8; i < name.bytes.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{:02x}", name.bytes[i]);
  return text;
}

std::string shown_medium(const std::string& medium) {
  constexpr size_t most = 24;
  return medium.empty() ? "(none)" : printable(medium, most);
}

}  // namespace folio::cli
