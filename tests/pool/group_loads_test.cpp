// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_loads_test.cpp: rows with the room of a hit, what fills them, and what is
/// refused of it.
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

std::vector<GroupBits> begin_load(PagePool& pool, SequenceId id, const Tokens& prompt,
                                  int32_t length) {
  std::vector<GroupBits> fill(static_cast<size_t>((length - pool.length(id).value()) / page));
  pool.begin_load(id, prompt, length, fill).or_throw();
  return fill;
}

Tokens part(const Tokens& tokens, int32_t begin, int32_t end) {
  return {tokens.begin() + begin, tokens.begin() + end};
}

std::string message(const Status& status) { return std::string(status.message()); }

TEST(GroupLoads, a_load_has_the_row_of_a_hit) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = pool.admit(prompt)->id;
  // leading pages, the window's last two, and the state behind the last
  EXPECT_EQ(begin_load(pool, id, prompt, 32),
            (std::vector<GroupBits>{1, 1, 1, 1, 1, 1, 0b011, 0b111}));
  EXPECT_EQ(pool.load_length(id).value(), 32);
  EXPECT_EQ(pool.length(id).value(), 0);
  const std::vector<int64_t> windows = group_row(pool, id, 1, 8);
  EXPECT_EQ(part({windows.begin(), windows.end()}, 0, 6), Tokens(6, -1));
  EXPECT_GE(windows[6], 0);
  EXPECT_EQ(used(pool, 1), 2);
  EXPECT_EQ(used(pool, 2), 1);
  EXPECT_EQ(pool.peek(prompt), 0) << "nothing is there yet";
  pool.commit_load(id, part(prompt, 0, 32)).or_throw();
  EXPECT_EQ(pool.load_length(id).value(), 0);
  EXPECT_EQ(pool.length(id).value(), 32);
  EXPECT_EQ(pool.peek(prompt), 32);
  EXPECT_EQ(pool.peek(part(prompt, 0, 30)), 0) << "no group but the leading one has what 28 need";
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, what_memory_has_is_held_and_not_filled) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId first = prefill(pool, part(prompt, 0, 24));
  const SequenceId id = pool.admit(prompt)->id;
  ASSERT_EQ(pool.length(id).value(), 24);
  std::vector<GroupBits> parts(2);
  EXPECT_EQ(pool.find_parts(id, prompt, parts).value(), 0);
  EXPECT_EQ(parts, (std::vector<GroupBits>{0, 0}));
  // the window behind 32 tokens is theirs alone, and the state
  EXPECT_EQ(begin_load(pool, id, prompt, 32), (std::vector<GroupBits>{0b011, 0b111}));
  pool.commit_load(id, part(prompt, 24, 32)).or_throw();
  EXPECT_EQ(pool.peek(prompt), 32);
  pool.release(first).or_throw();
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, parts_tell_of_leading_pages_whose_companions_are_gone) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = pool.admit(prompt)->id;
  begin_load(pool, id, prompt, 32);
  pool.commit_load(id, part(prompt, 0, 32)).or_throw();
  const SequenceId other = pool.admit(part(prompt, 0, 29))->id;
  ASSERT_EQ(pool.length(other).value(), 0);
  std::vector<GroupBits> parts(7);
  EXPECT_EQ(pool.find_parts(other, part(prompt, 0, 29), parts).value(), 7);
  EXPECT_EQ(parts, (std::vector<GroupBits>{1, 1, 1, 1, 1, 1, 0b011}));
  // so a load of 28 tokens lacks a page of the window and a state
  EXPECT_EQ(begin_load(pool, other, part(prompt, 0, 29), 28),
            (std::vector<GroupBits>{0, 0, 0, 0, 0, 0b010, 0b100}));
  pool.commit_load(other, part(prompt, 0, 28)).or_throw();
  EXPECT_EQ(pool.peek(part(prompt, 0, 29)), 28);
  EXPECT_EQ(row(pool, id, 7), row(pool, other, 7));
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, cached_pages_of_one_slab_are_held_in_the_room_of_one) {
  // slabs of four leading pages or one of the window, six of them
  PagePool pool =
      make_hybrid({full(64), window(256, 6)}, 6 * 256, page, {.max_pages_per_sequence = 16});
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = pool.admit(prompt)->id;
  begin_load(pool, id, prompt, 32);
  pool.commit_load(id, part(prompt, 0, 32)).or_throw();
  pool.release(id).or_throw();
  // seven leading pages in two slabs, a window's page, and a new one
  const Tokens shorter = part(prompt, 0, 29);
  const SequenceId other = pool.admit(shorter)->id;
  ASSERT_EQ(pool.length(other).value(), 0);
  EXPECT_EQ(begin_load(pool, other, shorter, 28), (std::vector<GroupBits>{0, 0, 0, 0, 0, 0b10, 0}));
  pool.commit_load(other, part(prompt, 0, 28)).or_throw();
  EXPECT_EQ(pool.length(other).value(), 28);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, a_shorter_load_asks_for_what_it_lacks) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = pool.admit(prompt)->id;
  begin_load(pool, id, prompt, 32);
  std::vector<GroupBits> fill(6);
  pool.shorten_load(id, 24, fill).or_throw();
  EXPECT_EQ(fill, (std::vector<GroupBits>{0, 0, 0, 0, 0b010, 0b110}));
  EXPECT_EQ(used(pool, 0), 6);
  EXPECT_EQ(used(pool, 1), 2);
  EXPECT_EQ(used(pool, 2), 1);
  pool.commit_load(id, part(prompt, 0, 24)).or_throw();
  EXPECT_EQ(pool.peek(prompt), 24);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, a_load_that_is_given_up_leaves_what_was_before_as_long_as_somebody_holds_it) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = prefill(pool, part(prompt, 0, 16));
  const SequenceId kept = pool.fork(id, 16).value();
  begin_load(pool, id, prompt, 32);
  const SequenceId tree[] = {id, kept};
  pool.keep_path(tree, 1).or_throw();
  EXPECT_EQ(pool.length(id).value(), 16);
  EXPECT_EQ(pool.load_length(id).value(), 0);
  EXPECT_EQ(pool.check_invariants().message(), "");
  feed(pool, id, count_from(100, 3));

  begin_load(pool, pool.admit(prompt)->id, prompt, 32);  // another one's
  pool.trim(id, 0).or_throw();
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, trim_takes_back_companions_that_are_cached) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = prefill(pool, part(prompt, 0, 16));
  begin_load(pool, id, prompt, 32);
  pool.trim(id, 16).or_throw();
  EXPECT_EQ(pool.length(id).value(), 16);
  feed(pool, id, part(prompt, 16, 20));
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, keep_path_gives_the_row_of_a_load_without_its_room) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId root = prefill(pool, part(prompt, 0, 8));
  const SequenceId leaf = pool.fork(root, 8).value();
  begin_load(pool, leaf, prompt, 32);
  const SequenceId tree[] = {root, leaf};
  pool.keep_path(tree, 1).or_throw();
  EXPECT_EQ(pool.length(root).value(), 8);
  EXPECT_EQ(pool.load_length(root).value(), 0);
  EXPECT_EQ(used(pool, 0), 2);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, reserve_gives_room_behind_a_load) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 40);
  const SequenceId id = pool.admit(prompt)->id;
  begin_load(pool, id, prompt, 28);                   // ends within a page of states
  const IoPin pin = pool.begin_io(id, 3, 2).value();  // on its way
  const uint32_t state = pool.page_of(pin).value();
  pool.reserve(id, 28 + 5).or_throw();
  EXPECT_EQ(group_row(pool, id, 2, 4)[3], state) << "what is to be filled is not copied";
  EXPECT_TRUE(pool.take_copies(2).empty());
  pool.end_io(pin).or_throw();
  EXPECT_EQ(pool.check_invariants().message(), "");
  pool.commit_load(id, part(prompt, 0, 28)).or_throw();
  pool.commit(id, part(prompt, 28, 33)).or_throw();
  EXPECT_EQ(pool.length(id).value(), 33);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, a_pool_without_groups_has_loads_of_leading_pages) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = page, .max_io_pins = 8});
  const Tokens prompt = count_from(0, 17);
  const SequenceId id = pool.admit(prompt)->id;
  EXPECT_EQ(begin_load(pool, id, prompt, 16), (std::vector<GroupBits>{1, 1, 1, 1}));
  pool.commit_load(id, part(prompt, 0, 16)).or_throw();
  EXPECT_EQ(pool.peek(prompt), 16);
}

