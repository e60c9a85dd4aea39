// SPDX-License-Identifier: Apache-2.0
/// cli/load/tier_options.cpp: the options of tiers.
#include "load/tier_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <tuple>

#include "load/options.h"
#include "parts/values.h"

namespace folio::cli {
namespace {

constexpr int64_t most_tier_bytes = int64_t{1} << 60;
constexpr int64_t most_payload_bytes = int64_t{1} << 30;
constexpr int64_t usual_payload_bytes = 1024;
constexpr int64_t most_deadline_ms = int64_t{1} << 40;
constexpr int32_t usual_spare_pages = 64, most_spare_pages = 1 << 20;

CLI::Validator stores() {
  return one_of({{"write-through", static_cast<int64_t>(StoreWhen::write_through)},
                 {"write-back", static_cast<int64_t>(StoreWhen::write_back)},
                 {"at-eviction", static_cast<int64_t>(StoreWhen::at_eviction)},
                 {"none", static_cast<int64_t>(StoreWhen::none)}});
}

Status disagree(const std::string& reason) { return {Errc::invalid_argument, reason}; }

int tier_count(const TierChoice& tiers) {
  return static_cast<int>(tiers.host_bytes != 0) + static_cast<int>(!tiers.disk.empty()) +
         static_cast<int>(!tiers.redis.empty());
}

/// What tells about a tier that is not there.
Status check_owners(const TierChoice& tiers) {
  const auto& rates = tiers.gbytes_per_second;
  const std::tuple<bool, const char*, bool, const char*> pairs[] = {
      {tiers.disk_bytes != 0, "--disk-bytes", !tiers.disk.empty(), "--disk"},
      {!tiers.disk.empty(), "--disk", tiers.disk_bytes != 0, "--disk-bytes"},
      {tiers.redis_bytes != 0, "--redis-bytes", !tiers.redis.empty(), "--redis"},
      {rates[0] != 0.0, "--host-gbps", tiers.host_bytes != 0, "--host-bytes"},
      {rates[1] != 0.0, "--disk-gbps", !tiers.disk.empty(), "--disk"},
      {rates[2] != 0.0, "--redis-gbps", !tiers.redis.empty(), "--redis"},
      {tiers.payload_bytes != 0, "--payload-bytes", tiers.any(), "--host-bytes, --disk or --redis"},
      {tiers.store != StoreWhen::usual, "--store", tiers.any(), "--host-bytes, --disk or --redis"},
      {tiers.min_hits != 0, "--min-hits",
       tiers.any() && (tiers.store == StoreWhen::write_through || tiers.store == StoreWhen::usual),
       "a tier, and --store write-through"},
      {tiers.spare_pages != 0, "--spare-pages",
       tiers.any() && tiers.store == StoreWhen::at_eviction, "a tier, and --store at-eviction"},
      {tiers.hit_interval != 0, "--hit-interval",
       tiers.any() && tiers.store != StoreWhen::at_eviction && tiers.store != StoreWhen::none,
       "a tier, and --store write-through or write-back"},
      {tiers.promotes, "--promote", tier_count(tiers) > 1, "two tiers or more"},
      {tiers.load_deadline_ms != 0, "--load-deadline-ms", tiers.any(),
       "--host-bytes, --disk or --redis"},
  };
  for (const auto& [is_given, option, has_owner, owner] : pairs)
    if (is_given && !has_owner) return disagree(fmt::format("{}: needs {}", option, owner));
  return {};
}

/// What a replay with tiers cannot do. `tier` is the option that asks for one.
Status check_others(const ReplayOptions& options, const char* tier) {
  const auto refuse = [&](const char* option, const char* reason) {
    return disagree(fmt::format("{}: not with {}: {}", option, tier, reason));
  };
  if (options.compute == Compute::attention)
    return refuse("--compute attention", "payloads stand for pages, and nothing can attend them");
  if (options.verify.wanted)
    return refuse("--verify", "nothing is computed; pages that are found are compared anyway");
  if (options.cache.policy.all)
    return refuse("--policy all", "tiers would go on from one policy to the next");
  if (options.cache.partial != 0)
    return refuse("--partial", "tiers have whole pages, and nothing is loaded behind a copy");
  return {};
}

}  // namespace

void add_tier_options(CLI::App& app, TierChoice& tiers) {
  const auto bytes_option = [&](const char* option, int64_t& bytes, const char* what) {
    app.add_option(option, bytes, what)->transform(bytes_from(1, most_tier_bytes))->group("Tiers");
  };
  bytes_option("--host-bytes", tiers.host_bytes,
               "A tier in the host's memory: bytes of the model's pages; KiB, MiB, GiB and TiB "
               "may follow the number");
  app.add_option("--disk", tiers.disk, "A tier in this directory; what lies there is found")
      ->transform(word("a directory"))
      ->group("Tiers");
  bytes_option("--disk-bytes", tiers.disk_bytes, "Of --disk: bytes of the model's pages");
  app.add_option(
         "--redis", tiers.redis,
         "A tier in a Redis or Valkey server: redis://[[user]:password@]host[:port][/database], "
         "rediss:// or unix://")
      ->transform(word("an address like redis://host:6379"))
      ->group("Tiers");
  bytes_option("--redis-bytes", tiers.redis_bytes,
               "Of --redis: bytes of the model's pages; default: what the server takes");
  app.add_option("--store", tiers.store,
                 "When a page is stored in every tier: when it becomes full, when a sequence that "
                 "has it ends, or when the pool evicts it")
      ->transform(stores())
      ->default_str("write-through")
      ->group("Tiers");
  app.add_option("--min-hits", tiers.min_hits,
                 "Times that a page must have been found before it is stored, with --store "
                 "write-through")
      ->transform(integer_from(1, INT32_MAX))
      ->group("Tiers");
  app.add_option(
         "--spare-pages", tiers.spare_pages,
         "With --store at-eviction: pages of the pool, of each kind, that take the place of "
         "evicted ones until these are stored; default: 64")
      ->transform(integer_from(1, most_spare_pages))
      ->group("Tiers");
  app.add_option("--hit-interval", tiers.hit_interval,
                 "Where layers have windows or chunks: a multiple of --page-size; what hits of "
                 "multiples of so many tokens need is stored, too; default: what likely ones need")
      ->transform(integer_from(1, INT32_MAX))
      ->group("Tiers");
  app.add_flag("--promote", tiers.promotes,
               "What is loaded from a tier is stored in those above it, too")
      ->disable_flag_override()
      ->group("Tiers");
  app.add_option("--payload-bytes", tiers.payload_bytes,
                 "Bytes that stand for a page, are moved and compared; a multiple of --page-size; "
                 "default: 1024, or a byte a token; where layers differ, for the smallest kind of "
                 "page: default 64")
      ->transform(integer_from(1, most_payload_bytes))
      ->group("Tiers");
  app.add_option("--load-deadline-ms", tiers.load_deadline_ms,
                 "Pages that take longer are computed; default: none, so that hits can be repeated")
      ->transform(integer_from(1, most_deadline_ms))
      ->group("Tiers");
  const char* const rates[num_tiers] = {"--host-gbps", "--disk-gbps", "--redis-gbps"};
  for (size_t t = 0; t < num_tiers; ++t)
    app.add_option(rates[t], tiers.gbytes_per_second[t],
                   "GB of the model's pages in a second, for the modelled time of loads")
        ->transform(number_from(1e-6, 1e6))
        ->group("Tiers");
}

std::string name(StoreWhen store) {
  switch (store) {
    case StoreWhen::none: return "none";
    case StoreWhen::write_back: return "write-back";
    case StoreWhen::at_eviction: return "at-eviction";
    case StoreWhen::write_through:
    case StoreWhen::usual: return "write-through";
  }
  return {};
}

std::string without_login(const std::string& url) {
  const size_t scheme = url.find("://"), begin = scheme == url.npos ? 0 : scheme + 3;
  const size_t end = url.rfind('@');
  return end == url.npos || end < begin ? url : url.substr(0, begin) + "..." + url.substr(end);
}

const char* tier_option_of(const TierChoice& tiers) {
  if (tiers.host_bytes != 0) return "--host-bytes";
  if (!tiers.disk.empty()) return "--disk";
  return tiers.redis.empty() ? nullptr : "--redis";
}

Status resolve_tiers(ReplayOptions& options) {
  TierChoice& tiers = options.tiers;
  if (Status s = check_owners(tiers); !s.is_ok()) return s;
  const char* const tier = tier_option_of(tiers);
  if (tier == nullptr) return {};
  if (Status s = check_others(options, tier); !s.is_ok()) return s;
  // The page shows the command.
  std::string& command = options.output.command;
  for (size_t at = 0;
       !tiers.redis.empty() && (at = command.find(tiers.redis, at)) != command.npos;) {
    const std::string shown = without_login(tiers.redis);
    command.replace(at, tiers.redis.size(), shown);
    at += shown.size();
  }
  options.compute = Compute::none;
  if (tiers.store == StoreWhen::usual) tiers.store = StoreWhen::write_through;
  if (tiers.store == StoreWhen::at_eviction && tiers.spare_pages == 0)
    tiers.spare_pages = usual_spare_pages;
  return {};
}

Status resolve_payload(ReplayOptions& options) {
  TierChoice& tiers = options.tiers;
  if (!tiers.any()) return {};
  const int64_t tokens = options.steps.page_per_block ? 1 : options.model.page_size;
  if (tiers.payload_bytes == 0)
    tiers.payload_bytes = (std::max(usual_payload_bytes, tokens) + tokens - 1) / tokens * tokens;
  if (tiers.payload_bytes % tokens != 0)
    return disagree(
        fmt::format("--payload-bytes: got '{}', expected a multiple of the {} tokens of a page",
                    tiers.payload_bytes, tokens));
  return {};
}

}  // namespace folio::cli
