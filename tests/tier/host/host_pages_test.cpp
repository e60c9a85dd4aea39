// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/host_pages_test.cpp: pages of a host tier that are held where they lie.
#include "folio/tier/host_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "folio/testing/medium_conformance.h"
#include "folio/tier/host_tier.h"
#include "support/sanitized.h"
#include "tier/device/unreachable_device.h"
#include "tier/host/host_medium.h"
#include "tier/hostile/refusals.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using tier::HostSlab;
using tier::HostTier;
using tier::make_host_tier;

constexpr int64_t header = 128;

// ---- What every tier keeps

TEST(ArenaMedium, keeps_what_every_medium_keeps) {
  tier::HostMedium* medium = nullptr;
  const auto make = [&](const TierOptions& options) -> Result<std::unique_ptr<tier::Medium>> {
    auto made = tier::make_arena_medium(options, 10'000);
    if (!made) return made.error();
    medium = made->get();
    return std::unique_ptr<tier::Medium>(std::move(*made));
  };
  const tier::MediumReport report = tier::check_medium({.make = make,
                                                        .options = {.max_bytes = 500'000},
                                                        .tells = true,
                                                        .too_many_pages = 60,
                                                        .damage = [&](const PageName&) {
                                                          // the lowest page: others were dropped
                                                          medium->arena().data()[4000] ^=
                                                              std::byte{1};
                                                        }});
  EXPECT_TRUE(report.is_ok()) << report.text();
  EXPECT_THAT(report.left_out, ElementsAre("what_is_kept_is_there_for_the_next_one",
                                           "pages_of_another_model_are_none"));
}

/// Room for so many pages of 100 bytes.
class HostPages : public ::testing::Test {
 protected:
  static constexpr int64_t page_bytes = 100;

  void make_room_for(int64_t pages, int64_t more = 0) {
    tier_ = make_host_tier({.max_bytes = pages * (page_bytes + header) + more}, page_bytes).value();
    slab_ = tier_->slab();
  }
  TierOutcome put(uint32_t i) {
    PageMemory page({60, 40});
    page.fill(i);
    return store(*tier_, name_of(i), page);
  }
  TierOutcome put(uint32_t i, uint32_t parent) {
    PageMemory page({page_bytes});
    page.fill(i);
    return store(*tier_, name_of(i), page, name_of(parent));
  }
  void drop(uint32_t i) {
    const PageName name = name_of(i);
    tier_->drop({&name, 1}).or_throw();
  }
  int32_t hold(uint32_t i) {
    const PageName name = name_of(i);
    int32_t page = -9;
    EXPECT_TRUE(tier_->hold({&name, 1}, {&page, 1}).is_ok());
    return page;
  }
  void give_back(int32_t page) { tier_->give_back({&page, 1}); }
  bool has(uint32_t i) {
    const PageName name = name_of(i);
    return tier_->find({&name, 1}) == 1;
  }
  [[nodiscard]] std::byte* at(int32_t page) const {
    return slab_.data + page * slab_.page_stride_bytes;
  }
  /// Whether that page's bytes lie there.
  [[nodiscard]] bool is_there(int32_t page, uint32_t i) const {
    PageMemory whole({page_bytes});
    whole.fill(i);
    return std::memcmp(at(page), whole.extents()[0].data, page_bytes) == 0;
  }

  std::unique_ptr<HostTier> tier_;
  HostSlab slab_;
};

TEST_F(HostPages, lie_at_one_stride_as_many_as_there_is_room_for) {
  make_room_for(5, header);
  EXPECT_EQ(slab_.pages, 5);
  EXPECT_EQ(slab_.page_bytes, 100);
  EXPECT_EQ(slab_.page_stride_bytes, 128);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(slab_.data) % 64, 0u);
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(put(i), TierOutcome::done);
  EXPECT_EQ(tier_->figures().pages, 5);
  EXPECT_EQ(tier_->figures().bytes, 5 * (page_bytes + header));
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(is_there(hold(i), i));
    PageMemory back({page_bytes}), wanted({page_bytes});
    wanted.fill(i);
    EXPECT_EQ(load(*tier_, name_of(i), back), TierOutcome::done);
    EXPECT_EQ(back.memory(), wanted.memory());
  }
}

TEST_F(HostPages, that_are_not_there_have_no_place) {
  make_room_for(3);
  EXPECT_EQ(put(1), TierOutcome::done);
  const PageName names[] = {name_of(2), name_of(1), name_of(1), name_of(9)};
  int32_t pages[] = {7, 7, 7, 7};
  EXPECT_TRUE(tier_->hold(names, pages).is_ok());
  EXPECT_THAT(pages, ElementsAre(-1, 0, 0, -1));
  EXPECT_TRUE(tier_->hold({}, {}).is_ok());
}

