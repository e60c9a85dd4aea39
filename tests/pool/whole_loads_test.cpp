// SPDX-License-Identifier: Apache-2.0
/// tests/pool/whole_loads_test.cpp: loads of all of a prompt, as far as within a page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pool/group_helpers.h"

namespace folio::test {
namespace {

using pool::GroupBits;
using ::testing::HasSubstr;

constexpr int32_t page = 4;

/// Full attention, a window of 6 tokens and states behind every 8.
PagePool make_three(uint32_t max_io_pins = 8) {
  return make_hybrid({full(64), window(64, 6), states(64, 8)}, 64 * 64, page,
                     {.max_pages_per_sequence = 16, .max_io_pins = max_io_pins});
}

std::vector<GroupBits> begin_whole(PagePool& pool, SequenceId id, const Tokens& prompt) {
  const int32_t left = static_cast<int32_t>(prompt.size()) - pool.length(id).value();
  std::vector<GroupBits> fill(static_cast<size_t>((left + page - 1) / page));
  pool.begin_whole_load(id, prompt, fill).or_throw();
  EXPECT_EQ(pool.check_invariants().message(), "");
  return fill;
}

Tokens part(const Tokens& tokens, int32_t begin, int32_t end) {
  return {tokens.begin() + begin, tokens.begin() + end};
}

std::string message(const Status& status) { return std::string(status.message()); }

TEST(WholeLoads, have_the_row_of_a_sequence_that_has_computed_its_prompt) {
  for (int32_t length = 1; length <= 40; ++length) {
    SCOPED_TRACE(length);
    PagePool pool = make_three(), other = make_three();
    const Tokens prompt = count_from(0, length);
    const SequenceId computed = prefill(other, prompt);
    const SequenceId id = pool.admit(prompt)->id;
    static_cast<void>(begin_whole(pool, id, prompt));
    EXPECT_EQ(pool.load_length(id).value(), length);
    for (uint32_t g = 0; g < 3; ++g) EXPECT_EQ(used(pool, g), used(other, g)) << g;
    pool.commit_load(id, prompt).or_throw();
    EXPECT_EQ(pool.length(id).value(), length);
    EXPECT_EQ(pool.check_invariants().message(), "");
    for (uint32_t g = 0; g < 3; ++g) {
      const std::vector<int64_t> has = group_row(pool, id, g, 10);
      const std::vector<int64_t> model = group_row(other, computed, g, 10);
      for (size_t i = 0; i < has.size(); ++i) EXPECT_EQ(has[i] < 0, model[i] < 0) << g << " " << i;
    }
    Tokens longer = prompt;
    longer.push_back(9'999);
    EXPECT_EQ(pool.peek(longer), length % page == 0 ? length : 0) << "no other length has a state";
  }
}

TEST(WholeLoads, end_within_a_page_whose_state_is_nobody_elses) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 15);
  const SequenceId id = pool.admit(prompt)->id;
  EXPECT_EQ(begin_whole(pool, id, prompt), (std::vector<GroupBits>{1, 1, 0b011, 0b111}));
  pool.commit_load(id, prompt).or_throw();
  EXPECT_EQ(pool.peek(part(prompt, 0, 13)), 0) << "the state is behind 15 tokens";
  pool.reserve(id, 2).or_throw();
  pool.commit(id, Tokens{15, 16}).or_throw();
  EXPECT_EQ(pool.check_invariants().message(), "");
  pool.release(id).or_throw();
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(WholeLoads, go_behind_what_was_found_with_its_state_replaced) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 15);
  const SequenceId first = prefill(pool, part(prompt, 0, 12));
  const SequenceId id = pool.admit(prompt)->id;
  ASSERT_EQ(pool.length(id).value(), 12);
  const int64_t state = group_row(pool, id, 2, 2)[1];
  EXPECT_EQ(begin_whole(pool, id, prompt), (std::vector<GroupBits>{0b111}));
  EXPECT_NE(group_row(pool, id, 2, 2)[1], state) << "others have it";
  pool.commit_load(id, part(prompt, 12, 15)).or_throw();
  EXPECT_EQ(pool.peek(prompt), 12) << "the state behind 12 is that of the first";
  pool.release(first).or_throw();
  pool.release(id).or_throw();
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(WholeLoads, take_what_memory_has_of_the_last_page_too) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 16);
  const SequenceId first = prefill(pool, prompt);
  const SequenceId id = pool.admit(prompt)->id;
  ASSERT_LT(pool.length(id).value(), 16) << "a hit is short of its prompt";
  for (const GroupBits bits : begin_whole(pool, id, prompt)) EXPECT_EQ(bits, 0);
  pool.commit_load(id, part(prompt, pool.length(id).value(), 16)).or_throw();
  for (uint32_t g = 0; g < 3; ++g)
    EXPECT_EQ(group_row(pool, id, g, 4), group_row(pool, first, g, 4)) << g;
}

