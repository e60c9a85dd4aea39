// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_errors_test.cpp: options, refusals that change nothing, stale ids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

static_assert(!std::is_copy_constructible_v<PagePool> &&
              std::is_nothrow_move_constructible_v<PagePool> &&
              std::is_nothrow_move_assignable_v<PagePool>);
template <class Pool>
concept NeverThrows = requires(Pool& pool) {
  { Pool::create({}) } noexcept;
  { pool.admit({}) } noexcept;
  { pool.reserve({}, 0) } noexcept;
  { pool.commit({}, {}) } noexcept;
  { pool.trim({}, 0) } noexcept;
  { pool.fork({}, 0) } noexcept;
  { pool.release({}) } noexcept;
  { pool.begin_step({}) } noexcept;
  { pool.end_step({}) } noexcept;
  { pool.batch_rows({}, {}) } noexcept;
  { pool.name({}, 0) } noexcept;
  { pool.reserve(std::span<const ReserveRequest>()) } noexcept;
  { pool.explain({}, 0) } noexcept;
  { pool.fork({}, 0, std::span<SequenceId>()) } noexcept;
  { pool.keep_path({}, 0) } noexcept;
  { pool.preempt({}) } noexcept;
  { pool.resume({}, {}) } noexcept;
};
static_assert(NeverThrows<PagePool>);

constexpr uint32_t huge = std::numeric_limits<uint32_t>::max();

struct BadOptions {
  PoolOptions options;
  const char* expected;
};

TEST(PagePoolOptions, impossible_sizes_are_refused_by_name_before_anything_is_allocated) {
  PoolMemory memory;
  const BadOptions cases[] = {
      {{.num_pages = 0}, "num_pages is 0, expected 1 .. 2147483647"},
      {{.num_pages = uint32_t{1} << 31}, "num_pages is 2147483648"},
      {{.num_pages = huge}, "num_pages is 4294967295"},
      {{.num_pages = 4, .page_size = 0}, "page_size is 0"},
      {{.num_pages = 4, .page_size = -16}, "page_size is -16"},
      {{.num_pages = 4, .max_sequences = 0}, "max_sequences is 0"},
      {{.num_pages = 4, .max_sequences = huge}, "max_sequences is 4294967295"},
      {{.num_pages = 4, .max_pages_per_sequence = huge}, "max_pages_per_sequence is 4294967295"},
      {{.num_pages = 4, .page_size = INT32_MIN}, "page_size is -2147483648"},
      {{.num_pages = uint32_t{1} << 30, .page_size = INT32_MAX}, "1073741824 pages"},
      {{.num_pages = 4, .max_namespaces = huge}, "max_namespaces is 4294967295"},
      {{.num_pages = 0x7fffffff, .page_size = 0x7fffffff},
       "2147483647 pages of 2147483647 tokens and 256 rows"},
      {{.num_pages = 4, .max_sequences = 0x7fffffff, .max_pages_per_sequence = 0x7fffffff},
       "4 pages of 16 tokens and 2147483647 rows of 2147483664 entries"},
  };
  for (const BadOptions& bad : cases) {
    const Result<PagePool> pool = PagePool::create(memory.hooked(bad.options));
    EXPECT_EQ(pool.error().code(), Errc::invalid_argument) << bad.expected;
    EXPECT_THAT(std::string(pool.error().message()),
                HasSubstr(std::string("PagePool::create: ") + bad.expected));
    EXPECT_EQ(PagePool::required_bytes(bad.options).error().message(), pool.error().message());
  }
  EXPECT_EQ(memory.calls, 0);
}

TEST(PagePoolOptions, sizes_just_below_the_limit_are_asked_for_and_are_not_to_be_had) {
  PoolMemory memory;
  memory.fail = true;
  for (const PoolOptions& options : {PoolOptions{.num_pages = (uint32_t{1} << 30) - 64,
                                    .page_size = INT32_MAX,
                                    .max_pages_per_sequence = 1},
                                     PoolOptions{.num_pages = INT32_MAX,
                                     .max_sequences = INT32_MAX,
                                     .max_pages_per_sequence = 1,
                                     .max_namespaces = INT32_MAX}}) {
    EXPECT_GT(PagePool::required_bytes(options).value(), int64_t{1} << 37);
    const Result<PagePool> pool = PagePool::create(memory.hooked(options));
    EXPECT_EQ(pool.error().code(), Errc::out_of_memory);
    EXPECT_THAT(std::string(pool.error().message()), HasSubstr("PagePool::create: "));
  }
}

