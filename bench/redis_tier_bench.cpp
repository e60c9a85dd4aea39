// SPDX-License-Identifier: Apache-2.0
/// bench/redis_tier_bench.cpp: pages to a Redis server and back, bytes by second.
///
///     redis_tier_bench URL [--page-bytes=N] [--extents=N] [--pages=N] [--threads=N] [--depth=N]
///                          [--call-pages=N] [--rounds=N]
///
/// Each round stores all pages by a tier of its own, which does not know that they are there, and
/// loads them by another, each into memory of its own. They are handed over by so many in a call,
/// as an engine does that has some sequences, all at the beginning. Prints a line of JSON for
/// each round. bench/tier_peers/redis.py starts the server and puts redis-benchmark beside it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <semaphore>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "folio/core/buffer.h"
#include "folio/tier/redis_tier.h"

namespace folio::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string url;
  int64_t page_bytes = 65536;
  int64_t extents = 64;  ///< of a page
  uint32_t pages = 1024;
  uint32_t threads = 1, depth = 16;
  uint32_t call_pages = 256;  ///< of a load or a store
  int rounds = 5;
};

/// Pages in memory of their own, each in so many runs that do not touch: layers lie apart, as they
/// do in pools.
class Pages {
 public:
  explicit Pages(const Options& o)
      : memory_(Buffer::allocate(o.pages * (o.page_bytes + o.extents * gap)).value()),
        extents_(o.pages) {
    std::byte* at = memory_.data();
    for (int64_t e = 0; e < o.extents; ++e) {
      const int64_t bytes = o.page_bytes * (e + 1) / o.extents - o.page_bytes * e / o.extents;
      for (uint32_t p = 0; p < o.pages; ++p) {
        extents_[p].push_back({at, bytes});
        for (int64_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>((i * 131 + p) >> 3);
        at += bytes + gap;
      }
    }
    for (uint32_t p = 0; p < o.pages; ++p) {
      PageName name;
      for (size_t i = 0; i < 4; ++i) name.bytes[i] = static_cast<uint8_t>(p >> (8 * i));
      pages_.push_back({name, extents_[p]});
    }
  }
  [[nodiscard]] std::span<const TierPage> pages() const { return pages_; }

 private:
  static constexpr int64_t gap = 64;
  Buffer memory_;
  std::vector<std::vector<Extent>> extents_;
  std::vector<TierPage> pages_;
};

/// A tier that says when something has ended, so that nobody takes a core to ask.
class SignallingTier {
 public:
  explicit SignallingTier(const Options& o) : call_pages_(o.call_pages) {
    const TierOptions options{.max_queued_bytes = int64_t{1} << 40,
                              .threads = o.threads,
                              .max_bytes = int64_t{1} << 40,
                              .on_completion = &signal,
                              .context = &signal_};
    tier_ = make_redis_tier(o.url, options, {.depth = o.depth}).value();
  }
  /// Seconds until all have ended.
  template <class Call>
  double time(Call call, std::span<const TierPage> pages) {
    const auto begin = Clock::now();
    for (size_t first = 0; first < pages.size(); first += call_pages_)
      call(*tier_, pages.subspan(first, std::min(call_pages_, pages.size() - first)));
    std::vector<TierCompletion> ended(pages.size());
    for (size_t all = 0; all < pages.size();) {
      const size_t some = tier_->poll(ended);
      for (size_t i = 0; i < some; ++i)
        if (ended[i].outcome != TierOutcome::done)
          throw std::runtime_error(std::string(name(ended[i].outcome)) + ": " +
                                   std::string(tier_->last_fault().message()));
      all += some;
      if (some == 0) signal_.acquire();
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  double store(std::span<const TierPage> pages) {
    return time([](Tier& tier, auto some) { tier.store(some).value(); }, pages);
  }
  double load(std::span<const TierPage> pages) {
    return time([](Tier& tier, auto some) { tier.load(some, 0).value(); }, pages);
  }

 private:
  using Signal = std::counting_semaphore<>;
  static void signal(void* context) noexcept { static_cast<Signal*>(context)->release(); }
  const size_t call_pages_;
  Signal signal_{0};
  std::unique_ptr<Tier> tier_;
};

void run(const Options& o) {
  const Pages from(o), to(o);
  const double gigabytes = static_cast<double>(o.page_bytes) * o.pages / 1e9;
  for (int round = 0; round < o.rounds; ++round) {
    const double stored = SignallingTier(o).store(from.pages());
    const double loaded = SignallingTier(o).load(to.pages());
    std::printf("{\"store_gb_s\": %.3f, \"load_gb_s\": %.3f}\n", gigabytes / stored,
                gigabytes / loaded);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  folio::bench::Options o;
  CLI::App app("pages to a Redis server and back");
  app.add_option("url", o.url)->required();
  app.add_option("--page-bytes", o.page_bytes)->check(CLI::Range(1, 1 << 29));
  app.add_option("--extents", o.extents)->check(CLI::Range(1, 100'000));
  app.add_option("--pages", o.pages)->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", o.threads)->check(CLI::Range(1, 256));
  app.add_option("--depth", o.depth)->check(CLI::Range(1, 1024));
  app.add_option("--call-pages", o.call_pages)->check(CLI::Range(1, 1 << 20));
  app.add_option("--rounds", o.rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    folio::bench::run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "redis_tier_bench: %s\n", e.what());
    return 1;
  }
  return 0;
}
