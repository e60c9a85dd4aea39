// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/row_changes_test.cpp: an engine that calls the pool itself while pages are on
/// their way, and what the pool says then.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tier/manager/shared_loads.h"

namespace folio::test {
namespace {

/// A pool, a manager and two tiers, of prompts with items: what the pool gives names by.
class CacheManagerNames : public ::testing::Test {
 protected:
  using Tokens = std::vector<TokenId>;
  static constexpr KVShape shape{.head_size = 8, .page_size = 4, .dtype = DType::f32};
  static constexpr int32_t num_pages = 32;
  static constexpr ContentSpan image[] = {{.offset = 4, .length = 8, .hash = {{0xaa}}}};

  /// Sha256Names, until somebody says that all is of another adapter.
  static Status give(void* context, const PageContent& page, PageName* name) noexcept {
    auto& self = *static_cast<CacheManagerNames*>(context);
    PageContent content = page;
    content.adapter += self.shift_;
    const NameFunction names = self.names_.function();
    return names.function(names.context, content, name);
  }
  CacheManager make_manager() {
    const TierOfCache tiers[] = {{.tier = &host_, .policy = StorePolicy::write_through},
                                 {.tier = &disk_, .policy = StorePolicy::write_back}};
    return CacheManager::create({.pool = &pool_, .planes = planes_, .tiers = tiers}).value();
  }
  void settle() {
    do manager_.poll();
    while (manager_.figures().stores + manager_.figures().loads != 0);
  }
  /// K/V of these bytes for the tokens behind the sequence's.
  void compute(SequenceId id, std::span<const TokenId> tokens, int byte) {
    const auto first = static_cast<size_t>(pool_.length(id).value());
    const auto rest = tokens.subspan(first);
    pool_.reserve(id, static_cast<int32_t>(rest.size())).or_throw();
    ASSERT_TRUE(pool_.take_copies().empty());
    for (size_t p = first / 4; p * 4 < tokens.size(); ++p)
      std::memset(page(id, p), byte, static_cast<size_t>(page_bytes(shape).value()));
    manager_.commit(id, rest).or_throw();
  }
  std::byte* page(SequenceId id, size_t position) {
    const int64_t row = pool_.row_start(id).value();
    const uint32_t entry = pool_.table().entries[row + static_cast<int64_t>(position)];
    return memory_.data() + entry * page_bytes(shape).value();
  }
  PageName name_of_text(const Tokens& tokens, size_t position) {
    PageName name;
    for (size_t p = 0; p <= position; ++p) {
      const PageName parent = name;
      give(this,
           {.parent = p == 0 ? nullptr : &parent, .tokens = std::span(tokens).subspan(4 * p, 4)},
           &name)
          .or_throw();
    }
    return name;
  }