TEST_F(HostPages, that_are_held_do_not_go_for_others) {
  make_room_for(3);
  for (const uint32_t i : {0U, 1U, 2U}) put(i);
  const int32_t page = hold(0);  // and is now the one used last
  hold(0);
  EXPECT_EQ(put(3), TierOutcome::done) << "1 has gone";
  EXPECT_EQ(put(4), TierOutcome::done) << "2 has gone";
  EXPECT_EQ(put(5), TierOutcome::done) << "3 has gone";
  EXPECT_TRUE(has(0));
  EXPECT_FALSE(has(3));
  EXPECT_TRUE(is_there(page, 0));
  give_back(page);
  EXPECT_EQ(put(6), TierOutcome::done);
  EXPECT_EQ(put(7), TierOutcome::done);
  EXPECT_TRUE(has(0)) << "a hold is left";
  give_back(page);
  EXPECT_EQ(put(8), TierOutcome::done);
  EXPECT_EQ(put(9), TierOutcome::done);
  EXPECT_TRUE(has(0)) << "used until just now";
  EXPECT_EQ(put(10), TierOutcome::done);
  EXPECT_FALSE(has(0));
}

TEST_F(HostPages, that_are_all_held_leave_no_room) {
  make_room_for(2);
  put(0);
  put(1);
  const int32_t first = hold(0), second = hold(1);
  EXPECT_EQ(put(2), TierOutcome::full);
  EXPECT_EQ(put(1), TierOutcome::done) << "it is there";
  EXPECT_EQ(tier_->figures().pages, 2);
  EXPECT_EQ(tier_->figures().dropped_pages, 0);
  give_back(second);
  EXPECT_EQ(put(3, 1), TierOutcome::full) << "what it continues does not go for it";
  EXPECT_EQ(put(2), TierOutcome::done);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(is_there(first, 0));
}

TEST_F(HostPages, that_are_dropped_while_held_keep_their_place) {
  make_room_for(2);
  put(0);
  const int32_t page = hold(0);
  drop(0);
  EXPECT_FALSE(has(0));
  EXPECT_EQ(hold(0), -1);
  EXPECT_EQ(tier_->figures().pages, 0);
  EXPECT_EQ(put(1), TierOutcome::done);
  EXPECT_EQ(put(0), TierOutcome::done) << "1 has gone: the other place is held";
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(is_there(page, 0));
  const int32_t again = hold(0);
  EXPECT_NE(again, page);
  give_back(page);  // changes nothing of the new one
  EXPECT_EQ(put(2), TierOutcome::done);
  EXPECT_EQ(hold(2), page);
  EXPECT_EQ(put(3), TierOutcome::full);
  EXPECT_TRUE(is_there(again, 0));
}

TEST_F(HostPages, that_are_held_keep_those_that_they_continue) {
  make_room_for(3);
  put(0);
  put(1, 0);
  put(2, 1);
  const int32_t page = hold(1);
  EXPECT_EQ(put(10), TierOutcome::done) << "2 has gone";
  EXPECT_EQ(put(11), TierOutcome::done) << "10 has gone: 1 is held, 0 goes before it never";
  EXPECT_TRUE(has(0));
  EXPECT_TRUE(has(1));
  give_back(page);
  EXPECT_EQ(put(12), TierOutcome::done) << "11 has gone: used longer ago than 1";
  EXPECT_EQ(put(13), TierOutcome::done);
  EXPECT_FALSE(has(1));
}

TEST_F(HostPages, are_looked_at_once_when_they_are_first_held) {
  make_room_for(3);
  for (const uint32_t i : {0U, 1U}) put(i);
  at(0)[99] ^= std::byte{1};  // of a page that nobody holds: as faulty memory would
  const PageName names[] = {name_of(0), name_of(1), name_of(0)};
  int32_t pages[3];
  EXPECT_TRUE(tier_->hold(names, pages).is_ok());
  EXPECT_THAT(pages, ElementsAre(-1, 1, -1));
  at(0)[99] ^= std::byte{1};
  EXPECT_EQ(hold(0), -1) << "it stays corrupt";
  EXPECT_EQ(put(2), TierOutcome::done);
  EXPECT_EQ(put(3), TierOutcome::done);
  EXPECT_FALSE(has(0)) << "nobody holds it";
  at(1)[0] ^= std::byte{1};
  EXPECT_EQ(hold(1), 1) << "it was sound";
  PageMemory back({page_bytes});
  EXPECT_EQ(load(*tier_, name_of(1), back), TierOutcome::corrupt) << "loads look each time";
  drop(0);
  EXPECT_EQ(put(0), TierOutcome::done);
  EXPECT_GE(hold(0), 0);
}

