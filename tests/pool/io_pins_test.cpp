// SPDX-License-Identifier: Apache-2.0
/// tests/pool/io_pins_test.cpp: pages that transfers hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "pool/group_helpers.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

PoolOptions options_of(uint32_t num_pages, uint32_t max_io_pins = 4) {
  return {.num_pages = num_pages, .page_size = 4, .max_io_pins = max_io_pins};
}

TEST(IoPins, keep_a_page_from_the_next_sequence_until_the_transfer_ends) {
  PagePool pool = make_pool(options_of(2));
  const SequenceId a = prefill(pool, count_from(0, 8));
  const IoPin pin = pool.begin_io(a, 1).value();
  const uint32_t page = pool.page_of(pin).value();
  pool.release(a).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 1);
  EXPECT_EQ(pool.peek(count_from(0, 9)), 8) << "still found";
  const SequenceId b = pool.admit(count_from(100, 8)).value().id;
  EXPECT_EQ(pool.reserve(b, 8).code(), Errc::out_of_pages);
  EXPECT_EQ(pool.explain(b, 8).value().of_copies, 1);
  EXPECT_EQ(pool.clear().code(), Errc::busy);
  expect_sound(pool);
  pool.end_io(pin).or_throw();
  feed(pool, b, count_from(100, 8));
  EXPECT_THAT(row(pool, b, 2), ::testing::Contains(page));
  expect_sound(pool);
}

TEST(IoPins, of_one_page_count) {
  PagePool pool = make_pool(options_of(1));
  const SequenceId a = prefill(pool, count_from(0, 4));
  const IoPin first = pool.begin_io(a, 0).value(), second = pool.begin_io(a, 0).value();
  EXPECT_NE(first, second);
  pool.release(a).or_throw();
  pool.end_io(first).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 0);
  expect_sound(pool);
  pool.end_io(second).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, 1);
  expect_sound(pool);
}

TEST(IoPins, of_pages_without_content_leave_them_free) {
  PagePool pool = make_pool(options_of(2));
  const SequenceId a = pool.admit(count_from(0, 8)).value().id;
  pool.reserve(a, 8).or_throw();  // to be loaded
  const IoPin pin = pool.begin_io(a, 0).value();
  pool.release(a).or_throw();  // cancelled
  EXPECT_EQ(pool.stats().free_pages, 1);
  pool.end_io(pin).or_throw();
  EXPECT_EQ(pool.stats().free_pages, 2);
  EXPECT_EQ(pool.peek(count_from(0, 9)), 0);
  expect_sound(pool);
}

TEST(IoPins, what_trim_opens_again_is_written_elsewhere) {
  PoolOptions options = options_of(4);
  options.prefix_reuse = false;  // else the page's content alone asks for another
  PagePool pool = make_pool(options);
  const SequenceId a = prefill(pool, count_from(0, 8));
  const IoPin pin = pool.begin_io(a, 1).value();
  pool.trim(a, 6).or_throw();
  pool.reserve(a, 2).or_throw();
  EXPECT_NE(row(pool, a, 2)[1], pool.page_of(pin).value());
  EXPECT_EQ(take_copies(pool).size(), 1U);
  expect_sound(pool);
  pool.end_io(pin).or_throw();
  expect_sound(pool);
}

TEST(IoPins, hold_pages_of_groups) {
  const GroupOptions groups[] = {full(4), window(4, 4)};
  PagePool pool = make_pool(
      {.page_size = 4, .max_sequences = 4, .groups = groups, .arena_bytes = 32, .max_io_pins = 2});
  const SequenceId a = prefill(pool, count_from(0, 4));
  const IoPin pin = pool.begin_io(a, 0, 1).value();
  pool.release(a).or_throw();
  EXPECT_EQ(pool.group(1).value().used_pages, 1);
  expect_sound(pool);
  pool.end_io(pin).or_throw();
  EXPECT_EQ(pool.group(1).value().used_pages, 0);
  EXPECT_EQ(pool.group(1).value().cached_pages, 1);
  expect_sound(pool);
}