TEST(PagePoolOptions, one_hook_without_the_other_is_refused) {
  PoolMemory memory;
  PoolOptions options = memory.hooked({.num_pages = 4});
  options.deallocate = nullptr;
  EXPECT_THAT(std::string(PagePool::create(options).error().message()),
              HasSubstr("PagePool::create: deallocate is null, expected a function, as allocate"));
  options = memory.hooked({.num_pages = 4});
  options.allocate = nullptr;
  EXPECT_THAT(std::string(PagePool::create(options).error().message()),
              HasSubstr("PagePool::create: allocate is null, expected a function, as deallocate"));
  EXPECT_EQ(memory.calls, 0);
}

// ---- Refusals change nothing

class PagePoolRefusal : public ::testing::Test {
 protected:
  /// Runs `call`, expects its status to have `code` and these words, and the whole state of the
  /// pool to be the same as before.
  template <class Call>
  void expect_refused(Errc code, const char* words, Call call) {
    const std::vector<std::byte> before = memory.snapshot();
    const Status status = call();
    EXPECT_EQ(status.code(), code) << words;
    EXPECT_THAT(std::string(status.message()),
                StartsWith(code == Errc::ok ? "" : std::string("PagePool::") + words));
    EXPECT_TRUE(memory.snapshot() == before) << words;
    expect_sound(pool);
  }

  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked(
      {.num_pages = 4, .page_size = 4, .max_sequences = 3, .max_pages_per_sequence = 4}));
};

TEST_F(PagePoolRefusal, out_of_pages_changes_nothing) {
  pool.release(prefill(pool, count_from(0, 11))).or_throw();
  const SequenceId one = prefill(pool, count_from(50, 2)),
                   empty = pool.admit(count_from(90, 1)).value().id;
  EXPECT_EQ(pool.stats().cached_pages, 2);
  EXPECT_EQ(pool.stats().free_pages, 1);
  expect_refused(Errc::out_of_pages, "reserve: 4 pages needed, 3 of 4",
                 [&] { return pool.reserve(empty, 16); });
  EXPECT_EQ(pool.peek(count_from(0, 11)), 8);
  pool.reserve(one, 14).or_throw();
  expect_refused(Errc::out_of_pages, "reserve: 1 pages needed, 0 of 4",
                 [&] { return pool.reserve(empty, 1); });
  expect_refused(Errc::out_of_pages, "fork: 1 pages needed",
                 [&] { return pool.fork(one, 1).error(); });
  EXPECT_TRUE(pool.fork(one, 0).has_value());
  expect_refused(Errc::out_of_pages,
                 "admit: 3 sequences are alive, expected fewer than max_sequences 3",
                 [&] { return pool.admit(count_from(0, 9)).error(); });
  expect_refused(Errc::out_of_pages, "fork: 3 sequences are alive, expected fewer",
                 [&] { return pool.fork(one, 0).error(); });
}

