// SPDX-License-Identifier: Apache-2.0
/// tests/tier/medium/hostile_medium_test.cpp: a tier over a medium that says what cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using Jobs = std::span<tier::Job* const>;

/// Says what a test wants it to say.
struct Sayings {
  std::function<int32_t(std::span<const PageName>)> find = [](auto) { return 0; };
  std::function<void(Jobs)> run = [](Jobs jobs) {
    for (tier::Job* const job : jobs) job->outcome = TierOutcome::done;
  };
  std::function<void(TierFigures&)> count = [](TierFigures&) {};
  std::function<uint32_t()> batch = [] { return 1U; };
  std::function<bool()> flag = [] { return false; };
  std::function<Status()> fault = [] { return Status(); };
};

class SayingMedium final : public tier::Medium {
 public:
  explicit SayingMedium(Sayings says) : says_(std::move(says)) {}
  bool has(const PageName&) override { return says_.flag(); }
  int32_t find(std::span<const PageName> names) override { return says_.find(names); }
  void run(Jobs jobs) override { says_.run(jobs); }
  void drop(const PageName&) override { static_cast<void>(says_.flag()); }
  uint32_t batch() const override { return says_.batch(); }
  bool loads_in_order() const override { return says_.flag(); }
  bool reaches_device() const override { return says_.flag(); }
  void count(TierFigures& figures) const override { says_.count(figures); }
  Status last_fault() const override { return says_.fault(); }

 private:
  const Sayings says_;
};

std::unique_ptr<Tier> tier_of(Sayings says, uint32_t threads = 1) {
  return tier::make_queued_tier(std::make_unique<SayingMedium>(std::move(says)),
                                {.threads = threads, .max_bytes = 1 << 20})
      .value();
}
[[noreturn]] void throw_it() { throw std::runtime_error("the bucket is gone"); }

TEST(MakeQueuedTier, names_what_is_wrong) {
  const Status null = tier::make_queued_tier(nullptr, {.max_bytes = 1}).error();
  EXPECT_EQ(null.code(), Errc::invalid_argument);
  EXPECT_THAT(std::string(null.message()), HasSubstr("make_queued_tier: medium is null"));
  const auto options = tier::make_queued_tier(std::make_unique<SayingMedium>(Sayings{}), {});
  EXPECT_THAT(std::string(options.error().message()), HasSubstr("max_bytes is 0"));
}

TEST(HostileMedium, finds_no_more_than_was_asked_for_and_no_less_than_nothing) {
  const PageName names[] = {name_of(1), name_of(2)};
  for (const auto& [said, found] :
       {std::pair{-1, 0}, std::pair{std::numeric_limits<int32_t>::min(), 0}, std::pair{3, 2},
        std::pair{std::numeric_limits<int32_t>::max(), 2}})
    EXPECT_EQ(tier_of({.find = [said](auto) { return said; }})->find(names), found);
}

TEST(HostileMedium, ends_its_jobs_as_jobs_can_end) {
  PageMemory page({10});
  for (int said = 0; said < 256; ++said) {
    const auto outcome = static_cast<TierOutcome>(said);
    const auto tier = tier_of({.run = [&](Jobs jobs) { jobs.front()->outcome = outcome; }});
    using enum TierOutcome;
    const bool is_of_all = outcome == done || outcome == failed;
    const bool is_of_loads = is_of_all || outcome == missing || outcome == corrupt;
    EXPECT_EQ(load(*tier, name_of(1), page), is_of_loads ? outcome : failed);
    EXPECT_EQ(store(*tier, name_of(1), page), is_of_all || outcome == full ? outcome : failed);
  }
}

TEST(HostileMedium, ends_each_page_once_though_it_changes_the_job) {
  PageMemory page({10, 10});
  const auto tier = tier_of({.run = [](Jobs jobs) {
    tier::Job& job = *jobs.front();
    job.outcome = TierOutcome::missing;
    job.outcome = TierOutcome::done;
    job.kind = static_cast<tier::Job::Kind>(77);
    job.order = static_cast<LoadOrder>(77);
    job.name = name_of(9);
    job.extents.clear();
    job.landed = std::numeric_limits<uint32_t>::max();
  }});
  EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  EXPECT_EQ(load(*tier, name_of(1), page), TierOutcome::done);
  const TierFigures figures = tier->figures();
  EXPECT_EQ(figures.stored_bytes, 20);
  EXPECT_EQ(figures.loaded_bytes, 20);
  EXPECT_EQ(figures.queued_pages, 0);
  TierCompletion none[1];
  EXPECT_EQ(tier->poll(none), 0U);
}

TEST(HostileMedium, counts_what_is_its_own_and_nothing_below_zero) {
  const auto tier = tier_of({.count = [](TierFigures& figures) {
    figures.pages = -1;
    figures.bytes = std::numeric_limits<int64_t>::min();
    figures.dropped_pages = 7;
    figures.loaded_pages = figures.queued_pages = figures.load_outcomes[0] = -5;
  }});
  TierFigures expected;
  expected.dropped_pages = 7;
  EXPECT_EQ(tier->figures(), expected);
}