// ---- Companions

TEST(GroupLoads, companions_are_told_of_and_held_whether_in_a_row_or_cached) {
  PagePool pool = make_three();
  const SequenceId id = prefill(pool, count_from(0, 16));
  feed(pool, id, count_from(16, 8));
  EXPECT_EQ(pool.parts(id, 5)->held, 0b111) << "the window's last page, and the last state";
  EXPECT_EQ(pool.parts(id, 0)->held, 0b001);
  EXPECT_EQ(pool.parts(id, 0)->present & 0b010, 0b010) << "cached, behind the window";
  EXPECT_EQ(pool.parts(id, 3)->likely, 0b111) << "where the prompt ended";
  const IoPin pin = pool.begin_companion_io(id, 0, 1).value();
  EXPECT_LT(pool.page_of(pin).value(), pool.group(1)->num_pages);
  EXPECT_EQ(pool.check_invariants().message(), "");
  pool.release(id).or_throw();
  EXPECT_EQ(used(pool, 1), 1);
  pool.end_io(pin).or_throw();
  EXPECT_EQ(used(pool, 1), 0);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, companions_that_are_not_there_are_refused_by_name) {
  PagePool pool = make_three(1);
  const SequenceId id = prefill(pool, count_from(0, 17));
  EXPECT_THAT(message(pool.parts(id, 4).error()), HasSubstr("position is 4"));
  EXPECT_THAT(message(pool.parts(id, -1).error()), HasSubstr("position is -1"));
  EXPECT_THAT(message(pool.begin_companion_io(id, 0, 0).error()), HasSubstr("group is 0"));
  EXPECT_THAT(message(pool.begin_companion_io(id, 0, 3).error()), HasSubstr("group is 3"));
  EXPECT_THAT(message(pool.begin_companion_io(id, 4, 1).error()), HasSubstr("position is 4"));
  EXPECT_THAT(message(pool.begin_companion_io(id, 0, 2).error()),
              HasSubstr("page 0 has no companion in group 2"));
  const IoPin pin = pool.begin_companion_io(id, 3, 1).value();
  EXPECT_EQ(pool.begin_companion_io(id, 3, 1).error().code(), Errc::busy);
  pool.end_io(pin).or_throw();
  EXPECT_EQ(pool.parts({99, 1}, 0).error().code(), Errc::invalid_argument);
}

