// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/holds_random_test.cpp: random stores, loads, drops and holds against a model
/// that looks at all pages for each of them.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "folio/tier/host_pages.h"
#include "support/random.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

constexpr int64_t page_bytes = 40, room = page_bytes + 128;

/// What a tier of some pages has, and who holds what.
class NaiveTier {
 public:
  explicit NaiveTier(int32_t pages) {
    for (int32_t page = 0; page < pages; ++page) free_.insert(page);
  }

  [[nodiscard]] bool has(uint32_t name) const { return there_.contains(name); }
  [[nodiscard]] int64_t pages() const { return std::ssize(there_); }
  /// Of all pages that are held, whether they have a name still or not.
  struct Held {
    uint32_t content = 0;
    int64_t holds = 0;
  };
  [[nodiscard]] const std::map<int32_t, Held>& held() const { return held_; }

  TierOutcome store(uint32_t name, std::optional<uint32_t> parent) {
    if (has(name)) return use(name), TierOutcome::done;
    if (parent == name) parent.reset();
    while (free_.empty()) {
      const std::optional<uint32_t> goes = oldest(parent);
      if (!goes) return TierOutcome::full;
      drop(*goes);
    }
    there_[name] = {.page = *free_.begin(), .parent = parent, .used = ++clock_};
    free_.erase(free_.begin());
    return TierOutcome::done;
  }
  TierOutcome load(uint32_t name) {
    if (!has(name)) return TierOutcome::missing;
    use(name);
    return TierOutcome::done;
  }
  void drop(uint32_t name) {
    if (!has(name)) return;
    const int32_t page = there_[name].page;
    there_.erase(name);
    if (!held_.contains(page)) free_.insert(page);
  }
  int32_t hold(uint32_t name) {
    if (!has(name)) return -1;
    use(name);
    const int32_t page = there_[name].page;
    held_[page].content = name;
    ++held_[page].holds;
    return page;
  }
  void give_back(int32_t page) {
    if (!held_.contains(page) || --held_[page].holds > 0) return;
    held_.erase(page);
    for (auto& [name, entry] : there_) {
      if (entry.page != page) continue;
      entry.used = ++clock_;
      return;
    }
    free_.insert(page);
  }

 private:
  struct Entry {
    int32_t page = 0;
    std::optional<uint32_t> parent = {};
    int64_t used = 0;
  };
  void use(uint32_t name) { there_[name].used = ++clock_; }
  [[nodiscard]] bool is_continued(uint32_t name) const {
    for (const auto& [other, entry] : there_)
      if (entry.parent == name) return true;
    return false;
  }
  [[nodiscard]] std::optional<uint32_t> oldest(std::optional<uint32_t> kept) const {
    std::optional<uint32_t> found;
    for (const auto& [name, entry] : there_) {
      if (name == kept || held_.contains(entry.page) || is_continued(name)) continue;
      if (!found || entry.used < there_.at(*found).used) found = name;
    }
    return found;
  }

  std::map<uint32_t, Entry> there_;
  std::map<int32_t, Held> held_;
  std::set<int32_t> free_;
  int64_t clock_ = 0;
};

class RandomHolds {
 public:
  RandomHolds(uint64_t seed, int32_t pages, uint32_t names)
      : rng_(seed),
        names_(names),
        naive_(pages),
        tier_(std::move(
            tier::make_host_tier({.threads = 1, .max_bytes = pages * room}, page_bytes).value())) {}

  void step(double give_share) {
    if (rng_.chance(give_share)) return give_back();
    const auto what = rng_.between(0, 9);
    if (what < 4) return store();
    if (what < 5) return load();
    if (what < 6) return drop();
    hold();
  }
  void check() const {
    std::vector<PageName> all;
    for (uint32_t name = 0; name < names_; ++name) all.push_back(name_of(name));
    std::vector<uint8_t> there(names_);
    tier_->find_each(all, there);
    for (uint32_t name = 0; name < names_; ++name)
      ASSERT_EQ(there[name] != 0, naive_.has(name)) << name;
    ASSERT_EQ(tier_->figures().pages, naive_.pages());
    for (const auto& [page, held] : naive_.held())
      ASSERT_TRUE(lies_at(page, held.content)) << held.content << " at " << page;
  }
  [[nodiscard]] int fulls() const { return fulls_; }

