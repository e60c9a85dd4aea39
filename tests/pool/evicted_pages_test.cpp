// SPDX-License-Identifier: Apache-2.0
/// tests/pool/evicted_pages_test.cpp: who watches evictions is asked for a spare page, or told of
/// one that goes with its slab, and the pool is sound whatever it answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pool/group_helpers.h"
#include "pool/naive_names.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr int32_t page = 4;

/// Has spare pages of each group, and gives one for each page that goes, while it has some.
class Watcher {
 public:
  explicit Watcher(PagePool& pool, int spares) : pool_(pool), idle_(pool.num_groups()) {
    const TokenId token = 0;
    for (int i = 0; i < spares; ++i) {
      const SequenceId id = pool.admit({&token, 1}).value().id;
      pool.reserve(id, 1).or_throw();
      for (uint32_t g = 0; g < pool.num_groups(); ++g)
        idle_[g].push_back(pool.begin_io(id, 0, g).value());
      pool.release(id).or_throw();
    }
    pool.watch_evictions(
            {.function =
                 [](void* self, uint32_t group, uint32_t evicted, const PageName&) noexcept {
                   return static_cast<Watcher*>(self)->give(group, evicted);
                 },
             .context = this,
             .leaving = [](void* self, uint32_t, uint32_t,
                           const PageName&) noexcept { ++static_cast<Watcher*>(self)->left; }})
        .or_throw();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher() {
    pool_.watch_evictions({}).or_throw();
    for (const auto& pins : idle_)
      for (const IoPin pin : pins) pool_.end_io(pin).or_throw();
    for (const Kept& kept : kept_) pool_.end_io(kept.pin).or_throw();
  }

  /// Each pin holds the page that was evicted.
  void check() const {
    for (const Kept& kept : kept_) ASSERT_EQ(pool_.page_of(kept.pin).value(), kept.page);
  }
  /// What has gone longest is not needed any more.
  void let_go() {
    if (kept_.empty()) return;
    idle_[kept_.front().group].push_back(kept_.front().pin);
    kept_.erase(kept_.begin());
  }
  [[nodiscard]] int64_t spares(uint32_t group) const {
    return std::ssize(idle_[group]) +
           std::ranges::count(kept_, group, [](const Kept& kept) { return kept.group; });
  }

  int64_t given = 0, short_of = 0, left = 0;

 private:
  struct Kept {
    uint32_t group = 0, page = 0;
    IoPin pin;
  };
  IoPin give(uint32_t group, uint32_t evicted) {
    if (idle_[group].empty()) {
      ++short_of;
      return {};
    }
    ++given;
    kept_.push_back({group, evicted, idle_[group].back()});
    idle_[group].pop_back();
    return kept_.back().pin;
  }

  PagePool& pool_;
  std::vector<std::vector<IoPin>> idle_;
  std::vector<Kept> kept_;
};

/// Prompts that share beginnings.
Tokens any_prompt(Rng& rng) {
  Tokens prompt;
  const int64_t tokens = rng.between(1, 60);
  for (int64_t t = 0; t < tokens; ++t) prompt.push_back(t % 8 == 2 ? rng.int_between(0, 1) : 7);
  return prompt;
}

/// Takes a step of the prompt's rest, where there is room, and names what is full.
void step(PagePool& pool, SequenceId id, const Tokens& prompt, int64_t tokens) {
  const int64_t done = pool.length(id).value();
  const int64_t end = std::min(done + tokens, std::ssize(prompt));
  if (done == end || !pool.reserve(id, static_cast<int32_t>(end - done)).is_ok()) return;
  for (uint32_t g = 0; g < pool.num_groups(); ++g) static_cast<void>(pool.take_copies(g));
  pool.commit(id, {prompt.data() + done, static_cast<size_t>(end - done)}).or_throw();
  const auto full = static_cast<int32_t>(end / page);
  ASSERT_TRUE(full == 0 || pool.name(id, full - 1));
}

/// Of pages of different sizes, so that slabs have several, and go from group to group.
std::vector<GroupOptions> any_groups(Rng& rng) {
  std::vector<GroupOptions> groups{
      full(64 * rng.between(1, 3)),
      window(64 * rng.between(1, 3), rng.int_between(3, 20), rng.int_between(0, 2)),
      states(32 * rng.between(1, 3), 8)};
  if (rng.chance(0.5)) groups.push_back(window(64, 5));
  return groups;
}

void one_pool(Rng& rng, std::array<int64_t, 3>& sums) {
  NaiveNames names;
  PagePool pool = make_hybrid(any_groups(rng), 192 * rng.between(24, 60), page,
                              {.max_pages_per_sequence = 16,
                               .name = names.function(),
                               .min_partial_tokens = rng.int_between(0, 2),
                               .max_io_pins = 64});
  Watcher watcher(pool, rng.int_between(1, 3));
  std::vector<std::pair<SequenceId, Tokens>> living;
  for (int call = 0; call < 120; ++call) {
    const int64_t what = rng.between(0, 9);
    if (living.empty() || (what < 3 && living.size() < 4)) {
      Tokens prompt = any_prompt(rng);
      if (const Result<Admission> a = pool.admit(prompt)) living.emplace_back(a->id, prompt);
    } else {
      const auto any = static_cast<size_t>(rng.between(0, 3)) % living.size();
      const auto& [id, prompt] = living[any];
      if (what < 7) {
        ASSERT_NO_FATAL_FAILURE(step(pool, id, prompt, rng.between(1, 30)));
      } else if (what < 9) {
        pool.release(id).or_throw();
        living.erase(living.begin() + static_cast<long>(any));
      } else {
        watcher.let_go();
      }
    }
    ASSERT_EQ(pool.check_invariants().message(), "") << "call " << call;
    ASSERT_NO_FATAL_FAILURE(watcher.check()) << "call " << call;
  }
  for (const auto& [id, prompt] : living) pool.release(id).or_throw();
  for (uint32_t g = 0; g < pool.num_groups(); ++g) {
    static_cast<void>(pool.take_copies(g));
    static_cast<void>(pool.take_copies(g));
    EXPECT_EQ(used(pool, g), watcher.spares(g));
  }
  sums[0] += watcher.given;
  sums[1] += watcher.short_of;
  sums[2] += watcher.left;
}

TEST(EvictedPages, of_all_groups_are_asked_for_and_told_of_in_sound_pools) {
  Rng rng(test_seed());
  std::array<int64_t, 3> sums = {};
  for (int round = 0; round < 300; ++round)
    ASSERT_NO_FATAL_FAILURE(one_pool(rng, sums)) << "round " << round;
  for (const int64_t sum : sums) EXPECT_GT(sum, 100);
}

TEST(EvictedPages, that_go_with_their_slab_are_told_of) {
  NaiveNames names;
  // a slab has one page of either group, but of the leading one's all are taken
  PagePool pool =
      make_hybrid({full(64), window(64, 4)}, 8 * 64, page,
                  {.max_pages_per_sequence = 8, .name = names.function(), .max_io_pins = 4});
  Watcher watcher(pool, 1);
  const Tokens prompt = count_from(0, 8);
  const SequenceId first = pool.admit(prompt)->id;
  ASSERT_NO_FATAL_FAILURE(step(pool, first, prompt, 8));
  pool.release(first).or_throw();
  EXPECT_EQ(watcher.given + watcher.left, 0) << "memory has room";
  const Tokens other = count_from(100, 12);
  const SequenceId second = pool.admit(other)->id;
  ASSERT_NO_FATAL_FAILURE(step(pool, second, other, 12));
  EXPECT_EQ(pool.length(second).value(), 12);
  EXPECT_GT(watcher.given + watcher.left, 0);
  EXPECT_EQ(pool.check_invariants().message(), "");
  pool.release(second).or_throw();
}

}  // namespace
}  // namespace folio::test
