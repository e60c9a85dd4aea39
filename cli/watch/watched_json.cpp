// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watched_json.cpp: what is known of an engine, for scripts and the page's script.
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "watch/watched.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

/// null for what is not known.
template <class T>
ordered_json known(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

std::string_view name_of(Link link) {
  switch (link) {
    case Link::none: return "none";
    case Link::nobody: return "nobody";
    case Link::waiting: return "waiting";
    case Link::catching_up: return "catching up";
    case Link::current: return "current";
    case Link::gone: return "gone";
  }
  return "";
}

std::string_view name_of(const tier::IndexedGroup& group) {
  if (!group.has_rule) return "unknown";
  switch (group.rule) {
    case GroupRule::full: return "full";
    case GroupRule::window: return "window";
    case GroupRule::chunked: return "chunked";
    case GroupRule::state: return "state";
  }
  return "";
}

/// null where it is not told how many tokens a name has.
ordered_json tokens(int64_t names, int32_t block_size) {
  return block_size == 0 ? ordered_json() : ordered_json(names * block_size);
}

ordered_json per_medium(const Watched& watched, const PerMedium& in) {
  ordered_json counts = ordered_json::array();
  for (size_t i = 0; i < watched.census.media.size(); ++i) counts.push_back(in[i]);
  return counts;
}

ordered_json stream_json(const Watched& watched) {
  const WatchedStream& s = watched.stream;
  return {{"endpoint", watched.options.endpoint},
          {"replay", watched.options.replay},
          {"topic", watched.options.topic},
          {"link", name_of(s.link)},
          {"state", state_of(watched)},
          {"next_batch", s.next_batch},
          {"silent_s", known(s.silent_s)},
          {"gone_s", known(s.gone_s)},
          {"batches", s.index.batches},
          {"events", s.index.events},
          {"stored_copies", s.index.stored_copies},
          {"removed_copies", s.index.removed_copies},
          {"stored_a_second", stored_now(watched)},
          {"removed_a_second", removed_now(watched)},
          {"earlier_batches", s.figures.earlier_batches},
          {"lost_batches", s.figures.lost_batches},
          {"gaps", s.figures.gaps},
          {"restarts", s.figures.restarts},
          {"snapshots", s.figures.snapshots},
          {"replayed_batches", s.figures.replayed_batches},
          {"malformed", s.figures.malformed_messages + s.index.malformed_batches},
          {"refused_events", s.index.refused_events},
          {"ignored_events", s.index.ignored_events},
          {"untaken_names", s.index.untaken_names}};
}

ordered_json groups_json(const Watched& watched) {
  ordered_json groups = ordered_json::array();
  for (const GroupCount& count : watched.census.groups) {
    const tier::IndexedGroup& group = count.group;
    ordered_json one = {{"group", group.group},
                        {"rule", name_of(group)},
                        {"block_size", group.block_size},
                        {"names", count.names},
                        {"tokens", tokens(count.names, group.block_size)},
                        {"media", per_medium(watched, count.in)}};
    if (group.rule == GroupRule::window && group.has_rule) one["window"] = group.window;
    groups.push_back(std::move(one));
  }
  return groups;
}

ordered_json segments_json(const Prefixes& prefixes) {
  ordered_json segments = ordered_json::array();
  for (const PrefixSegment& s : prefixes.segments)
    segments.push_back({s.row, s.rows, s.start, s.length, s.media, s.names, s.endings, s.others});
  return segments;
}

ordered_json prefixes_json(const Watched& watched, bool for_page) {
  const Prefixes& p = watched.census.prefixes;
  ordered_json trees = ordered_json::array();
  for (const PrefixTree& tree : p.largest)
    trees.push_back({{"root", short_name(tree.root)},
                     {"names", tree.names},
                     {"tokens", tokens(tree.names, p.block_size)},
                     {"endings", tree.endings},
                     {"longest", tree.longest},
                     {"shared", tree.shared},
                     {"is_cut", tree.is_cut},
                     {"media", per_medium(watched, tree.in)}});
  ordered_json all = {
      {"group", p.group},           {"block_size", p.block_size}, {"trees", p.trees},
      {"cut_trees", p.cut_trees},   {"names", p.names},           {"endings", p.endings},
      {"longest", p.longest},       {"shared", p.shared},         {"unshared", p.unshared},
      {"in_circles", p.in_circles}, {"largest", std::move(trees)}};
  if (for_page) all["segments"] = segments_json(p);
  return all;
}

ordered_json metrics_json(const Watched& watched) {
  const WatchedMetrics& m = watched.metrics;
  if (!m.is_asked) return nullptr;
  ordered_json caches = ordered_json::array(), readings = ordered_json::array();
  for (size_t i = 0; i < m.caches.size(); ++i) {
    const Hits::Cache& cache = m.caches[i];
    caches.push_back({{"name", cache.name},
                      {"unit", cache.unit},
                      {"metric", cache.metric},
                      {"is_used", cache.is_used()},
                      {"hits", cache.hits},
                      {"queries", cache.queries},
                      {"rate_in_all", known(hit_rate_in_all(cache))},
                      {"rate", known(hit_rate_watched(watched, i))},
                      {"rate_now", known(hit_rate_now(watched, i))}});
  }
  for (const Reading& reading : m.readings)
    readings.push_back({{"name", reading.name},
                        {"metric", reading.metric},
                        {"is_share", reading.is_share},
                        {"value", reading.value}});
  return {{"url", shown_url(watched.options.metrics)},
          {"fault", m.fault},
          {"age_s", known(m.age_s)},
          {"caches", std::move(caches)},
          {"readings", std::move(readings)}};
}

ordered_json history_json(const Watched& watched) {
  ordered_json samples = ordered_json::array();
  const size_t caches = watched.metrics.caches.size();
  for (const WatchSample& s : watched.history.samples()) {
    ordered_json hits = ordered_json::array();
    for (size_t i = 0; i < caches; ++i) hits.push_back({s.hits[i], s.queries[i]});
    samples.push_back({s.seconds, s.stored, s.removed, per_medium(watched, s.in), std::move(hits)});
  }
  return samples;
}

}  // namespace

ordered_json json_of(const Watched& watched, bool for_page) {
  ordered_json media = ordered_json::array();
  for (size_t i = 0; i < watched.census.media.size(); ++i)
    media.push_back({{"name", watched.census.media[i]}, {"names", watched.census.in[i]}});
  ordered_json all = {{"seconds", watched.seconds},
                      {"stream", stream_json(watched)},
                      {"warnings", warnings_of(watched)},
                      {"names", watched.census.names()},
                      {"media", std::move(media)},
                      {"groups", groups_json(watched)},
                      {"prefixes", prefixes_json(watched, for_page)},
                      {"metrics", metrics_json(watched)}};
  if (for_page) all["history"] = history_json(watched);
  return all;
}

}  // namespace folio::cli