TEST_F(PagePoolRefusal, wrong_arguments_are_named_and_change_nothing) {
  const SequenceId id = prefill(pool, count_from(0, 6));
  pool.reserve(id, 3).or_throw();
  constexpr Errc bad = Errc::invalid_argument;
  const std::string salt(PagePool::max_salt_bytes + 1, 's');
  expect_refused(bad, "admit: prompt has 0 tokens, expected 1 .. 2147483647",
                 [&] { return pool.admit({}).error(); });
  expect_refused(bad, "admit: salt has 129 bytes, expected at most 128",
                 [&] { return pool.admit(count_from(0, 1), {.salt = salt}).error(); });
  for (const int32_t less : {-1, INT32_MIN}) {
    expect_refused(bad, "reserve: new_tokens is -", [&] { return pool.reserve(id, less); });
    expect_refused(bad, "trim: length is -", [&] { return pool.trim(id, less); });
    expect_refused(bad, "fork: length is -", [&] { return pool.fork(id, less).error(); });
  }
  expect_refused(bad, "reserve: new_tokens is 11, expected 0 .. 10 (a sequence holds 16",
                 [&] { return pool.reserve(id, 11); });
  expect_refused(bad, "reserve: new_tokens is 2147483647, expected 0 .. 10",
                 [&] { return pool.reserve(id, INT32_MAX); });
  expect_refused(bad, "commit: written has 4 tokens, expected at most 3",
                 [&] { return pool.commit(id, count_from(6, 4)); });
  expect_refused(bad, "trim: length is 7, expected 0 .. 6", [&] { return pool.trim(id, 7); });
  expect_refused(bad, "trim: length is -1, expected 0 .. 6", [&] { return pool.trim(id, -1); });
  expect_refused(bad, "fork: length is 7, expected 0 .. 6",
                 [&] { return pool.fork(id, 7).error(); });
  expect_refused(bad, "fork: length is -1, expected 0 .. 6",
                 [&] { return pool.fork(id, -1).error(); });
  expect_refused(bad, "row_start: group is 1, expected 0",
                 [&] { return pool.row_start(id, 1).error(); });
  for (const uint64_t ticket : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}})
    expect_refused(bad, "end_step: ticket is ", [&] { return pool.end_step({ticket}); });
  EXPECT_EQ(pool.table(1).entries, nullptr);
  EXPECT_EQ(pool.peek({}), 0);
  EXPECT_EQ(pool.peek(count_from(0, 6), {.salt = salt}), 0);
}

TEST_F(PagePoolRefusal, null_memory_with_a_size_is_refused) {
  const SequenceId id = prefill(pool, count_from(0, 6));
  pool.reserve(id, 3).or_throw();
  constexpr Errc bad = Errc::invalid_argument;
  const std::span<const TokenId> tokens(static_cast<const TokenId*>(nullptr), 3),
      too_many(static_cast<const TokenId*>(nullptr), size_t{1} << 31);
  const std::span<const SequenceId> ids(static_cast<const SequenceId*>(nullptr), 3);
  const std::span<int64_t> rows(static_cast<int64_t*>(nullptr), 1);
  expect_refused(bad, "admit: prompt is null, expected memory of size 3",
                 [&] { return pool.admit(tokens).error(); });
  expect_refused(bad, "admit: prompt has 2147483648 tokens",
                 [&] { return pool.admit(too_many).error(); });
  expect_refused(bad, "commit: written is null", [&] { return pool.commit(id, tokens); });
  expect_refused(bad, "commit: written is null, expected memory of size 2147483648",
                 [&] { return pool.commit(id, too_many); });
  expect_refused(bad, "begin_step: ids is null", [&] { return pool.begin_step(ids).error(); });
  expect_refused(bad, "batch_rows: rows is null", [&] { return pool.batch_rows({{id}}, rows); });
  std::vector<int64_t> own(3);
  expect_refused(bad, "batch_rows: ids is null", [&] { return pool.batch_rows(ids, own); });
  EXPECT_EQ(pool.peek(tokens), 0);
  EXPECT_EQ(pool.peek(too_many), 0);
}