TEST(WholeLoads, are_given_up_or_shortened_as_others) {
  const Tokens prompt = count_from(0, 15);
  PagePool pool = make_three();
  const SequenceId id = pool.admit(prompt)->id;
  static_cast<void>(begin_whole(pool, id, prompt));
  std::vector<GroupBits> fill(3);
  pool.shorten_load(id, 12, fill).or_throw();
  EXPECT_EQ(fill, (std::vector<GroupBits>{0, 0b010, 0b100}))
      << "what 7 .. 11 need, and their state";
  EXPECT_EQ(pool.check_invariants().message(), "");
  pool.trim(id, 0).or_throw();
  for (uint32_t g = 0; g < 3; ++g) EXPECT_EQ(used(pool, g), 0) << g;
  static_cast<void>(begin_whole(pool, id, prompt));
  pool.release(id).or_throw();
  for (uint32_t g = 0; g < 3; ++g) EXPECT_EQ(used(pool, g), 0) << g;
  EXPECT_EQ(pool.peek(prompt), 0);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(WholeLoads, of_a_pool_of_one_kind_of_pages) {
  PagePool pool =
      std::move(PagePool::create({.num_pages = 8, .page_size = page, .max_io_pins = 4})).value();
  const Tokens prompt = count_from(0, 15);
  const SequenceId id = pool.admit(prompt)->id;
  EXPECT_EQ(begin_whole(pool, id, prompt), (std::vector<GroupBits>{1, 1, 1, 1}));
  pool.commit_load(id, prompt).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 13)), 12);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(WholeLoads, are_refused_with_the_reason) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 15);
  const SequenceId id = prefill(pool, part(prompt, 0, 8));
  std::vector<GroupBits> fill(2);
  const auto refusal = [&](const Tokens& of, size_t pages) {
    fill.resize(pages);
    const Status status = pool.begin_whole_load(id, of, fill);
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_EQ(pool.check_invariants().message(), "");
    return message(status);
  };
  EXPECT_THAT(refusal(part(prompt, 0, 8), 0),
              HasSubstr("prompt has 8 tokens, expected more than 8"));
  EXPECT_THAT(refusal(count_from(0, 65), 15), HasSubstr("at most 64"));
  EXPECT_THAT(refusal(prompt, 1), HasSubstr("fill has 1 elements, expected 2"));
  EXPECT_THAT(message(pool.begin_whole_load(id, prompt, {static_cast<GroupBits*>(nullptr), 2})),
              HasSubstr("fill"));
  EXPECT_EQ(pool.begin_whole_load({7, 7}, prompt, fill).code(), Errc::invalid_argument);
  fill.resize(2);
  pool.begin_whole_load(id, prompt, fill).or_throw();
  EXPECT_THAT(message(pool.begin_whole_load(id, prompt, fill)), HasSubstr("a load of 15"));
}

}  // namespace
}  // namespace folio::test