TEST_F(HostPages, of_another_size_are_kept_and_not_held) {
  make_room_for(2);
  PageMemory shorter({99}), longer({101});
  shorter.fill(1);
  EXPECT_EQ(store(*tier_, name_of(1), shorter), TierOutcome::done);
  EXPECT_EQ(store(*tier_, name_of(2), longer), TierOutcome::full);
  EXPECT_EQ(hold(1), -1);
  EXPECT_EQ(load(*tier_, name_of(1), shorter), TierOutcome::done);
  EXPECT_EQ(tier_->figures().bytes, 99 + header);
}

TEST_F(HostPages, outlive_a_fork_on_either_side) {
  if (is_thread_sanitized) GTEST_SKIP() << "it bears no forks of programs with threads";
  make_room_for(1);
  put(1);
  const int32_t page = hold(1);
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char told = 0;
    const bool is_told = read(go[0], &told, 1) == 1;
    _exit(is_told && is_there(page, 1) ? 0 : 1);
  }
  give_back(page);
  EXPECT_EQ(put(2), TierOutcome::done) << "in the same place";
  EXPECT_TRUE(is_there(hold(2), 2));
  EXPECT_EQ(write(go[1], "g", 1), 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child sees 1, as it was";
  close(go[0]);
  close(go[1]);
}

// ---- What cannot be

TEST_F(HostPages, are_given_back_by_those_that_hold_them_alone) {
  make_room_for(2);
  put(0);
  put(1);
  const int32_t page = hold(1);
  const int32_t none[] = {-1, 0, 2, least_int32, most_int32};
  tier_->give_back(none);
  tier_->give_back({});
  tier_->give_back(null_span<const int32_t>());
  EXPECT_EQ(put(2), TierOutcome::done) << "0 has gone, 1 is held still";
  EXPECT_TRUE(has(1));
  const int32_t twice[] = {page, page};
  tier_->give_back(twice);
  hold(1);
  EXPECT_EQ(put(3), TierOutcome::done);
  EXPECT_TRUE(has(1)) << "one hold, whatever came back before";
}

TEST_F(HostPages, refuse_places_that_are_not_as_many_as_names) {
  make_room_for(2);
  put(0);
  const PageName names[] = {name_of(0), name_of(0)};
  int32_t pages[2] = {5, 5};
  expect_refusal(tier_->hold(names, {pages, 1}), "HostTier::hold: pages are 1, expected 2");
  expect_refusal(tier_->hold({}, pages), "HostTier::hold: pages are 2, expected 0");
  expect_refusal(tier_->hold(null_span<const PageName>(2), pages),
                 "HostTier::hold: names is null, expected memory of size 2");
  expect_refusal(tier_->hold(names, null_span<int32_t>(2)),
                 "HostTier::hold: pages is null, expected memory of size 2");
  EXPECT_THAT(pages, ElementsAre(5, 5));
  EXPECT_EQ(put(1), TierOutcome::done);
  EXPECT_EQ(put(2), TierOutcome::done);
  EXPECT_FALSE(has(0)) << "nothing was held";
}

TEST(HostPagesRefusals, name_what_no_slab_is_made_of) {
  const auto make = [](TierOptions options, int64_t page_bytes) {
    return make_host_tier(options, page_bytes);
  };
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, least_int64, most_int64})
    expect_refusal(
        make({.max_bytes = 1 << 20}, bytes),
        "make_host_tier: page_bytes is " + std::to_string(bytes) + ", expected 1 .. 1099511627776");
  expect_refusal(make({.max_bytes = 0}, 100), "max_bytes is 0, expected 1 .. ");
  expect_refusal(make({.threads = 0, .max_bytes = 1 << 20}, 100), "threads is 0");
  expect_refusal(make({.max_bytes = 227}, 100),
                 "make_host_tier: options.max_bytes is 227, expected 228 or more: a page of 100 "
                 "bytes and its header");
  expect_refusal(make({.max_bytes = most_int64}, 100),
                 "make_host_tier: options.max_bytes is 9223372036854775807, expected at most "
                 "489626271516: 2147483647 pages of 100 bytes and their headers");
  expect_refusal(
      make({.max_bytes = 1 << 20, .device = std::make_shared<UnreachableDevice>(4096)}, 100),
      "make_host_tier: options.device is given, expected null");
  expect_refusal(make({.max_bytes = most_int64}, int64_t{1} << 33),
                 "make_host_tier: no address space for 1073741808 pages of 8589934592 bytes",
                 Errc::out_of_memory);
}

}  // namespace
}  // namespace folio::test