TEST_F(PagePoolRefusal, batch_rows_are_all_or_none) {
  const SequenceId a = prefill(pool, count_from(0, 6)), stale = prefill(pool, count_from(9, 2)),
                   b = prefill(pool, count_from(50, 2));
  pool.release(stale).or_throw();
  std::vector<int64_t> rows(3, -7);
  const auto ids = std::vector{b, a, b};
  ASSERT_TRUE(pool.batch_rows(ids, rows).is_ok());
  const int64_t at_a = pool.row_start(a).value(), at_b = pool.row_start(b).value();
  EXPECT_EQ(rows, (std::vector{at_b, at_a, at_b})) << "in the order of the ids, repeated or not";
  EXPECT_TRUE(pool.batch_rows({}, {}).is_ok());

  rows.assign(3, -7);
  constexpr Errc bad = Errc::invalid_argument;
  expect_refused(
      bad, "batch_rows: ids[2] is sequence 1 of generation 1, expected one that is alive", [&] {
        return pool.batch_rows(std::vector{a, b, stale}, rows);
      });
  expect_refused(bad, "batch_rows: rows has 3 elements, expected 2", [&] {
    return pool.batch_rows(std::vector{a, b}, rows);
  });
  expect_refused(bad, "batch_rows: rows has 3 elements, expected 0",
                 [&] { return pool.batch_rows({}, rows); });
  expect_refused(bad, "batch_rows: group is 1, expected 0",
                 [&] { return pool.batch_rows(ids, rows, 1); });
  EXPECT_EQ(rows, std::vector<int64_t>(3, -7)) << "nothing is written";
}

TEST_F(PagePoolRefusal, ids_of_another_pool_are_refused_where_no_sequence_has_them) {
  PagePool other = make_pool({.num_pages = 64, .max_sequences = 64});
  SequenceId foreign;
  for (int i = 0; i < 64; ++i) foreign = other.admit(count_from(0, 1)).value().id;
  expect_refused(Errc::invalid_argument, "reserve: id is sequence 63 of generation 1",
                 [&] { return pool.reserve(foreign, 1); });
  expect_refused(Errc::invalid_argument, "begin_step: ids[0] is sequence 63",
                 [&] { return pool.begin_step({{foreign}}).error(); });
}

TEST_F(PagePoolRefusal, calls_that_ask_for_nothing_do_nothing) {
  const SequenceId id = prefill(pool, count_from(0, 6));
  pool.trim(id, 5).or_throw();
  expect_refused(Errc::ok, "", [&] { return pool.reserve(id, 0); });
  expect_refused(Errc::ok, "", [&] { return pool.commit(id, {}); });
  expect_refused(Errc::ok, "", [&] { return pool.trim(id, 5); });
}

TEST_F(PagePoolRefusal, a_stale_id_is_an_error_never_its_successor) {
  const SequenceId stale = prefill(pool, count_from(0, 6));
  pool.release(stale).or_throw();
  const SequenceId successor = pool.admit(count_from(50, 6)).value().id;
  ASSERT_EQ(successor.index, stale.index);
  pool.reserve(successor, 6).or_throw();
  for (const SequenceId id : {stale, SequenceId{}, SequenceId{2, 0}, SequenceId{3, 1},
                              SequenceId{successor.index, successor.generation + 1}}) {
    constexpr Errc bad = Errc::invalid_argument;
    expect_refused(bad, "reserve: id is sequence", [&] { return pool.reserve(id, 1); });
    expect_refused(bad, "commit: id is sequence",
                   [&] { return pool.commit(id, count_from(0, 1)); });
    expect_refused(bad, "trim: id is sequence", [&] { return pool.trim(id, 0); });
    expect_refused(bad, "fork: id is sequence", [&] { return pool.fork(id, 0).error(); });
    expect_refused(bad, "release: id is sequence", [&] { return pool.release(id); });
    expect_refused(bad, "length: id is sequence", [&] { return pool.length(id).error(); });
    expect_refused(bad, "row_start: id is sequence", [&] { return pool.row_start(id).error(); });
    expect_refused(bad, "begin_step: ids[1] is sequence", [&] {
      return pool.begin_step({{successor, id}}).error();
    });
  }
}

TEST_F(PagePoolRefusal, too_many_steps_are_busy_and_hold_nothing_more) {
  const SequenceId id = prefill(pool, count_from(0, 6));
  for (int i = 0; i < PagePool::max_unfinished_steps; ++i)
    static_cast<void>(pool.begin_step({}).value());
  expect_refused(Errc::busy, "begin_step: 64 steps are unfinished",
                 [&] { return pool.begin_step({{id}}).error(); });
}

}  // namespace
}  // namespace folio::test
