// SPDX-License-Identifier: Apache-2.0
/// tests/pool/acceptance_test.cpp: scripts by which other managers are tested, told of this pool.
///
/// Page ids are those of the others less one where they keep page 0 back. Free pages are taken in
/// ascending order, before cached ones; a page without content is the next to be taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pool/inspection.h"
#include "pool/pool_helpers.h"
#include "pool/pool_model.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;

int64_t available(const PagePool& pool) {
  return pool.stats().free_pages + pool.stats().cached_pages;
}

// ---- Prefixes and the order of eviction (vLLM)

TEST(Acceptance, pages_are_shared_given_back_and_taken_in_order) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 16});
  const Tokens common = count_from(0, 48);
  const SequenceId a = prefill(pool, common + count_from(100, 7));
  EXPECT_THAT(row(pool, a, 4), ElementsAre(0, 1, 2, 3));
  const Admission b = pool.admit(common + count_from(200, 5)).value();
  EXPECT_EQ(b.cached_tokens, 48);
  feed(pool, b.id, count_from(200, 5));
  EXPECT_THAT(row(pool, b.id, 4), ElementsAre(0, 1, 2, 4));
  EXPECT_EQ(available(pool), 5);
  pool.release(a).or_throw();
  pool.release(b.id).or_throw();
  EXPECT_EQ(available(pool), 10);

  const Admission c = pool.admit(common + count_from(300, 6)).value();
  EXPECT_EQ(c.cached_tokens, 48);
  feed(pool, c.id, count_from(300, 6));
  EXPECT_THAT(row(pool, c.id, 4), ElementsAre(0, 1, 2, 4));
  EXPECT_EQ(available(pool), 6);
  pool.release(c.id).or_throw();

  const SequenceId d = prefill(pool, count_from(1000, 160));  // shares nothing, needs everything
  EXPECT_THAT(row(pool, d, 10), ElementsAre(4, 3, 5, 6, 7, 8, 9, 2, 1, 0));
  EXPECT_EQ(available(pool), 0);
  expect_sound(pool);
}

TEST(Acceptance, of_two_released_requests_the_tail_of_the_first_goes_first) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 16});
  const Tokens first = count_from(0, 90);  // 5 full pages and a part
  const SequenceId a = prefill(pool, first), b = prefill(pool, count_from(500, 48));
  EXPECT_EQ(available(pool), 1);
  pool.release(a).or_throw();
  pool.release(b).or_throw();
  const Admission c = pool.admit({first.begin(), first.begin() + 35}).value();
  EXPECT_EQ(c.cached_tokens, 32);
  feed(pool, c.id, {first.begin() + 32, first.begin() + 35});
  EXPECT_THAT(row(pool, c.id, 3), ElementsAre(0, 1, 5));
  EXPECT_EQ(available(pool), 7);
  const SequenceId d = prefill(pool, count_from(1000, 7 * 16));
  EXPECT_THAT(row(pool, d, 7), ElementsAre(9, 4, 3, 2, 8, 7, 6));
  expect_sound(pool);
}

TEST(Acceptance, a_request_that_fits_no_more_is_refused_and_changes_nothing) {
  PagePool pool = make_pool(
      {.num_pages = 4, .page_size = 4, .max_pages_per_sequence = 9, .prefix_reuse = false});
  const SequenceId a = prefill(pool, count_from(0, 10));
  EXPECT_EQ(pool.stats().used_pages, 3);
  pool.release(a).or_throw();
  const Admission b = pool.admit(count_from(0, 16)).value();
  EXPECT_EQ(b.cached_tokens, 0);
  feed(pool, b.id, count_from(0, 16));
  const PoolStats before = pool.stats();
  EXPECT_EQ(pool.reserve(b.id, 4).code(), Errc::out_of_pages);
  EXPECT_EQ(pool.stats(), before);
}

TEST(Acceptance, a_prompt_that_is_cached_whole_leaves_its_last_page_to_compute) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 16});
  prefill(pool, count_from(0, 32));
  EXPECT_EQ(pool.admit(count_from(0, 32)).value().cached_tokens, 16);
}

