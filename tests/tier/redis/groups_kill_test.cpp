// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/groups_kill_test.cpp: engines of hybrid models that are killed at any moment
/// over a directory and a server, which dies, too, now and then: what others find is right.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "support/comes_true.h"
#include "support/rounds.h"
#include "support/temporary_folder.h"
#include "tier/manager/groups_rounds.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"

namespace folio::test {
namespace {

using Count = std::atomic<int64_t>;

class GroupsKill : public ::testing::TestWithParam<ModelShape> {
 protected:
  /// In memory where that is to be had: what a killed process has written stays all the same.
  GroupsKill()
      : folder_("/dev/shm"),
        calls_(new(mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0)) Count()) {}
  ~GroupsKill() override { munmap(calls_, sizeof(Count)); }
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
    server_ = std::make_unique<RedisServer>();
  }

  struct Below {
    std::unique_ptr<Tier> disk, redis;
  };
  [[nodiscard]] Below open() const {
    const std::string socket = server_->socket();
    return {make_disk_tier(folder_.path(), {.max_bytes = 2 << 20},
                           {.segment_bytes = 1 << 20, .timeout_ms = no_deadline_ms})
                .value(),
            make_redis_tier(patient({.socket = socket, .absent_ms = 0}),
                            {.threads = 2, .max_bytes = 1 << 20})
                .value()};
  }

  /// Until it is killed. Counts calls.
  [[noreturn]] void work(uint64_t seed) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Rng rng(seed);
    const Below below = open();
    const auto policy = [&] { return static_cast<StorePolicy>(rng.int_between(1, 3)); };
    std::vector<TierOfCache> tiers = {{.tier = below.disk.get(), .policy = policy()},
                                      {.tier = below.redis.get(), .policy = policy()}};
    if (rng.chance(0.5)) std::swap(tiers[0], tiers[1]);
    GroupEngine engine({.model = GetParam(),
                        .pages = few_pages(GetParam()),
                        .tiers = tiers,
                        .manager = {.spare_pages = 2}});
    for (;;) {
      call(engine, rng);
      ++*calls_;
    }
  }

  /// What is there of prompts is right. Returns how many pages that was.
  int64_t check(Rng& rng) {
    const Below below = open();
    std::vector<TierOfCache> tiers = {{.tier = below.disk.get(), .policy = StorePolicy::none},
                                      {.tier = below.redis.get(), .policy = StorePolicy::none}};
    GroupEngine engine(
        {.model = GetParam(), .pages = 40, .tiers = tiers, .manager = {.load_deadline_ms = 0}});
    for (int i = 0; i < 20; ++i) {
      if (engine.admit(any_hybrid_prompt(rng)) == nullptr) break;
      engine.settle();
      engine.check();
      engine.release(0);
    }
    engine.finish();
    for (size_t t = 0; t < tiers.size(); ++t) expect_counted(engine.manager().counters(t).value());
    return engine.manager().figures().loaded_pages;
  }

  TemporaryFolder folder_;
  std::unique_ptr<RedisServer> server_;
  Count* calls_;
};

TEST_P(GroupsKill, at_any_moment_leaves_hits_that_are_right) {
  Rng rng(test_seed());
  int64_t found = 0;
  const int rounds = share_of_rounds(80);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t seed = rng.next();
    const int64_t calls = *calls_ + rng.between(0, 300);
    const pid_t child = fork();
    if (child == 0) work(seed);
    ASSERT_TRUE(comes_true([&] {
      usleep(50);
      return *calls_ >= calls;
    })) << "round "
        << round;
    usleep(static_cast<useconds_t>(rng.between(0, 2000)));
    const bool kills_server = rng.chance(0.2);
    if (kills_server) server_->kill_it();
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    if (kills_server) server_->start();
    found += check(rng);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(found, rounds);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GroupsKill, ::testing::ValuesIn(model_shapes()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace folio::test
