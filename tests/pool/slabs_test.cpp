// SPDX-License-Identifier: Apache-2.0
/// tests/pool/slabs_test.cpp: slabs beside a naive model that knows only what each page is.
#include "pool/groups/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "support/random.h"

namespace folio::test {
namespace {

using pool::PageUse;
using pool::SlabLayout;
using pool::Slabs;

/// Slabs with memory of their own.
struct Arena {
  explicit Arena(const std::vector<int64_t>& page_bytes, int64_t bytes) {
    const SlabLayout layout = pool::lay_out_slabs(page_bytes, bytes);
    const auto groups = static_cast<uint32_t>(page_bytes.size());
    Carver measure(nullptr);
    slabs.carve(measure, layout, groups);
    memory.reset(std::aligned_alloc(64, static_cast<size_t>(measure.bytes())));
    Carver carver(memory.get());
    slabs.carve(carver, layout, groups);
    slabs.start();
  }
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory;
  Slabs slabs;
};

TEST(Slabs, a_slab_is_the_least_common_multiple_of_the_pages) {
  const SlabLayout layout = pool::lay_out_slabs(std::vector<int64_t>{4096, 6144, 0}, 100'000);
  EXPECT_EQ(layout.slab_bytes, 12288);
  EXPECT_EQ(layout.num_slabs, 8U);
  EXPECT_EQ(layout.pages_per_slab[0], 3U);
  EXPECT_EQ(layout.pages_per_slab[1], 2U);
  EXPECT_EQ(layout.pages_per_slab[2], 0U);
  EXPECT_EQ(layout.page_bytes[1], 6144);
}

TEST(Slabs, sizes_whose_multiple_is_too_long_are_padded_by_the_least_power_of_two) {
  const SlabLayout layout =
      pool::lay_out_slabs(std::vector<int64_t>{1'000'003, 1'000'033}, int64_t{1} << 40);
  EXPECT_LE(layout.slab_bytes, pool::max_slab_bytes);
  for (const int g : {0, 1}) {
    EXPECT_EQ(layout.slab_bytes % layout.page_bytes[g], 0);
    EXPECT_EQ(layout.slab_bytes / layout.page_bytes[g], layout.pages_per_slab[g]);
    EXPECT_LT(layout.page_bytes[g], 1'000'003 + 64 * 1024);
  }
}

TEST(Slabs, one_page_may_be_longer_than_a_slab_should_be) {
  const int64_t terabyte = int64_t{1} << 40;
  const SlabLayout layout = pool::lay_out_slabs(std::vector<int64_t>{terabyte, terabyte - 1, 1},
                                                std::numeric_limits<int64_t>::max());
  EXPECT_EQ(layout.slab_bytes, terabyte);
  EXPECT_EQ(layout.pages_per_slab[0], 1U);
  EXPECT_EQ(layout.pages_per_slab[1], 1U);
}

/// What the slabs should say, from the pages alone.
class NaiveSlabs {
 public:
  NaiveSlabs(std::vector<uint32_t> per_slab, uint32_t num_slabs)
      : per_slab_(std::move(per_slab)), pages_(num_slabs), owners_(num_slabs, -1) {}

  std::vector<PageUse>& pages(uint32_t slab) { return pages_[slab]; }
  int& owner(uint32_t slab) { return owners_[slab]; }
  uint32_t used(uint32_t slab) const {
    return static_cast<uint32_t>(
        std::count(pages_[slab].begin(), pages_[slab].end(), PageUse::used));
  }
  /// By giving slabs away one by one.
  bool can_give(const uint32_t (&needs)[pool::max_groups]) const {
    uint64_t slabs = 0;
    for (uint32_t slab = 0; slab < pages_.size(); ++slab) slabs += used(slab) == 0 ? 1 : 0;
    for (uint32_t g = 0; g < per_slab_.size(); ++g) {
      uint32_t left = needs[g];
      for (uint32_t slab = 0; slab < pages_.size(); ++slab) {
        if (used(slab) != 0 && owners_[slab] == static_cast<int>(g))
          left -= std::min(left, per_slab_[g] - used(slab));
      }
      while (left != 0) {
        if (slabs-- == 0) return false;
        left -= std::min(left, per_slab_[g]);
      }
    }
    return true;
  }

 private:
  std::vector<uint32_t> per_slab_;
  std::vector<std::vector<PageUse>> pages_;
  std::vector<int> owners_;
};

TEST(Slabs, any_changes_leave_what_a_naive_model_says) {
  Arena arena({6, 4, 12}, 12 * 5 + 7);
  Slabs& slabs = arena.slabs;
  NaiveSlabs naive({2, 3, 1}, 5);
  Rng rng(7);
  for (int step = 0; step < 20'000; ++step) {
    const auto slab = static_cast<uint32_t>(rng.int_between(0, 4));
    std::vector<PageUse>& pages = naive.pages(slab);
    int& owner = naive.owner(slab);
    if (owner < 0 || (naive.used(slab) == 0 && rng.int_between(0, 5) == 0)) {
      for (uint32_t i = 0; i < pages.size(); ++i) {
        const auto g = static_cast<uint32_t>(owner);
        slabs.set(g, slabs.first_page(g, slab) + i, PageUse::outside);
      }
      owner = rng.int_between(0, 2);
      const auto g = static_cast<uint32_t>(owner);
      pages.assign(slabs.layout().pages_per_slab[g], PageUse::free);
      slabs.claim(slab, g);
      for (uint32_t i = 0; i < pages.size(); ++i)
        slabs.set(g, slabs.first_page(g, slab) + i, PageUse::free);
    }
    const auto g = static_cast<uint32_t>(owner);
    const auto i = static_cast<size_t>(rng.int_between(0, static_cast<int>(pages.size()) - 1));
    pages[i] = static_cast<PageUse>(rng.int_between(1, 4));
    slabs.set(g, slabs.first_page(g, slab) + static_cast<uint32_t>(i), pages[i]);
    ASSERT_EQ(slabs.fault(), nullptr);
    uint32_t needs[pool::max_groups] = {};
    for (uint32_t h = 0; h < 3; ++h) needs[h] = static_cast<uint32_t>(rng.int_between(0, 6));
    ASSERT_EQ(slabs.can_give(needs), naive.can_give(needs));
    NaiveSlabs after = naive;  // some pages more are used
    pool::Revived revived;
    for (uint32_t of = 0; of < 5; ++of) {
      for (uint32_t p = 0; p < after.pages(of).size(); ++p) {
        PageUse& use = after.pages(of)[p];
        if (use == PageUse::used || rng.int_between(0, 3) != 0) continue;
        use = PageUse::used;
        const auto h = static_cast<uint32_t>(after.owner(of));
        slabs.revive(h, slabs.first_page(h, of) + p, revived);
      }
    }
    for (uint32_t of = 0; of < 5; ++of)
      if (after.owner(of) >= 0)
        slabs.forget_revived(static_cast<uint32_t>(after.owner(of)),
                             slabs.first_page(static_cast<uint32_t>(after.owner(of)), of));
    ASSERT_EQ(slabs.can_give(needs, revived), after.can_give(needs));
  }
}

}  // namespace
}  // namespace folio::test
