// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/holds_threads_test.cpp: pages are read without a lock while others come and go.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "folio/tier/host_pages.h"
#include "support/random.h"
#include "support/sanitized.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

constexpr int64_t page_bytes = 1000;
constexpr uint32_t num_names = 40, num_pages = 16;

/// Its own memory, written by one thread after another.
struct Writer {
  std::vector<PageMemory> pages;

  Writer() {
    for (uint32_t name = 0; name < num_names; ++name) {
      pages.emplace_back(std::vector<int64_t>{page_bytes});
      pages.back().fill(name);
    }
  }
};

class HeldByThreads : public ::testing::Test {
 protected:
  /// Stores names at random until the readers have done, from one thread, as it alone polls.
  void write(uint64_t seed) {
    Rng rng(seed);
    while (readers_ > 0) {
      std::vector<TierPage> some;
      for (int i = 0; i < 4; ++i) {
        const auto name = static_cast<uint32_t>(rng.between(0, num_names - 1));
        some.push_back({name_of(name), written_.pages[name].extents()});
      }
      tier_->store(some).value();
      for (const TierCompletion& end : wait_for(*tier_, some.size()))
        stored_ += end.outcome == TierOutcome::done ? 1 : 0;
      const PageName gone = name_of(static_cast<uint32_t>(rng.between(0, num_names - 1)));
      if (rng.chance(0.3)) tier_->drop({&gone, 1}).or_throw();
    }
  }
  /// Holds some, looks at each byte, gives them back; rounds until it has found enough.
  void read(uint64_t seed, int wanted) {
    Rng rng(seed);
    int found = 0;
    while (found < wanted) {
      const auto count = static_cast<size_t>(rng.between(1, 5));
      std::vector<uint32_t> numbers(count);
      std::vector<PageName> names;
      for (uint32_t& number : numbers) {
        number = static_cast<uint32_t>(rng.between(0, num_names - 1));
        names.push_back(name_of(number));
      }
      std::vector<int32_t> pages(count);
      if (!tier_->hold(names, pages).is_ok()) ++wrong_;
      for (size_t i = 0; i < count; ++i) {
        if (pages[i] < 0) continue;
        ++found;
        if (!is_right(pages[i], numbers[i])) ++wrong_;
      }
      if (rng.chance(0.5)) std::this_thread::yield();
      for (size_t i = 0; i < count; ++i)
        if (pages[i] >= 0 && !is_right(pages[i], numbers[i])) ++wrong_;
      tier_->give_back(pages);
    }
    --readers_;
  }
  [[nodiscard]] bool is_right(int32_t page, uint32_t number) const {
    return std::memcmp(slab_.data + page * slab_.page_stride_bytes,
                       written_.pages[number].extents()[0].data, page_bytes) == 0;
  }

  std::unique_ptr<tier::HostTier> tier_ = std::move(
      tier::make_host_tier({.threads = 2, .max_bytes = num_pages * (page_bytes + 128)}, page_bytes)
          .value());
  const tier::HostSlab slab_ = tier_->slab();
  const Writer written_;
  std::atomic<int> readers_ = 3;
  std::atomic<int> wrong_ = 0;
  int64_t stored_ = 0;
};

TEST_F(HeldByThreads, have_their_bytes_until_they_are_given_back) {
  const uint64_t seed = test_seed();
  const int wanted = is_sanitized ? 600 : 3000;
  std::vector<std::thread> readers;
  for (uint64_t reader = 1; reader <= 3; ++reader)
    readers.emplace_back([&, reader] { read(seed + reader, wanted); });
  write(seed);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(stored_, 0);
  EXPECT_GT(tier_->figures().dropped_pages, 0);
  // Nothing is held any more: all pages go for others.
  for (uint32_t name = 100; name < 100 + num_pages; ++name) {
    PageMemory page({page_bytes});
    EXPECT_EQ(store(*tier_, name_of(name), page), TierOutcome::done);
  }
  EXPECT_EQ(tier_->figures().pages, num_pages);
}

}  // namespace
}  // namespace folio::test