TEST(HostileMedium, has_batches_of_one_page_at_least_and_of_no_more_than_there_may_be) {
  for (const uint32_t said : {0U, std::numeric_limits<uint32_t>::max()}) {
    int32_t asked = 0;
    size_t most = 0;
    const auto tier = tier_of({.run =
                                   [&](Jobs jobs) {
                                     most = std::max(most, jobs.size());
                                     for (tier::Job* const job : jobs)
                                       job->outcome = TierOutcome::done;
                                   },
                               .batch = [&] { return ++asked == 1 ? said : 3U; }});
    PageMemory page({10});
    const std::vector<TierPage> pages(20'000, TierPage{name_of(1), page.extents()});
    static_cast<void>(tier->store(pages).value());
    EXPECT_EQ(wait_for(*tier, pages.size()).size(), pages.size());
    EXPECT_EQ(asked, 1) << "what it says later is not heard";
    EXPECT_LE(most, said == 0 ? 1U : tier::Medium::most_in_batch);
  }
}

TEST(HostileMedium, lands_no_extents_of_stores_nor_more_than_there_are_nor_fewer_than_before) {
  std::mutex mutex;
  std::condition_variable changed;
  tier::Job* running = nullptr;
  bool may_end = false;
  const auto tier = tier_of({.run = [&](Jobs jobs) {
    std::unique_lock lock(mutex);
    running = jobs.front();
    changed.notify_all();
    changed.wait(lock, [&] { return may_end; });
    running = nullptr;
    may_end = false;
    jobs.front()->outcome = TierOutcome::done;
  }});
  PageMemory page({10, 10, 10});
  const TierPage pages[] = {{name_of(1), page.extents()}};
  for (const bool is_store : {true, false}) {
    const TierTicket ticket = (is_store ? tier->store(pages) : tier->load(pages, 0)).value();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return running != nullptr; });
    running->landed = 2;
    EXPECT_EQ(tier->landed(ticket), is_store ? 0U : 2U);
    running->landed = 1;
    EXPECT_EQ(tier->landed(ticket), is_store ? 0U : 2U);
    running->landed = std::numeric_limits<uint32_t>::max();
    EXPECT_EQ(tier->landed(ticket), is_store ? 0U : 3U);
    may_end = true;
    changed.notify_all();
    lock.unlock();
    wait_for(*tier, 1);
  }
}

TEST(HostileMedium, may_throw_from_every_call_and_the_tier_says_what) {
  PageMemory page({10});
  const PageName name = name_of(1);
  const auto expect_fault = [](const Tier& tier, const char* call) {
    EXPECT_EQ(tier.last_fault().code(), Errc::io);
    EXPECT_THAT(std::string(tier.last_fault().message()),
                HasSubstr(std::string("Medium::") + call + " threw: the bucket is gone"));
  };
  const auto running = tier_of({.run = [](Jobs jobs) {
    jobs.front()->outcome = TierOutcome::done;
    throw_it();
  }});
  EXPECT_TRUE(running->last_fault().is_ok());
  EXPECT_EQ(load(*running, name, page), TierOutcome::failed);
  expect_fault(*running, "run");
  EXPECT_EQ(store(*running, name, page), TierOutcome::failed);
  const auto finding = tier_of({.find = [](auto) -> int32_t { throw_it(); }});
  EXPECT_EQ(finding->find({&name, 1}), 0);
  expect_fault(*finding, "find");
  const auto counting = tier_of({.count = [](TierFigures& figures) {
    figures.pages = 3;
    throw_it();
  }});
  EXPECT_EQ(counting->figures().bytes, 0);
  expect_fault(*counting, "count");
  const auto speechless = tier_of({.fault = []() -> Status { throw_it(); }});
  expect_fault(*speechless, "last_fault");
  const auto dropping =
      tier_of({.batch = []() -> uint32_t { throw_it(); }, .flag = []() -> bool { throw_it(); }});
  EXPECT_EQ(load(*dropping, name, page), TierOutcome::done);
  expect_fault(*dropping, "reaches_device");
  EXPECT_TRUE(dropping->drop({&name, 1}).is_ok());
  expect_fault(*dropping, "drop");
  const auto odd = tier_of({.run = [](Jobs) { throw 7; }});
  EXPECT_EQ(load(*odd, name, page), TierOutcome::failed);
  EXPECT_THAT(std::string(odd->last_fault().message()), HasSubstr("what is no std::exception"));
}

TEST(PageHeaders, tell_their_page_from_every_other) {
  PageMemory page({100, 7});
  page.fill(1);
  const PageName name = name_of(1), other = name_of(2);
  const auto header = tier::make_page_header(name, {}, page.extents());
  const auto fault = [&](std::span<const std::byte> said, const PageName& of,
                         const Digest256& model) -> std::string {
    const char* const words = tier::fault_of_page(said, of, model, page.extents());
    return words == nullptr ? "" : words;
  };
  EXPECT_EQ(fault(header, name, {}), "");
  EXPECT_EQ(fault(header, other, {}), "another page");
  EXPECT_EQ(fault(header, name, other), "another model or geometry");
  EXPECT_EQ(fault(std::span(header).first(127), name, {}), "a header of another size");
  EXPECT_EQ(fault({}, name, {}), "a header of another size");
  auto damaged = header;
  for (std::byte& byte : damaged) {
    byte ^= std::byte{4};
    EXPECT_NE(fault(damaged, name, {}), "");
    byte ^= std::byte{4};
  }
  page.extents().back().data[6] ^= std::byte{1};
  EXPECT_EQ(fault(header, name, {}), "damaged bytes");
  const PageMemory larger({101, 7});
  EXPECT_STREQ(tier::fault_of_page(header, name, {}, larger.extents()), "another size");
}

}  // namespace
}  // namespace folio::test