TEST(Acceptance, salt_and_adapter_are_no_one_text) {
  PagePool pool = make_pool({.num_pages = 32, .page_size = 4});
  const Tokens prompt = count_from(0, 9);
  prefill(pool, prompt, {.salt = "org_1", .adapter = 2345});
  EXPECT_EQ(pool.peek(prompt, {.salt = "org_1", .adapter = 2345}), 8);
  EXPECT_EQ(pool.peek(prompt, {.salt = "org_12345", .adapter = 0}), 0);
  EXPECT_EQ(pool.peek(prompt, {.salt = "org_12", .adapter = 345}), 0);
}

/// Evicts what the test says.
class Chosen final : public pool::EvictionPolicy {
 public:
  explicit Chosen(pool::PageLists* lists) : lists_(lists) {}
  void add(uint32_t added) noexcept override { lists_->push_back(pool::queue(0), added); }
  void found(uint32_t) noexcept override {}
  uint32_t take() noexcept override { return page; }
  const char* fault() const noexcept override { return nullptr; }
  uint32_t page = 0;

 private:
  pool::PageLists* lists_;
};

TEST(Acceptance, what_stands_behind_an_evicted_page_is_never_found_again) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 2});
  Chosen policy(pool::PoolInspection::lists(pool));
  pool::PoolInspection::use_policy(pool, &policy);
  const Tokens chain = count_from(0, 6);
  const SequenceId a = prefill(pool, chain);
  policy.page = row(pool, a, 2)[1];
  pool.release(a).or_throw();
  pool.release(prefill(pool, {70})).or_throw();  // evicts the middle one
  EXPECT_EQ(pool.peek(chain + Tokens{9}), 2);
  const SequenceId b = pool.admit({chain.begin(), chain.begin() + 4}).value().id;
  feed(pool, b, {chain[2], chain[3]});  // the middle one again: its old child is not its child
  EXPECT_EQ(pool.peek(chain + Tokens{9}), 4);
  expect_sound(pool);
}

// ---- Beams (TensorRT-LLM)

/// A prompt and `beams` sequences of it that have one token of their own each.
std::vector<SequenceId> open_beams(PagePool& pool, const Tokens& prompt, int beams) {
  std::vector<SequenceId> ids{prefill(pool, prompt)};
  for (int b = 1; b < beams; ++b) {
    const Result<SequenceId> fork = pool.fork(ids[0], static_cast<int32_t>(prompt.size()));
    if (!fork) break;
    ids.push_back(*fork);
  }
  take_copies(pool);
  take_copies(pool);  // they have run
  return ids;
}

TEST(Acceptance, beams_share_the_pages_of_the_prompt_and_have_a_tail_each) {
  PagePool pool = make_pool({.num_pages = 24, .page_size = 8, .prefix_reuse = false});
  const auto a = open_beams(pool, count_from(0, 17), 8);
  EXPECT_EQ(pool.stats().used_pages, 2 + 8);
  EXPECT_EQ(pool.stats().free_pages, 14);
  const auto b = open_beams(pool, count_from(100, 17), 8);
  EXPECT_EQ(pool.stats().used_pages, 20);
  const auto c = open_beams(pool, count_from(200, 17), 8);
  EXPECT_EQ(c.size(), 2U) << "the pool has no page for a third beam";
  for (const auto& beams : {a, b, c}) {
    for (const SequenceId id : beams) pool.release(id).or_throw();
  }
  EXPECT_EQ(pool.stats().free_pages, 24);
  expect_sound(pool);
}

TEST(Acceptance, beams_of_a_prompt_of_full_pages_share_all_of_it) {
  PagePool pool = make_pool({.num_pages = 24, .page_size = 8});
  const auto beams = open_beams(pool, count_from(0, 24), 8);
  EXPECT_EQ(beams.size(), 8U);
  EXPECT_EQ(pool.stats().used_pages, 3);
  for (const SequenceId id : beams) EXPECT_EQ(row(pool, id, 3), row(pool, beams[0], 3));
}

// ---- Forks and cuts, K/V compared after each call (TVM)

class Script {
 public:
  Script(int32_t page_size, bool prefix_reuse)
      : model_({.num_pages = 2200,
                .page_size = page_size,
                .max_sequences = 20,
                .max_pages_per_sequence = 200,
                .prefix_reuse = prefix_reuse}) {}

