// SPDX-License-Identifier: Apache-2.0
/// cli/report/tier_report.cpp: summary and JSON.
#include "report/tier_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "parts/numbers.h"
#include "parts/text.h"
#include "report/report.h"
#include "report/report_page.h"

namespace folio::cli {
namespace {

using nlohmann::ordered_json;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// "3 missing, 1 late"; "none"
std::string losses(const OneTier& tier) {
  std::string text;
  const auto add = [&](const char* what, const ReasonCounts& outcomes) {
    for (const auto& [outcome, pages] : outcomes) {
      if (pages == 0 || outcome == "done") continue;
      text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", pages, what, outcome);
    }
  };
  add("loads", tier.load_outcomes);
  add("stores", tier.store_outcomes);
  add("not loaded:", tier.not_loaded);
  add("not stored:", tier.not_stored);
  return text.empty() ? "none" : text;
}

/// "2 of loads (late), 1 of stores (failed)"; empty where there were none
std::string rests(const OneTier& tier) {
  std::string text;
  const auto add = [&](const char* what, const ReasonCounts& begun) {
    for (const auto& [reason, count] : begun)
      if (count != 0)
        text += fmt::format("{}{} of {} ({})", text.empty() ? "" : ", ", count, what, reason);
  };
  add("loads", tier.load_rests);
  add("stores", tier.store_rests);
  return text;
}

std::string times(const std::vector<double>& seconds) {
  return fmt::format("{}: p50 {}, p99 {}, {} in all", seconds.size(),
                     duration(quantile(seconds, 0.5)), duration(quantile(seconds, 0.99)),
                     duration(sum(seconds)));
}

ordered_json by_reason(const ReasonCounts& counts) {
  ordered_json j = ordered_json::object();
  for (const auto& [reason, pages] : counts) j[reason] = pages;
  return j;
}

/// "2097152", or "1310720 (full) or 6815744 (window 1024)"
std::string sizes_of(const TieredFigures& f, int64_t PageKind::*bytes, KindNames kinds) {
  std::string text;
  for (size_t k = 0; k < f.kinds.size(); ++k) {
    text += fmt::format("{}{}", k == 0 ? "" : " or ", f.kinds[k].*bytes);
    if (k < kinds.size()) text += fmt::format(" ({})", kinds[k]);
  }
  return text;
}

/// What went to a tier and came back, of each kind.
ordered_json by_kind(const TieredFigures& f, const OneTier& tier, KindNames kinds) {
  ordered_json all = ordered_json::array();
  for (size_t k = 0; k < kinds.size(); ++k) {
    const int64_t stored = tier.stored_by_kind[k], loaded = tier.loaded_by_kind[k];
    all.push_back({{"group", kinds[k]},
                   {"stored_pages", stored},
                   {"loaded_pages", loaded},
                   {"model_bytes_stored", stored * f.kinds[k].page_bytes},
                   {"model_bytes_loaded", loaded * f.kinds[k].page_bytes}});
  }
  return all;
}

/// "pages of full: 12 stored, 3 loaded; of window 1024: 4 stored, 1 loaded"
std::string line_by_kind(const OneTier& tier, KindNames kinds) {
  std::string text = "pages";
  for (size_t k = 0; k < kinds.size(); ++k)
    text += fmt::format("{} of {}: {} stored, {} loaded", k == 0 ? "" : ";", kinds[k],
                        tier.stored_by_kind[k], tier.loaded_by_kind[k]);
  return text;
}

ordered_json json_of(const TieredFigures& f, size_t t, KindNames kinds) {
  const OneTier& tier = f.tiers[t];
  ordered_json j;
  j["name"] = tier_names[t];
  j["place"] = tier.place;
  j["room_pages"] = tier.most_pages != 0 ? ordered_json(tier.most_pages) : ordered_json();
  j["pages_before"] = tier.first_pages;
  j["pages"] = tier.pages;
  j["hit_tokens"] = f.tokens.tiers[t];
  j["stored_pages"] = tier.stored_pages;
  j["loaded_pages"] = tier.loaded_pages;
  j["dropped_pages"] = tier.dropped_pages;
  j["promoted_pages"] = tier.promoted_pages;
  j["load_outcomes"] = by_reason(tier.load_outcomes);
  j["store_outcomes"] = by_reason(tier.store_outcomes);
  j["not_loaded"] = by_reason(tier.not_loaded);
  j["not_stored"] = by_reason(tier.not_stored);
  j["load_rests"] = by_reason(tier.load_rests);
  j["store_rests"] = by_reason(tier.store_rests);
  j["last_fault"] = tier.last_fault;
  j["model_bytes_stored"] = model_bytes(f.kinds, tier.stored_by_kind);
  j["model_bytes_loaded"] = model_bytes(f.kinds, tier.loaded_by_kind);
  j["payload_bytes_stored"] = tier.stored_bytes;
  j["payload_bytes_loaded"] = tier.loaded_bytes;
  j["loads"] = tier.load_seconds.size();
  j["load_seconds_p50"] = quantile(tier.load_seconds, 0.5);
  j["load_seconds_p99"] = quantile(tier.load_seconds, 0.99);
  j["load_seconds"] = sum(tier.load_seconds);
  if (!tier.modelled_seconds.empty()) {
    j["modelled_load_seconds_p50"] = quantile(tier.modelled_seconds, 0.5);
    j["modelled_load_seconds_p99"] = quantile(tier.modelled_seconds, 0.99);
    j["modelled_load_seconds"] = sum(tier.modelled_seconds);
  }
  if (!kinds.empty()) j["groups"] = by_kind(f, tier, kinds);
  return j;
}

}  // namespace

std::string summary_of(const TierChoice& choice, const TieredFigures& f, KindNames kinds) {
  Summary text;
  const std::string interval =
      choice.hit_interval == 0 || kinds.empty()
          ? ""
          : fmt::format(", with what hits of multiples of {} tokens need", choice.hit_interval);
  text.line("tiers", fmt::format("a page has {} bytes in the model, {} here; stored {}{}; {} pages "
                                 "compared with their pattern",
                                 sizes_of(f, &PageKind::page_bytes, kinds),
                                 sizes_of(f, &PageKind::payload_bytes, kinds),
                                 choice.store == StoreWhen::none ? "never" : name(choice.store),
                                 interval, f.checked_pages));
  const auto source = [&](const char* name, int64_t tokens, const std::string& more) {
    text.line(std::string("  ") + name,
              fmt::format("{:>12} tokens {:>8}{}", tokens, share(tokens, f.tokens.asked()), more));
  };
  source("memory", f.tokens.memory,
         f.tokens.completed == 0
             ? ""
             : fmt::format("   of these {} with pages of other layers from below",
                           f.tokens.completed));
  for (size_t t = 0; t < num_tiers; ++t) {
    const OneTier& tier = f.tiers[t];
    if (!tier.is_used) continue;
    source(tier_names[t], f.tokens.tiers[t],
           fmt::format("   pages: {} stored, {} loaded, {} dropped, {} there ({} before{})",
                       tier.stored_pages, tier.loaded_pages, tier.dropped_pages, tier.pages,
                       tier.first_pages,
                       tier.most_pages != 0 ? fmt::format(", room for {}", tier.most_pages) : ""));
  }
  source("computed", f.tokens.computed, "");
  source("asked", f.tokens.asked(), "");
  for (size_t t = 0; t < num_tiers; ++t) {
    const OneTier& tier = f.tiers[t];
    if (!tier.is_used) continue;
    text.line(
        tier_names[t],
        fmt::format("{:.3f} GiB of the model's pages stored, {:.3f} loaded (payloads: {} and {} "
                    "bytes); lost: {}",
                    gib_of(model_bytes(f.kinds, tier.stored_by_kind)),
                    gib_of(model_bytes(f.kinds, tier.loaded_by_kind)), tier.stored_bytes,
                    tier.loaded_bytes, losses(tier)));
    if (!kinds.empty()) text.line("", line_by_kind(tier, kinds));
    text.line("", fmt::format("loads of payloads, measured, {}", times(tier.load_seconds)));
    if (!tier.modelled_seconds.empty())
      text.line("", fmt::format("loads of the model's pages at {:g} GB/s, modelled, {}",
                                choice.gbytes_per_second[t], times(tier.modelled_seconds)));
    if (const std::string rested = rests(tier); !rested.empty()) text.line("", "rests: " + rested);
    if (!tier.last_fault.empty()) text.line("", "last fault: " + tier.last_fault);
  }
  text.line("manager", fmt::format("{} pages asked for, {} found, {} loaded, {} lost; {} handed to "
                                   "tiers, {} not; {:.2f} s of waiting",
                                   f.asked_pages, f.found_pages, f.loaded_pages, f.lost_pages,
                                   f.stored_pages, f.unstored_pages, f.wait_seconds));
  return text.text;
}

ordered_json json_of(const TierChoice& choice, const TieredFigures& f, KindNames kinds) {
  ordered_json j;
  j["page_bytes"] = f.kinds.front().page_bytes;
  j["payload_bytes"] = f.kinds.front().payload_bytes;
  if (!kinds.empty()) {
    j["groups"] = ordered_json::array();
    for (size_t k = 0; k < kinds.size(); ++k)
      j["groups"].push_back({{"group", kinds[k]},
                             {"page_bytes", f.kinds[k].page_bytes},
                             {"payload_bytes", f.kinds[k].payload_bytes}});
    j["completed_tokens"] = f.tokens.completed;
    j["hit_interval"] = choice.hit_interval;
  }
  j["store"] = name(choice.store);
  j["asked_tokens"] = f.tokens.asked();
  j["memory_tokens"] = f.tokens.memory;
  j["computed_tokens"] = f.tokens.computed;
  j["asked_pages"] = f.asked_pages;
  j["found_pages"] = f.found_pages;
  j["loaded_pages"] = f.loaded_pages;
  j["lost_pages"] = f.lost_pages;
  j["stored_pages"] = f.stored_pages;
  j["unstored_pages"] = f.unstored_pages;
  j["checked_pages"] = f.checked_pages;
  j["wait_seconds"] = f.wait_seconds;
  j["below"] = ordered_json::array();
  for (size_t t = 0; t < num_tiers; ++t) {
    if (f.tiers[t].is_used) j["below"].push_back(json_of(f, t, kinds));
  }
  return j;
}

}  // namespace folio::cli
