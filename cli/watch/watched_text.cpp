// SPDX-License-Identifier: Apache-2.0
/// cli/watch/watched_text.cpp: what is known of an engine as a screen, and as a line.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "parts/machine.h"
#include "parts/numbers.h"
#include "parts/text.h"
#include "watch/watched.h"

namespace folio::cli {
namespace {

constexpr size_t label_width = 10;

class Screen {
 public:
  Screen(int columns, bool is_utf8) : columns_(static_cast<size_t>(columns)), is_utf8_(is_utf8) {}

  /// A label, or an empty one, and what is said of it; cut at the screen's side.
  void line(std::string_view label, std::string_view text) {
    std::string whole = fmt::format("{:<{}}{}", label, label_width, text);
    size_t end = 0;
    for (size_t shown = 0; end < whole.size() && shown < columns_; ++shown)
      end += width_from(whole, end);
    whole.resize(std::min(end, whole.size()));
    lines_ += whole + "\n";
  }
  /// As many lines as it takes.
  void paragraph(std::string_view label, std::string_view text) {
    const size_t most = std::max(columns_, label_width + 20) - label_width;
    do {
      size_t end = std::min(most, text.size());
      if (end < text.size())
        if (const size_t space = text.rfind(' ', end); space != text.npos && space > 0) end = space;
      line(std::exchange(label, ""), text.substr(0, end));
      text.remove_prefix(std::min(text.size(), end + 1));
    } while (!text.empty());
  }