TEST(GroupLoads, pages_of_a_prompt_are_held_wherever_hits_end) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId first = prefill(pool, part(prompt, 0, 32));
  const auto leading = group_row(pool, first, 0, 8), windows = group_row(pool, first, 1, 8);
  pool.release(first).or_throw();
  ASSERT_EQ(pool.peek(part(prompt, 0, 12)), 0) << "no state: no hit here";
  const SequenceId id = pool.admit(part(prompt, 0, 1))->id;
  const std::vector<pool::PromptPage> asked = {{7, 1}, {1, 0}, {1, 0}, {0, 2}, {7, 2}};
  std::vector<IoPin> pins(asked.size(), IoPin{7, 7});
  EXPECT_EQ(pool.begin_prompt_io(id, prompt, asked, pins).value(), 4);
  EXPECT_EQ(pool.page_of(pins[0]).value(), windows[7]);
  EXPECT_EQ(pool.page_of(pins[1]).value(), leading[1]);
  EXPECT_EQ(pool.page_of(pins[2]).value(), leading[1]);
  EXPECT_EQ(pins[3], IoPin{}) << "states are behind every eighth token";
  EXPECT_LT(pool.page_of(pins[4]).value(), pool.group(2)->num_pages);
  EXPECT_EQ(pool.length(id).value(), 0);
  pool.release(id).or_throw();
  EXPECT_EQ(used(pool, 0), 1);
  EXPECT_EQ(used(pool, 1), 1);
  for (const IoPin pin : pins)
    if (pin != IoPin{}) pool.end_io(pin).or_throw();
  EXPECT_EQ(used(pool, 0) + used(pool, 1) + used(pool, 2), 0);
  EXPECT_EQ(pool.peek(prompt), 32);
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, of_a_prompt_only_what_memory_has_is_held_and_as_long_as_there_are_pins) {
  PagePool pool = make_three(2);
  const SequenceId id = prefill(pool, count_from(0, 8));
  const Tokens other = count_from(0, 65);
  const pool::PromptPage beyond[] = {{2, 0}, {1, 0}, {15, 1}};
  std::vector<IoPin> pins(3);
  EXPECT_EQ(pool.begin_prompt_io(id, other, beyond, pins).value(), 1) << "the sequence's own";
  pool.end_io(pins[1]).or_throw();
  const pool::PromptPage three[] = {{0, 0}, {1, 0}, {1, 1}};
  EXPECT_EQ(pool.begin_prompt_io(id, other, three, pins).value(), 2);
  EXPECT_EQ(pins[2], IoPin{});
  pool.end_io(pins[0]).or_throw();
  pool.end_io(pins[1]).or_throw();

  const auto refusal = [&](const Tokens& prompt, std::vector<pool::PromptPage> pages,
                           size_t count) {
    std::vector<IoPin> into(count);
    return message(pool.begin_prompt_io(id, prompt, pages, into).error());
  };
  EXPECT_THAT(refusal(other, {{0, 0}, {16, 0}}, 2), HasSubstr("pages[1].position is 16"));
  EXPECT_THAT(refusal(other, {{-1, 0}}, 1), HasSubstr("pages[0].position is -1"));
  EXPECT_THAT(refusal(part(other, 0, 8), {{1, 0}}, 1), HasSubstr("less than 1 (whole pages"));
  EXPECT_THAT(refusal(other, {{0, 3}}, 1), HasSubstr("pages[0].group is 3, expected less than 3"));
  EXPECT_THAT(refusal(other, {{0, 0}}, 2), HasSubstr("pins has 2 elements, expected 1"));
  EXPECT_THAT(refusal({}, {{0, 0}}, 1), HasSubstr("prompt"));
  EXPECT_THAT(
      message(pool.begin_prompt_io(id, other, three, {static_cast<IoPin*>(nullptr), 3}).error()),
      HasSubstr("pins is null"));
  EXPECT_EQ(pool.begin_prompt_io({9, 9}, other, three, pins).error().code(),
            Errc::invalid_argument);
  pool.reserve(id, 1).or_throw();
  EXPECT_THAT(refusal(other, {{0, 0}}, 1), HasSubstr("without room"));
  EXPECT_EQ(pool.check_invariants().message(), "");
}