 private:
  [[nodiscard]] uint32_t any() { return static_cast<uint32_t>(rng_.between(0, names_ - 1)); }
  [[nodiscard]] bool lies_at(int32_t page, uint32_t name) const {
    PageMemory whole({page_bytes});
    whole.fill(name);
    const tier::HostSlab slab = tier_->slab();
    return std::memcmp(slab.data + page * slab.page_stride_bytes, whole.extents()[0].data,
                       page_bytes) == 0;
  }
  void store() {
    const uint32_t name = any(), parent = any();
    const bool has_parent = rng_.chance(0.6);
    PageMemory page({11, 29});
    page.fill(name);
    const TierOutcome outcome = has_parent
                                    ? test::store(*tier_, name_of(name), page, name_of(parent))
                                    : test::store(*tier_, name_of(name), page);
    fulls_ += outcome == TierOutcome::full ? 1 : 0;
    ASSERT_EQ(outcome, naive_.store(name, has_parent ? std::optional(parent) : std::nullopt));
  }
  void load() {
    const uint32_t name = any();
    PageMemory page({page_bytes}), wanted({page_bytes});
    wanted.fill(name);
    const LoadOrder order = rng_.chance(0.5) ? LoadOrder::pages : LoadOrder::extents;
    const TierOutcome outcome = test::load(*tier_, name_of(name), page, order);
    ASSERT_EQ(outcome, naive_.load(name));
    if (outcome == TierOutcome::done) {
      ASSERT_EQ(page.memory(), wanted.memory());
    }
  }
  void drop() {
    const PageName names[] = {name_of(any())};
    tier_->drop(names).or_throw();
    for (uint32_t name = 0; name < names_; ++name)
      if (name_of(name) == names[0]) naive_.drop(name);
  }
  void hold() {
    std::vector<PageName> names;
    std::vector<int32_t> wanted;
    for (int64_t i = rng_.between(1, 3); i > 0; --i) {
      const uint32_t name = any();
      names.push_back(name_of(name));
      wanted.push_back(naive_.hold(name));
    }
    std::vector<int32_t> pages(names.size(), -7);
    ASSERT_TRUE(tier_->hold(names, pages).is_ok());
    ASSERT_EQ(pages, wanted);
    for (const int32_t page : pages)
      if (page >= 0) holds_.push_back(page);
  }
  void give_back() {
    std::vector<int32_t> pages;
    for (int64_t i = rng_.between(1, 3); i > 0 && !holds_.empty(); --i) {
      const auto at = rng_.between(0, std::ssize(holds_) - 1);
      pages.push_back(holds_[static_cast<size_t>(at)]);
      holds_.erase(holds_.begin() + at);
    }
    if (rng_.chance(0.1)) pages.push_back(rng_.chance(0.5) ? -1 : 10'000);
    tier_->give_back(pages);
    for (const int32_t page : pages) naive_.give_back(page);
  }

  Rng rng_;
  const uint32_t names_;
  NaiveTier naive_;
  std::unique_ptr<tier::HostTier> tier_;
  std::vector<int32_t> holds_;
  int fulls_ = 0;
};

TEST(Holds, are_those_of_a_model_that_looks_at_all_pages) {
  const uint64_t seed = test_seed();
  int fulls = 0;
  for (uint64_t round = 0; round < 12; ++round) {
    Rng rng(seed * 1000 + round);
    const int32_t pages = rng.int_between(1, 12);
    RandomHolds random(seed * 1000 + round, pages, static_cast<uint32_t>(2 * pages + 2));
    for (int step = 0; step < 600; ++step) {
      SCOPED_TRACE("round " + std::to_string(round) + ", step " + std::to_string(step));
      random.step(step % 200 < 100 ? 0.2 : 0.6);  // most are held in turn, and few
      random.check();
      if (::testing::Test::HasFatalFailure()) return;
    }
    fulls += random.fulls();
  }
  EXPECT_GT(fulls, 20) << "stores that found all held";
}

}  // namespace
}  // namespace folio::test