TEST(IoPins, that_fill_a_page_keep_its_tokens_from_being_committed) {
  PagePool pool = make_pool(options_of(4));
  const SequenceId a = prefill(pool, count_from(0, 6));
  pool.reserve(a, 6).or_throw();
  const IoPin pin = pool.begin_io(a, 2, 0, IoAccess::fills).value();
  expect_sound(pool);
  EXPECT_EQ(pool.begin_io(a, 2, 0, IoAccess::fills).error().code(), Errc::busy);
  const IoPin reader = pool.begin_io(a, 2).value();
  EXPECT_TRUE(pool.commit(a, count_from(6, 2)).is_ok()) << "the page before";
  const Status refused = pool.commit(a, count_from(8, 1));
  EXPECT_EQ(refused.code(), Errc::busy);
  EXPECT_THAT(refused.message(), HasSubstr("fills page 2 of the sequence"));
  pool.end_io(pin).or_throw();
  expect_sound(pool);
  EXPECT_TRUE(pool.commit(a, count_from(8, 4)).is_ok());
  EXPECT_THAT(pool.begin_io(a, 2, 0, IoAccess::fills).error().message(),
              HasSubstr("entry is 2, expected at least 3"));
  EXPECT_THAT(pool.begin_io(a, 2, 0, static_cast<IoAccess>(2)).error().message(),
              HasSubstr("access is 2"));
  pool.end_io(reader).or_throw();
  expect_sound(pool);
}

TEST(IoPins, that_fill_a_page_keep_it_out_of_a_path_that_another_sequence_takes_over) {
  PagePool pool = make_pool(options_of(8));
  const SequenceId a = prefill(pool, count_from(0, 6)), b = pool.fork(a, 4).value();
  pool.reserve(b, 8).or_throw();
  const uint32_t filled = row(pool, b, 2)[1];
  const IoPin pin = pool.begin_io(b, 1, 0, IoAccess::fills).value();
  const SequenceId tree[] = {a, b};
  pool.keep_path(tree, 0).or_throw();
  const SequenceId c = pool.fork(a, 4).value();
  pool.reserve(c, 8).or_throw();
  const IoPin other = pool.begin_io(c, 2, 0, IoAccess::fills).value();
  const SequenceId another[] = {a, c};
  pool.keep_path(another, 1).or_throw();
  EXPECT_EQ(pool.length(a).value(), 4);
  EXPECT_EQ(pool.explain(a, 8).value().needed, 2) << "its room has gone";
  expect_sound(pool);
  pool.reserve(a, 8).or_throw();
  EXPECT_THAT(row(pool, a, 3), ::testing::Not(::testing::Contains(filled)));
  EXPECT_TRUE(pool.commit(a, count_from(4, 8)).is_ok());
  pool.end_io(pin).or_throw();
  pool.end_io(other).or_throw();
  expect_sound(pool);
}

TEST(IoPins, are_refused_with_a_reason) {
  PagePool pool = make_pool(options_of(4, 1));
  const SequenceId a = prefill(pool, count_from(0, 6));
  for (const int32_t entry :
       {-1, 2, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()})
    EXPECT_THAT(pool.begin_io(a, entry).error().message(), HasSubstr("entry is"));
  EXPECT_THAT(pool.begin_io(a, 0, 1).error().message(), HasSubstr("group is 1, expected 0"));
  EXPECT_EQ(pool.begin_io({7, 7}, 0).error().code(), Errc::invalid_argument);
  const IoPin pin = pool.begin_io(a, 0).value();
  EXPECT_EQ(pool.begin_io(a, 1).error().code(), Errc::busy);
  for (const IoPin wrong : {IoPin{}, IoPin{0, pin.generation + 1}, IoPin{1, 1},
                            IoPin{std::numeric_limits<uint32_t>::max(), 1}}) {
    EXPECT_THAT(pool.end_io(wrong).message(), HasSubstr("that has not ended"));
    EXPECT_THAT(pool.page_of(wrong).error().message(), HasSubstr("that has not ended"));
  }
  pool.end_io(pin).or_throw();
  EXPECT_EQ(pool.end_io(pin).code(), Errc::invalid_argument) << "twice";
  expect_sound(pool);
  PagePool none = make_pool(options_of(4, 0));
  EXPECT_EQ(none.begin_io(prefill(none, count_from(0, 4)), 0).error().code(), Errc::busy);
}

}  // namespace
}  // namespace folio::test