TEST(GroupLoads, where_a_branch_is_expected_a_hit_of_it_is_likely) {
  PagePool pool = make_hybrid({full(64), window(64, 6)}, 64 * 512, page,
                              {.max_sequences = 4, .max_pages_per_sequence = 200});
  const Tokens prompt = count_from(0, 700);  // its end is far
  for (const int32_t branch : {0, 16}) {
    const SequenceId id = pool.admit(prompt)->id;
    pool.expect_branch(id, branch).or_throw();
    pool.expect_branch(id, 0).or_throw();  // a shorter one
    pool.reserve(id, 40).or_throw();
    pool.commit(id, part(prompt, 0, 40)).or_throw();
    for (int32_t p = 0; p < 6; ++p)
      EXPECT_EQ(pool.parts(id, p)->likely, branch != 0 && (p == 2 || p == 3) ? 0b11 : 0b01) << p;
    pool.release(id).or_throw();
    pool.clear().or_throw();
  }
  const SequenceId id = pool.admit(prompt)->id;
  EXPECT_THAT(message(pool.expect_branch(id, -1)), HasSubstr("tokens is -1, expected 0 or more"));
  EXPECT_EQ(pool.expect_branch({99, 1}, 0).code(), Errc::invalid_argument);
}

// ---- What is refused

