// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/groups_faults_test.cpp: hybrid models over a little of the host's memory, a
/// directory on files that fail and lie, and a server that does so, too.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/host_tier.h"
#include "folio/tier/redis_tier.h"
#include "support/rounds.h"
#include "support/temporary_folder.h"
#include "tier/disk/disk_medium.h"
#include "tier/disk/faulty_file_io.h"
#include "tier/manager/faulty_store.h"
#include "tier/manager/groups_rounds.h"
#include "tier/manager/wandering.h"
#include "tier/queued_tier.h"

namespace folio::test {
namespace {

/// One of these is the round's, or all are: a little of each.
constexpr int num_faults = 12;
constexpr int read_error = 3, flipped_read = 6, lose = 8, all_faults = num_faults;

void set_faults(int fault, Faults& files, StoreFaults& store) {
  int* const all[num_faults] = {&files.short_transfer, &files.interrupted,   &files.refused,
                                &files.read_error,     &files.write_error,   &files.no_space,
                                &files.flipped_read,   &files.flipped_write, &store.lose,
                                &store.flip,           &store.refuse,        &store.swallow};
  for (int i = 0; i < num_faults; ++i)
    if (fault == all_faults || fault == i) *all[i] = fault == i ? 100 : 25;
  store.slow = 20;
  if (fault == all_faults) {
    files.never_ends = 2;
    store.cut = 2;  // it is left alone for a while then
  }
}

struct Sums {
  std::array<int64_t, 3> loaded = {};
  std::array<int64_t, num_tier_outcomes> outcomes = {};
  int64_t unstored = 0;
};

std::unique_ptr<Tier> on_disk(const std::string& path, Faults& faults) {
  const TierOptions options{.max_bytes = 2 << 20};
  auto medium = tier::DiskMedium::open(path, options, {.segment_bytes = 1 << 20},
                                       std::make_unique<FaultyFileIo>(faults), 0);
  return tier::QueuedTier::create(std::move(medium).value(), options).value();
}

void one_round(const ModelShape& model, Rng& rng, int fault, const std::string& path, Sums& sums) {
  Faults files(rng.next());
  StoreFaults store;
  set_faults(fault, files, store);
  FaultyStore server(store, rng.next());
  const int64_t bytes = most_page_bytes(model);
  const auto host = make_host_tier({.max_bytes = 20 * host_record_bytes(bytes).value()}).value();
  const auto disk = on_disk(path, files);
  const auto redis = make_redis_tier({.port = server.port(),
                                      .command_timeout_ms = 200,
                                      .unknown = static_cast<UnknownPages>(rng.between(0, 1)),
                                      .absent_ms = 1},
                                     {.threads = 2, .max_bytes = 200 * bytes})
                         .value();
  std::vector<TierOfCache> tiers = {randomly(*disk, rng)};
  if (rng.chance(0.5)) tiers.insert(tiers.begin(), randomly(*host, rng));
  tiers.insert(tiers.begin() + rng.between(0, std::ssize(tiers)), randomly(*redis, rng));
  for (TierOfCache& tier : tiers) tier.max_store_bytes = rng.between(4, 40) * bytes;
  GroupEngine engine({.model = model,
                      .pages = few_pages(model),
                      .tiers = tiers,
                      .max_io_pins = static_cast<uint32_t>(rng.between(12, 64)),
                      .manager = {.load_deadline_ms = 20 * rng.between(0, 2),
                                  .store_deadline_ms = 20 * rng.between(0, 2),
                                  .load_order = static_cast<LoadOrder>(rng.between(0, 1)),
                                  .spare_pages = rng.int_between(1, 3)}});
  for (int i = 0; i < 120; ++i) {
    call(engine, rng);
    ASSERT_NO_FATAL_FAILURE(engine.check()) << "call " << i;
  }
  engine.finish();
  for (size_t t = 0; t < tiers.size(); ++t) {
    const TierCounters counters = engine.manager().counters(t).value();
    expect_counted(counters);
    sums.loaded[tiers[t].tier == host.get()   ? 0
                : tiers[t].tier == disk.get() ? 1
                                              : 2] += counters.loaded_pages;
    for (size_t o = 0; o < sums.outcomes.size(); ++o) sums.outcomes[o] += counters.load_outcomes[o];
  }
  sums.unstored += engine.manager().figures().unstored_pages;
}

class CacheManagerGroupFaults : public ::testing::TestWithParam<ModelShape> {};

TEST_P(CacheManagerGroupFaults, of_disks_and_servers_serve_no_wrong_byte) {
  Rng rng(test_seed());
  const TemporaryFolder folder;
  Sums sums;
  const auto has = [&](TierOutcome o) { return sums.outcomes[static_cast<size_t>(o)] != 0; };
  const auto has_seen_all = [&] {
    return sums.loaded[1] > 0 && sums.loaded[2] > 0 && has(TierOutcome::corrupt) &&
           has(TierOutcome::missing) && has(TierOutcome::failed) && sums.unstored != 0;
  };
  const int rounds = share_of_rounds(80);
  // rounds beyond these are for what has not been seen yet
  const auto fault_of = [&](int round) {
    if (round >= rounds && !has(TierOutcome::corrupt)) return flipped_read;
    if (round >= rounds && !has(TierOutcome::failed)) return read_error;
    if (round >= rounds && !has(TierOutcome::missing)) return lose;
    return rng.int_between(0, all_faults);
  };
  for (int round = 0; is_due(round, rounds, has_seen_all()); ++round)
    ASSERT_NO_FATAL_FAILURE(one_round(GetParam(), rng, fault_of(round),
                                      folder.path() + "/" + std::to_string(round / 4), sums))
        << "round " << round;
  EXPECT_TRUE(has_seen_all());
}

INSTANTIATE_TEST_SUITE_P(Shapes, CacheManagerGroupFaults, ::testing::ValuesIn(model_shapes()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace folio::test
