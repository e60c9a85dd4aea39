// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_migration_test.cpp: a small pool over a directory and a server, both
/// real, so that pages wander between the three, while files, the way to the server and the server
/// itself fail.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/tier/redis_tier.h"
#include "support/open_files.h"
#include "tier/disk/disk_medium.h"
#include "tier/disk/faulty_file_io.h"
#include "tier/manager/wandering.h"
#include "tier/queued_tier.h"
#include "tier/redis/faulty_proxy.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"

namespace folio::test {
namespace {

namespace fs = std::filesystem;

const int64_t page_of_tier = redis_record_bytes(PatternEngine::page_bytes).value();

/// What is to go wrong.
enum class Fails : uint8_t { server = 0, everything = 1 };

struct Sums {
  std::array<int64_t, 2> loaded = {}, stored = {};
  std::array<std::array<int64_t, num_tier_outcomes>, 2> loads = {}, stores = {};
  int64_t lost = 0, rests = 0, early_looks = 0, kills = 0;
};

/// Files, a server and a way to it; pages in them outlive rounds.
class Migration : public ::testing::Test {
 protected:
  static constexpr size_t disk = 0, redis = 1;

  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
    rng_ = Rng(test_seed());
    server_ = std::make_unique<RedisServer>();
  }

  void round(Fails what) {
    Faults files(rng_.next());
    FaultyProxy way(server_->folder() + "/way", server_->socket(), rng_.next());
    const auto disk_tier = open_disk(files);
    const auto redis_tier = open_redis(way.path(), what);
    if (what == Fails::everything) {
      spoil(files);
      way.set({.flip = 20, .close = 10, .lose = 1, .delay = 20});
    }
    std::vector<TierOfCache> tiers = {randomly(*disk_tier, rng_), randomly(*redis_tier, rng_)};
    const size_t redis_at = rng_.chance(0.5) ? 1 : 0;
    if (redis_at == 0) std::swap(tiers[0], tiers[1]);
    const bool is_honest = what == Fails::server;
    PatternEngine engine({.num_pages = 12,
                          .tiers = tiers,
                          .max_io_pins = static_cast<uint32_t>(rng_.between(4, 16)),
                          .min_partial_tokens = rng_.int_between(0, 2),
                          .manager = {.load_deadline_ms = is_honest ? 0 : any_deadline_ms(),
                                      .store_deadline_ms = is_honest ? 0 : any_deadline_ms(),
                                      .load_order = any_order(),
                                      .spare_pages = rng_.int_between(1, 2)}});
    for (int turn = 0; turn < 5; ++turn) {
      ASSERT_NO_FATAL_FAILURE(wander(engine, rng_, 24, is_honest)) << "turn " << turn;
      ASSERT_NO_FATAL_FAILURE(strike(way, what));
    }
    ASSERT_NO_FATAL_FAILURE(engine.finish());
    expect_all_counted(engine, tiers);
    note(engine, 1 - redis_at, disk);
    note(engine, redis_at, redis);
    sums_.early_looks += engine.early_looks();
    flips_ += way.flips();
  }

  /// One of the things that happen to a server, while pages are under way.
  void strike(FaultyProxy& way, Fails what) {
    if (rng_.chance(0.1)) {
      server_->kill_it();
      ++sums_.kills;
      server_->set_arguments({"--appendonly", rng_.chance(0.7) ? "yes" : "no", "--appendfsync",
                              "no", "--auto-aof-rewrite-percentage", "0"});
      if (rng_.chance(0.2)) fs::remove_all(server_->folder() + "/appendonlydir");
      server_->start();
    } else if (rng_.chance(0.1)) {
      way.close_all();
    } else if (what == Fails::everything && rng_.chance(0.3)) {
      for (const std::string& key : server_->keys())
        if (rng_.chance(0.1))
          server_->command({"SETRANGE", key, std::to_string(rng_.between(0, page_of_tier - 1)),
                            rng_.chance(0.5) ? "\xa5" : "\x5a"});
    }
  }

  std::unique_ptr<Tier> open_disk(Faults& files) {
    const TierOptions options{.max_bytes = 2 << 20};
    auto medium =
        tier::DiskMedium::open(server_->folder() + "/pages", options, {.segment_bytes = 1 << 20},
                               std::make_unique<FaultyFileIo>(files), 0);
    return tier::QueuedTier::create(std::move(medium).value(), options).value();
  }
  std::unique_ptr<Tier> open_redis(const std::string& path, Fails what) {
    RedisOptions options{.socket = path,
                         .depth = static_cast<uint32_t>(rng_.between(1, 8)),
                         .unknown = rng_.chance(0.7) ? UnknownPages::hoped : UnknownPages::asked,
                         .absent_ms = 5};
    if (what == Fails::everything) options.command_timeout_ms = 40;  // pieces are lost
    return make_redis_tier(patient(options), {.max_bytes = rng_.between(8, 64) * page_of_tier})
        .value();
  }
  static void spoil(Faults& files) {
    const std::lock_guard lock(files.mutex);
    files.short_transfer = 100;
    files.interrupted = files.refused = 20;
    files.read_error = files.write_error = files.no_space = 20;
    files.flipped_read = files.flipped_write = 30;
    files.never_ends = 2;
  }
  LoadOrder any_order() { return rng_.chance(0.5) ? LoadOrder::extents : LoadOrder::pages; }
  int64_t any_deadline_ms() { return 20 * rng_.between(0, 2); }