  void open(int32_t tokens) {
    model_.admit(Tokens{next_ + 1}, {});
    write(model_.num_sequences() - 1, tokens);
  }
  void write(size_t sequence, int32_t tokens) {
    model_.reserve(sequence, tokens);
    model_.take_copies();
    model_.commit(sequence, count_from(next_ + 1, tokens));
    next_ += tokens;
  }
  /// A new sequence with all of `sequence`, or its first tokens, and some of its own.
  void fork(size_t sequence, int32_t more, int32_t at = -1) {
    model_.fork(sequence, at < 0 ? length(sequence) : at);
    if (more > 0) write(model_.num_sequences() - 1, more);
  }
  void cut(size_t sequence, int32_t tokens) { model_.trim(sequence, length(sequence) - tokens); }
  /// Releases all, the first one first. The model compares what is in use, and all that is left.
  void close() {
    while (model_.num_sequences() != 0) model_.release(0);
    model_.take_copies();
    model_.take_copies();
  }
  [[nodiscard]] int32_t length(size_t sequence) const {
    return static_cast<int32_t>(model_.tokens(sequence).size());
  }

 private:
  PoolModel model_;
  TokenId next_ = 0;
};

TEST(Acceptance, forks_of_forks_keep_their_keys_and_values_whoever_goes_first) {
  for (const int32_t page_size : {1, 3, 16}) {
    Script script(page_size, page_size != 3);
    for (const int32_t tokens : {60, 88, 17, 4}) script.open(tokens);
    script.fork(3, 35);   // 4
    script.fork(0, 20);   // 5
    script.fork(5, 102);  // 6
    script.fork(0, 3);    // 7
    script.fork(5, 0);    // 8
    script.fork(5, 0);    // 9
    for (size_t s = 0; s < 10; ++s) script.write(s, 2);
    script.fork(1, 0, 33);                                                // 10
    for (const int32_t at : {60, 15, 16, 17}) script.fork(0, 1, at);      // 11 .. 14
    for (const int32_t at : {60, 80, 75, 76, 77}) script.fork(5, 1, at);  // 15 .. 19
    script.close();
  }
}

TEST(Acceptance, tokens_taken_back_across_a_fork_leave_the_sibling_whole) {
  for (const int32_t page_size : {1, 3, 16}) {
    Script script(page_size, page_size != 3);
    for (const int32_t tokens : {35, 88, 17, 4}) script.open(tokens);
    script.fork(3, 35);
    const int32_t taken_back[] = {17, 57, 16, 0, 37};
    for (size_t s = 0; s < 5; ++s) script.cut(s, taken_back[s]);
    EXPECT_EQ(script.length(4), 2) << "less than its parent had";
    EXPECT_EQ(script.length(3), 4);
    for (size_t s = 0; s < 5; ++s) script.write(s, 20);
    script.close();
  }
}

// ---- Trees of tokens (MLC, SGLang)

TEST(Acceptance, a_page_of_one_token_is_a_tree_of_tokens) {
  PagePool pool = make_pool({.num_pages = 16, .page_size = 1});
  const SequenceId stem = prefill(pool, {0, 1, 2, 3});
  for (const TokenId leaf : {4, 5}) feed(pool, pool.fork(stem, 3).value(), {leaf});
  EXPECT_EQ(pool.stats().used_pages, 6);
  for (const TokenId leaf : {3, 4, 5}) EXPECT_EQ(pool.peek(Tokens{0, 1, 2, leaf, 9}), 4);
  EXPECT_EQ(pool.peek(Tokens{0, 1, 2, 6, 9}), 3);
  EXPECT_EQ(pool.peek(Tokens{0, 1, 9}), 2);
}

// ---- Speculative decoding

TEST(Acceptance, drafts_that_were_not_accepted_are_never_found) {
  PagePool pool = make_pool({.num_pages = 16, .page_size = 4});
  const Tokens prompt = count_from(0, 6);
  const SequenceId id = prefill(pool, prompt);
  const Tokens drafts = count_from(50, 8);
  pool.reserve(id, 8).or_throw();  // all eight are written
  EXPECT_EQ(pool.stats().used_pages, 4);
  pool.commit(id, {drafts.begin(), drafts.begin() + 3}).or_throw();
  EXPECT_EQ(pool.peek(prompt + drafts), 8) << "the last full page of accepted tokens";
  pool.trim(id, 9).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 3) << "one page of drafts alone";
  feed(pool, id, {90, 91, 92});
  EXPECT_EQ(pool.peek(prompt + drafts), 8);
  EXPECT_EQ(pool.peek(prompt + Tokens{50, 51, 52, 90, 91, 92, 0}), 12);
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