  /// value(sample) of the last samples, a character each; "" where all are 0 or none.
  [[nodiscard]] std::string sparkline(
      const Watched& watched, const std::function<std::optional<double>(const WatchSample&)>& value,
      double most) const {
    static constexpr std::string_view utf8[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
                                      ascii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    std::string text;
    for (const WatchSample& sample : watched.recent) {
      const std::optional<double> v = value(sample);
      const auto step = static_cast<size_t>(std::clamp(8 * ratio(v.value_or(0), most), 0.0, 7.0));
      text += v ? (is_utf8_ ? utf8 : ascii)[step] : " ";
    }
    return text;
  }
  [[nodiscard]] std::string bar(double share, size_t most) const {
    std::string text;
    for (auto i = static_cast<size_t>(std::ceil(share * static_cast<double>(most))); i > 0; --i)
      text += is_utf8_ ? "█" : "#";
    return text;
  }

  std::string take() { return std::move(lines_); }

 private:
  static size_t width_from(std::string_view text, size_t at) {
    size_t bytes = 1;
    while (at + bytes < text.size() && (static_cast<uint8_t>(text[at + bytes]) & 0xc0) == 0x80)
      ++bytes;
    return bytes;
  }
  size_t columns_;
  bool is_utf8_;
  std::string lines_;
};

std::string percent_of(std::optional<double> rate) {
  return rate ? fmt::format("{:.1f} %", 100 * *rate) : "none asked";
}

/// " of 16 tokens", where that is told.
std::string tokens_of(int64_t names, int32_t block_size) {
  return block_size == 0 ? "" : fmt::format(" ({} tokens)", grouped(names * block_size));
}

/// "GPU 1,204, CPU 80": where something is.
std::string media_of(const Watched& watched, const PerMedium& in) {
  std::string text;
  for (size_t i = 0; i < watched.census.media.size(); ++i)
    if (in[i] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          shown_medium(watched.census.media[i]), grouped(in[i]));
  return text;
}

double rate_of(const WatchSample& sample, int64_t count) {
  return ratio(static_cast<double>(count), sample.seconds);
}

void add_stream(const Watched& watched, Screen& screen) {
  const WatchedStream& s = watched.stream;
  if (s.link == Link::none) return;
  std::string text = state_of(watched);
  if (s.silent_s)
    text += fmt::format("; last batch {} ago, number {}", elapsed(*s.silent_s),
                        grouped(static_cast<int64_t>(s.next_batch - 1)));
  screen.line("events", text);
}

void add_names(const Watched& watched, Screen& screen) {
  const Census& census = watched.census;
  if (watched.stream.link == Link::none) return;
  screen.line("names", fmt::format("{}", grouped(census.names())));
  const int64_t most = *std::max_element(census.in.begin(), census.in.end());
  for (size_t i = 0; i < census.media.size(); ++i)
    screen.line("", fmt::format("{:<24} {:>12}  {}", shown_medium(census.media[i]),
                                grouped(census.in[i]), screen.bar(ratio(census.in[i], most), 24)));
  for (const GroupCount& count : census.groups) {
    const tier::IndexedGroup& group = count.group;
    std::string_view rule = "rule not told";
    if (group.has_rule)
      rule = group.rule == GroupRule::full     ? "full"
             : group.rule == GroupRule::window ? "window"
             : group.rule == GroupRule::state  ? "state"
                                               : "chunked";
    screen.line("", fmt::format("group {:<3} {:<14} {:>12}{}", group.group, rule,
                                grouped(count.names), tokens_of(count.names, group.block_size)));
  }
}

void add_changes(const Watched& watched, Screen& screen) {
  if (watched.stream.link == Link::none || watched.recent.size() < 2) return;
  const auto add = [&](const char* label, int64_t WatchSample::*count, double now) {
    double most = 0;
    for (const WatchSample& s : watched.recent) most = std::max(most, rate_of(s, s.*count));
    const auto rate = [&](const WatchSample& s) { return std::optional(rate_of(s, s.*count)); };
    screen.line(label, fmt::format("{:>8.1f}/s  {}  most {:.1f}/s", now,
                                   screen.sparkline(watched, rate, most), most));
  };
  add("stored", &WatchSample::stored, stored_now(watched));
  add("removed", &WatchSample::removed, removed_now(watched));
}

void add_hits(const Watched& watched, Screen& screen) {
  const WatchedMetrics& m = watched.metrics;
  std::string_view label = "hits";
  for (size_t i = 0; i < m.caches.size(); ++i) {
    const Hits::Cache& cache = m.caches[i];
    if (!cache.is_used()) continue;
    const auto rate = [i](const WatchSample& s) { return hit_rate_in(s, i); };
    const std::string text =
        fmt::format("{:<24} {:>10} now, {:>10} watched, {:>7} in all  ", printable(cache.name, 21),
                    percent_of(hit_rate_now(watched, i)), percent_of(hit_rate_watched(watched, i)),
                    percent_of(hit_rate_in_all(cache)));
    screen.line(std::exchange(label, ""), text + screen.sparkline(watched, rate, 1));
  }
  if (m.age_s && label == "hits" && !m.caches.empty()) screen.line(label, "nothing asked yet");
  for (size_t i = 0; i < m.readings.size(); ++i) {
    const Reading& reading = m.readings[i];
    screen.line(i == 0 ? "engine" : "",
                fmt::format("{:<30} {:>10}", printable(reading.name, 30),
                            reading.is_share ? percent_of(reading.value)
                                             : fmt::format("{:.6g}", reading.value)));
  }
}

void add_prefixes(const Watched& watched, Screen& screen) {
  const Prefixes& p = watched.census.prefixes;
  if (p.trees == 0) return;
  screen.line("prefixes", fmt::format("{} trees, {} endings; longest {}{}", grouped(p.trees),
                                      grouped(p.endings), grouped(p.longest),
                                      tokens_of(p.longest, p.block_size)));
  screen.line("", fmt::format("{} names are shared; without that there would be {:.1f} times as "
                              "many",
                              grouped(p.shared), ratio(p.unshared, p.names)));
  screen.line("", fmt::format("{:>10} {:>8} {:>8} {:>8}  {:<16}  {}", "names", "endings", "longest",
                              "shared", "first name", "media"));
  constexpr size_t most = 8;
  for (size_t i = 0; i < std::min(p.largest.size(), most); ++i) {
    const PrefixTree& tree = p.largest[i];
    screen.line("", fmt::format("{:>10} {:>8} {:>8} {:>8}  {}{} {}", grouped(tree.names),
                                grouped(tree.endings), grouped(tree.longest), grouped(tree.shared),
                                short_name(tree.root), tree.is_cut ? "*" : " ",
                                media_of(watched, tree.in)));
  }
  if (p.cut_trees > 0)
    screen.line("", fmt::format("* what came before is not there: {} trees", grouped(p.cut_trees)));
}

}  // namespace

std::string screen_of(const Watched& watched, int columns, bool is_utf8) {
  Screen screen(columns, is_utf8);
  const WatchOptions& options = watched.options;
  screen.line("watch", fmt::format("{}  {}", printable(options.endpoint, 60),
                                   printable(shown_url(options.metrics), 60)));
  add_stream(watched, screen);
  add_names(watched, screen);
  add_changes(watched, screen);
  add_hits(watched, screen);
  add_prefixes(watched, screen);
  for (const std::string& warning : warnings_of(watched))
    screen.paragraph("note", printable(warning, 400));
  return screen.take();
}

std::string line_of(const Watched& watched) {
  std::string text = date_now();
  if (watched.stream.link != Link::none) {
    text += fmt::format("  {}, {} names", state_of(watched), grouped(watched.census.names()));
    const std::string media = media_of(watched, watched.census.in);
    if (!media.empty()) text += fmt::format(" ({})", media);
    text += fmt::format(", +{:.1f}/s -{:.1f}/s", stored_now(watched), removed_now(watched));
    text += fmt::format(", {} trees", grouped(watched.census.prefixes.trees));
  }
  std::string_view before = "  hits: ";
  for (size_t i = 0; i < watched.metrics.caches.size(); ++i) {
    const Hits::Cache& cache = watched.metrics.caches[i];
    if (!cache.is_used()) continue;
    text += fmt::format("{}{} {}", std::exchange(before, ", "), printable(cache.name, 30),
                        percent_of(hit_rate_now(watched, i)));
  }
  for (const std::string& warning : warnings_of(watched))
    text += fmt::format("  [{}]", printable(warning, 200));
  return text + "\n";
}

}  // namespace folio::cli