  uint64_t shift_ = 0;
  Sha256Names names_ = Sha256Names::create().value();
  ManualTier host_, disk_;
  PagePool pool_ = std::move(PagePool::create({.num_pages = num_pages,
                                               .page_size = 4,
                                               .name = {.function = give, .context = this},
                                               .min_partial_tokens = 1,
                                               .max_spans = 2,
                                               .max_io_pins = 32}))
                       .value();
  Buffer memory_ = Buffer::allocate(page_bytes(shape).value() * num_pages).value();
  std::vector<KVPlanes> planes_ = make_planes(shape, num_pages, memory_.span()).value();
  CacheManager manager_ = make_manager();
  const Tokens tokens_ = {0, 1, 2, 3, 7, 7, 7, 7, 7, 7, 7, 7, 12, 13, 14, 15, 16};
};

TEST_F(CacheManagerNames, are_those_of_text_where_trim_has_taken_the_items_away) {
  const SequenceId id = manager_.admit(tokens_, {.spans = image}).value().id;
  compute(id, tokens_, 0xaa);
  settle();
  pool_.trim(id, 2).or_throw();
  manager_.preempt(id).or_throw();
  settle();
  pool_.clear().or_throw();
  const TieredAdmission a = manager_.resume(id, tokens_).value();
  EXPECT_EQ(a.loading_tokens, 4) << "the page before the image, which the tier has";
  settle();
  EXPECT_EQ(pool_.length(id).value(), 4);
  compute(id, tokens_, 0x11);
  manager_.release(id).or_throw();
  settle();
  const auto stored = disk_.pages.find(name_of_text(tokens_, 1));
  ASSERT_NE(stored, disk_.pages.end());
  EXPECT_EQ(stored->second[0], std::byte{0x11});
  const SequenceId text = manager_.admit(tokens_).value().id;
  EXPECT_EQ(pool_.length(text).value(), 16);
  EXPECT_EQ(*page(text, 1), std::byte{0x11});
}

TEST_F(CacheManagerNames, of_forks_and_of_sequences_of_the_pool_find_what_tiers_have) {
  const SequenceId id = manager_.admit(tokens_, {.salt = "a", .spans = image}).value().id;
  compute(id, tokens_, 0xaa);
  const SequenceId child = pool_.fork(id, 13).value();
  const SequenceId own = pool_.admit(tokens_, {.salt = "a", .spans = image}).value().id;
  manager_.release(id).or_throw();
  for (const SequenceId other : {child, own}) {
    (void)pool_.take_copies();
    manager_.preempt(other).or_throw();
    settle();
  }
  (void)pool_.take_copies();  // those that were taken last have run
  pool_.clear().or_throw();
  for (const SequenceId other : {child, own}) {
    EXPECT_EQ(manager_.resume(other, tokens_).value().loading_tokens, 16);
    settle();
    EXPECT_EQ(*page(other, 1), std::byte{0xaa});
    manager_.release(other).or_throw();
    settle();
    pool_.clear().or_throw();
  }
}

TEST_F(CacheManagerNames, that_the_pool_gives_no_more_end_the_load) {
  const SequenceId id = manager_.admit(tokens_).value().id;
  compute(id, tokens_, 0x22);
  manager_.release(id).or_throw();
  settle();
  pool_.clear().or_throw();
  const TieredAdmission a = manager_.admit(tokens_).value();
  EXPECT_EQ(a.loading_tokens, 16);
  shift_ = 1;
  settle();
  EXPECT_EQ(manager_.load_state(a.id), LoadState::cut_short);
  EXPECT_EQ(pool_.length(a.id).value(), 0);
  EXPECT_EQ(manager_.figures().lost_pages, 4);
  EXPECT_EQ(pool_.stats().used_pages, 0) << "the room is given back";
}

TEST_F(CacheManagerNames, of_a_prompt_with_items_are_asked_for_behind_a_hit_within_a_page) {
  const SequenceId id = manager_.admit(tokens_, {.spans = image}).value().id;
  compute(id, tokens_, 0xaa);
  manager_.release(id).or_throw();
  settle();
  pool_.clear().or_throw();
  Tokens other(tokens_.begin(), tokens_.begin() + 6);
  other.push_back(99);
  const SequenceId beside = pool_.admit(other, {.spans = {}}).value().id;
  compute(beside, other, 0x33);
  manager_.release(beside).or_throw();
  settle();
  const ContentSpan late[] = {{.offset = 8, .length = 4, .hash = {{0xbb}}}};
  const SequenceId first = manager_.admit(tokens_, {.spans = late}).value().id;
  settle();
  (void)pool_.take_copies();
  compute(first, tokens_, 0x44);
  manager_.release(first).or_throw();
  settle();
  (void)pool_.take_copies();
  pool_.clear().or_throw();
  const SequenceId again = pool_.admit(other).value().id;
  compute(again, other, 0x33);
  manager_.release(again).or_throw();
  settle();
  const TieredAdmission a = manager_.admit(tokens_, {.spans = late}).value();
  EXPECT_EQ(a.cached_tokens, 4) << "of 6 in memory";
  EXPECT_EQ(a.loading_tokens, 12);
  settle();
  EXPECT_EQ(pool_.length(a.id).value(), 16);
  EXPECT_EQ(*page(a.id, 2), std::byte{0x44});
}

/// Loads of `prompt`, four full pages, that wait for their pages.
class CacheManagerRows : public SharedLoads {
 protected:
  CacheManagerRows() { EXPECT_NE(engine_.admit(prompt), nullptr); }
  PagePool& pool() { return engine_.pool(); }
  CacheManager& manager() { return engine_.manager(); }
  SequenceId id() { return engine_.id(0); }
  /// With the bytes of other pages.
  void end_all() {
    for (ManualTier::Pending& page : tier_.pending) page.is_cancelled = false;
    end_pages(tier_.pending.size());
  }
};

TEST_F(CacheManagerRows, that_have_other_pages_are_not_the_loads_any_more) {
  tier_.end(1);
  manager().poll();  // page 1 has ended, and waits for page 0
  pool().trim(id(), 0).or_throw();
  pool().reserve(id(), 17).or_throw();
  EXPECT_EQ(manager().layers_ready(id()), 0);
  end_all();
  EXPECT_EQ(engine_.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine_.length(0), 0);
  EXPECT_EQ(manager().figures().changed_pages, 4);
  EXPECT_EQ(manager().figures().lost_pages, 4);
  EXPECT_EQ(pool().explain(id(), 17).value().needed, 0) << "the engine's room is its own";
  finish();
}

TEST_F(CacheManagerRows, that_are_shorter_get_nothing_of_the_load) {
  end_pages(2);
  EXPECT_EQ(engine_.length(0), 8);
  pool().trim(id(), 3).or_throw();
  pool().reserve(id(), 14).or_throw();
  copy_pages(engine_.planes(), engine_.planes(), pool().take_copies(), serial_executor())
      .or_throw();
  end_all();
  EXPECT_EQ(engine_.length(0), 3);
  EXPECT_EQ(manager().figures().changed_pages, 2);
  finish();
}

TEST_F(CacheManagerRows, are_committed_again_when_the_engine_asks_first) {
  pool().trim(id(), 0).or_throw();
  EXPECT_TRUE(engine_.load_state(0) == LoadState::loading) << "nobody has looked";
  pool().reserve(id(), 17).or_throw();
  EXPECT_TRUE(manager().commit(id(), {}).is_ok());
  EXPECT_EQ(engine_.load_state(0), LoadState::cut_short);
  finish();
}

TEST_F(CacheManagerRows, are_committed_by_nobody_else_while_they_load) {
  const TokenId token[] = {5};
  EXPECT_EQ(pool().commit(id(), token).code(), Errc::busy);
  EXPECT_EQ(manager().commit(id(), token).code(), Errc::busy);
  end_all();
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  finish();
}

TEST_F(CacheManagerRows, that_are_resumed_have_one_load_the_new_one) {
  const size_t first = tier_.pending.size();
  pool().preempt(id()).or_throw();
  engine_.resume(0);
  ASSERT_EQ(tier_.pending.size(), 2 * first);
  EXPECT_EQ(manager().figures().changed_pages, 4);
  end_pages(first);
  EXPECT_EQ(engine_.load_state(0), LoadState::loading);
  EXPECT_EQ(engine_.length(0), 0);
  end_pages(first);
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  EXPECT_EQ(engine_.length(0), 16);
  finish();
}

TEST_F(CacheManagerRows, that_another_sequence_has_taken_over_are_not_written_by_the_tier) {
  ASSERT_NE(engine_.admit(Tokens{7}), nullptr);
  const SequenceId kept = engine_.id(1), loading = id();
  const SequenceId tree[] = {kept, loading};
  pool().keep_path(tree, 1).or_throw();
  EXPECT_EQ(pool().length(kept).value(), 0);
  EXPECT_EQ(pool().explain(kept, 17).value().needed, 5) << "what comes is not for it";
  engine_.forget(0);
  ASSERT_TRUE(engine_.compute(0));
  end_all();
  EXPECT_EQ(engine_.length(0), 1);
  EXPECT_EQ(manager().figures().changed_pages, 4);
  finish();
}

TEST_F(CacheManagerRows, of_followers_that_change_get_nothing_either) {
  ASSERT_NE(engine_.admit(longer), nullptr);
  EXPECT_EQ(tier_.pending.size(), 6U);
  const SequenceId follower = engine_.id(1);
  EXPECT_EQ(pool().commit(follower, Tokens{1}).code(), Errc::busy);
  pool().trim(follower, 0).or_throw();
  pool().reserve(follower, 25).or_throw();
  end_all();
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  EXPECT_EQ(engine_.load_state(1), LoadState::cut_short);
  EXPECT_EQ(engine_.length(1), 0);
  EXPECT_EQ(manager().figures().changed_pages, 6);
  finish();
}

TEST_F(CacheManagerRows, of_leaders_that_change_leave_their_followers) {
  ASSERT_NE(engine_.admit(longer), nullptr);
  end_pages(2);
  EXPECT_EQ(engine_.length(1), 8);
  pool().trim(id(), 1).or_throw();
  ASSERT_NE(engine_.admit(prompt), nullptr);
  EXPECT_EQ(engine_.length(2), 8);
  EXPECT_EQ(tier_.pending.size(), 6U) << "of the first two, and again for the third";
  end_all();
  EXPECT_EQ(engine_.length(0), 1);
  EXPECT_EQ(engine_.load_state(1), LoadState::cut_short);
  EXPECT_EQ(engine_.load_state(2), LoadState::loaded);
  finish();
}

}  // namespace
}  // namespace folio::test