TEST(GroupLoads, refusals_change_nothing_and_name_what_was_expected) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = prefill(pool, part(prompt, 0, 8));
  std::vector<GroupBits> fill(6);
  const auto refusal = [&](int32_t length, size_t pages, const Tokens& given) {
    std::vector<GroupBits> some(pages);
    return message(pool.begin_load(id, given, length, some));
  };
  EXPECT_THAT(refusal(32, 5, prompt), HasSubstr("fill has 5 elements, expected 6"));
  EXPECT_THAT(refusal(30, 6, prompt), HasSubstr("length is 30, expected a multiple of 4"));
  EXPECT_THAT(refusal(8, 0, prompt), HasSubstr("length is 8"));
  EXPECT_THAT(refusal(32, 6, part(prompt, 0, 32)), HasSubstr("less than 32"));
  EXPECT_THAT(refusal(68, 15, count_from(0, 70)), HasSubstr("less than 65"));
  EXPECT_THAT(refusal(32, 6, {}), HasSubstr("prompt"));
  EXPECT_THAT(message(pool.begin_load(id, prompt, 32, {static_cast<GroupBits*>(nullptr), 6})),
              HasSubstr("fill is null"));
  EXPECT_THAT(message(pool.commit_load(id, prompt)), HasSubstr("has no load"));
  EXPECT_THAT(message(pool.shorten_load(id, 12, std::span(fill).first(1))),
              HasSubstr("has no load"));
  pool.reserve(id, 1).or_throw();
  EXPECT_THAT(refusal(32, 6, prompt), HasSubstr("without room or a load behind them"));
  std::vector<GroupBits> parts(6);
  EXPECT_THAT(message(pool.find_parts(id, prompt, parts).error()), HasSubstr("without room"));
  pool.trim(id, 8).or_throw();
  parts.resize(7);
  EXPECT_THAT(message(pool.find_parts(id, prompt, parts).error()),
              HasSubstr("parts has 7 elements, expected at most 6"));
  EXPECT_EQ(pool.check_invariants().message(), "");

  begin_load(pool, id, prompt, 32);
  EXPECT_EQ(pool.commit(id, part(prompt, 8, 9)).code(), Errc::busy);
  EXPECT_THAT(message(pool.commit_load(id, part(prompt, 8, 31))),
              HasSubstr("tokens has 23 elements, expected 24"));
  EXPECT_THAT(refusal(32, 6, prompt), HasSubstr("a load of 32"));
  EXPECT_THAT(message(pool.shorten_load(id, 32, fill)), HasSubstr("length is 32"));
  const IoPin pin = pool.begin_io(id, 7, 0, IoAccess::fills).value();
  EXPECT_EQ(pool.commit_load(id, part(prompt, 8, 32)).code(), Errc::busy);
  pool.end_io(pin).or_throw();
  pool.commit_load(id, part(prompt, 8, 32)).or_throw();
  EXPECT_EQ(pool.begin_load({7, 7}, prompt, 32, fill).code(), Errc::invalid_argument);
}

TEST(GroupLoads, a_load_without_pages_changes_nothing) {
  PagePool pool =
      make_hybrid({full(64), window(64, 6)}, 6 * 64, page, {.max_pages_per_sequence = 16});
  const SequenceId first = prefill(pool, count_from(100, 8));
  const Tokens prompt = count_from(0, 33);
  const SequenceId id = pool.admit(prompt)->id;
  std::vector<GroupBits> fill(8);
  const Status refused = pool.begin_load(id, prompt, 32, fill);
  EXPECT_EQ(refused.code(), Errc::out_of_pages);
  EXPECT_EQ(pool.load_length(id).value(), 0);
  EXPECT_EQ(row(pool, id, 8), std::vector<uint32_t>(8, pool.num_pages()));
  EXPECT_EQ(pool.check_invariants().message(), "");
  pool.release(first).or_throw();
}

TEST(GroupLoads, pages_that_memory_has_are_not_to_be_filled) {
  PagePool pool = make_three();
  const Tokens prompt = count_from(0, 33);
  const SequenceId first = pool.admit(prompt)->id;
  begin_load(pool, first, prompt, 32);
  pool.commit_load(first, part(prompt, 0, 32)).or_throw();
  const SequenceId id = pool.admit(part(prompt, 0, 29))->id;
  begin_load(pool, id, part(prompt, 0, 29), 28);
  EXPECT_THAT(message(pool.begin_io(id, 2, 0, IoAccess::fills).error()),
              HasSubstr("not one that memory had"));
}

}  // namespace
}  // namespace folio::test
