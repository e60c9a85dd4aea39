// SPDX-License-Identifier: Apache-2.0
/// cli/directory/cache_report.cpp: what `folio cache` says, as text and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "directory/cache.h"
#include "folio/tier/disk_directory.h"
#include "parts/text.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

std::string hex(const PageName& name) {
  std::string text;
  for (const uint8_t byte : name.bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// A clock that was put back gives 0.
std::string age(int64_t stored_at, int64_t now) {
  return elapsed(static_cast<double>(now - stored_at));
}

/// The first and the last time at which pages of a segment were stored.
std::map<uint64_t, std::pair<int64_t, int64_t>> times_of(const DiskListing& listing) {
  std::map<uint64_t, std::pair<int64_t, int64_t>> times;
  for (const DiskPage& page : listing.pages) {
    const auto [at, is_new] = times.try_emplace(page.segment, page.stored_at, page.stored_at);
    at->second.first = std::min(at->second.first, page.stored_at);
    at->second.second = std::max(at->second.second, page.stored_at);
  }
  return times;
}

int64_t live_bytes(const DiskListing& listing) {
  int64_t bytes = 0;
  for (const DiskSegment& segment : listing.segments) bytes += segment.live_bytes;
  return bytes;
}

}  // namespace

std::string text_of(const DiskListing& listing, const CacheOptions& options, int64_t now) {
  std::string text;
  auto out = std::back_inserter(text);
  const int64_t live = live_bytes(listing);
  fmt::format_to(out, "{} pages in {} segments, {:.1f} MiB, {:.1f} of them dead\n",
                 listing.pages.size(), listing.segments.size(), mib(listing.bytes),
                 mib(listing.bytes - live));
  const auto times = times_of(listing);
  if (!listing.segments.empty())
    fmt::format_to(out, "{:>10} {:>9} {:>10} {:>10} {:>10} {:>10}\n", "segment", "pages", "MiB",
                   "dead MiB", "oldest", "newest");
  for (const DiskSegment& segment : listing.segments) {
    const auto at = times.find(segment.number);
    const bool has_pages = at != times.end();
    fmt::format_to(out, "{:>10} {:>9} {:>10.1f} {:>10.1f} {:>10} {:>10}\n", segment.number,
                   segment.pages, mib(segment.bytes), mib(segment.bytes - segment.live_bytes),
                   has_pages ? age(at->second.first, now) : "",
                   has_pages ? age(at->second.second, now) : "");
  }
  if (options.names)
    for (const DiskPage& page : listing.pages)
      fmt::format_to(out, "{} {:>10} bytes, segment {}, {}\n", hex(page.name), page.bytes,
                     page.segment, age(page.stored_at, now));
  return text;
}

std::string json_of(const DiskListing& listing) {
  ordered_json segments = ordered_json::array(), pages = ordered_json::array();
  for (const DiskSegment& segment : listing.segments)
    segments.push_back({{"number", segment.number},
                        {"bytes", segment.bytes},
                        {"live_bytes", segment.live_bytes},
                        {"pages", segment.pages}});
  for (const DiskPage& page : listing.pages)
    pages.push_back({{"name", hex(page.name)},
                     {"bytes", page.bytes},
                     {"stored_at", page.stored_at},
                     {"segment", page.segment},
                     {"offset", page.offset}});
  return ordered_json{{"bytes", listing.bytes},
                      {"live_bytes", live_bytes(listing)},
                      {"segments", segments},
                      {"pages", pages}}
             .dump(1) +
         "\n";
}

std::string text_of(const DiskCheck& check) {
  std::string text = fmt::format(
      "{} pages are whole, {:.1f} MiB; {} corrupt, {} damaged places, {} unreadable; {} "
      "unfinished, "
      "{} dropped\n",
      check.pages, mib(check.bytes), check.corrupt, check.damaged, check.unreadable,
      check.unfinished, check.dropped);
  constexpr size_t most = 400;
  for (const std::string& fault : check.faults) text += printable(fault, most) + "\n";
  return text;
}

std::string json_of(const DiskCheck& check) {
  return ordered_json{{"sound", check.is_sound()},      {"pages", check.pages},
                      {"bytes", check.bytes},           {"corrupt", check.corrupt},
                      {"damaged", check.damaged},       {"unreadable", check.unreadable},
                      {"unfinished", check.unfinished}, {"dropped", check.dropped},
                      {"faults", check.faults}}
             .dump(1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

std::string text_of(const DiskCompaction& done) {
  return fmt::format(
      "{} pages copied into {} segments, {} segments kept, {} pages that were not whole are gone; "
      "{:.1f} MiB before, {:.1f} now\n",
      done.pages, done.new_segments, done.kept_segments, done.lost, mib(done.bytes_before),
      mib(done.bytes_after));
}

std::string json_of(const DiskCompaction& done) {
  return ordered_json{{"pages", done.pages},
                      {"lost", done.lost},
                      {"kept_segments", done.kept_segments},
                      {"new_segments", done.new_segments},
                      {"bytes_before", done.bytes_before},
                      {"bytes_after", done.bytes_after}}
             .dump(1) +
         "\n";
}

}  // namespace folio::cli