  /// What each tier says, what the manager has counted of it, and what it says in all.
  static void expect_all_counted(PatternEngine& engine, const std::vector<TierOfCache>& tiers) {
    int64_t loaded = 0, lost = 0, handed_over = 0, unstored = 0, found = 0;
    for (size_t t = 0; t < tiers.size(); ++t) {
      const TierCounters counters = engine.manager().counters(t).value();
      const TierFigures figures = tiers[t].tier->figures();
      int64_t loads = 0, stores = 0, refused = 0;
      for (size_t o = 0; o < num_tier_outcomes; ++o) {
        EXPECT_EQ(counters.load_outcomes[o], figures.load_outcomes[o]) << o;
        EXPECT_EQ(counters.store_outcomes[o], figures.store_outcomes[o]) << o;
        loads += counters.load_outcomes[o];
        stores += counters.store_outcomes[o];
      }
      for (size_t r = 0; r < num_load_refusals; ++r)
        if (r != static_cast<size_t>(LoadRefusal::resting)) refused += counters.not_loaded[r];
      for (const int64_t pages : counters.not_stored) unstored += pages;
      EXPECT_EQ(counters.loaded_pages + counters.lost_pages, loads);
      EXPECT_EQ(counters.loaded_bytes, counters.loaded_pages * PatternEngine::page_bytes);
      EXPECT_EQ(counters.stored_pages, counters.store_outcomes[0]);
      EXPECT_GE(counters.found_pages, loads + refused);
      EXPECT_EQ(counters.loading_pages + counters.storing_pages + counters.waiting_pages, 0);
      EXPECT_EQ(counters.store_bytes, 0);
      EXPECT_EQ(figures.queued_pages, 0);
      EXPECT_EQ(figures.queued_bytes, 0);
      loaded += counters.loaded_pages;
      lost += counters.lost_pages;
      handed_over += stores;
      found += counters.found_pages;
    }
    const CacheManagerFigures figures = engine.manager().figures();
    // What another load was to bring counts in the tier once.
    EXPECT_EQ(figures.loaded_pages, loaded + figures.shared_pages);
    EXPECT_GE(figures.lost_pages, lost);
    EXPECT_EQ(figures.stored_pages, handed_over);
    EXPECT_EQ(figures.unstored_pages, unstored);
    EXPECT_GE(figures.found_pages, found);
  }

  void note(PatternEngine& engine, size_t t, size_t medium) {
    const TierCounters counters = engine.manager().counters(t).value();
    sums_.loaded[medium] += counters.loaded_pages;
    sums_.stored[medium] += counters.stored_pages;
    sums_.lost += counters.lost_pages;
    for (const TierRests& rests : {counters.load_rests, counters.store_rests})
      for (const int64_t begun : rests.begun) sums_.rests += begun;
    for (size_t o = 0; o < num_tier_outcomes; ++o) {
      sums_.loads[medium][o] += counters.load_outcomes[o];
      sums_.stores[medium][o] += counters.store_outcomes[o];
    }
  }
  [[nodiscard]] int64_t loads(size_t medium, TierOutcome outcome) const {
    return sums_.loads[medium][static_cast<size_t>(outcome)];
  }
  void print() const {
    for (const size_t medium : {disk, redis}) {
      std::printf("%s: loads", medium == disk ? "disk" : "redis");
      for (int o = 0; o < num_tier_outcomes; ++o)
        std::printf(" %s %ld", name(static_cast<TierOutcome>(o)),
                    static_cast<long>(loads(medium, static_cast<TierOutcome>(o))));
      std::printf(", stored %ld\n", static_cast<long>(sums_.stored[medium]));
    }
    std::printf("kills %ld, rests %ld, flips %ld, early looks %ld\n", long(sums_.kills),
                long(sums_.rests), long(flips_), long(sums_.early_looks));
  }

  Rng rng_{0};
  std::unique_ptr<RedisServer> server_;
  Sums sums_;
  int64_t flips_ = 0;
};

TEST_F(Migration, serves_no_wrong_byte_while_the_server_is_killed) {
  for (int i = 0; i < 40; ++i) ASSERT_NO_FATAL_FAILURE(round(Fails::server)) << "round " << i;
  print();
  EXPECT_GT(sums_.kills, 5);
  for (const int64_t loaded : sums_.loaded) EXPECT_GT(loaded, 10);
  for (const size_t medium : {disk, redis}) EXPECT_EQ(loads(medium, TierOutcome::corrupt), 0);
}

TEST_F(Migration, serves_no_wrong_byte_while_files_the_way_and_the_server_fail) {
  const int64_t files = open_files();
  for (int i = 0; i < 200; ++i) ASSERT_NO_FATAL_FAILURE(round(Fails::everything)) << "round " << i;
  print();
  EXPECT_GT(sums_.kills, 40);
  EXPECT_GT(flips_, 10);
  for (const int64_t loaded : sums_.loaded) EXPECT_GT(loaded, 10);
  for (const size_t medium : {disk, redis}) {
    EXPECT_GT(loads(medium, TierOutcome::corrupt), 0);
    EXPECT_GT(loads(medium, TierOutcome::failed), 0);
  }
  EXPECT_GT(sums_.lost, 10);
  EXPECT_GT(sums_.rests, 0);
  EXPECT_EQ(open_files(), files);
}

}  // namespace
}  // namespace folio::test
