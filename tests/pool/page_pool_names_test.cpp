// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_names_test.cpp: names are those of contents, computed once, when asked for,
/// and gone with the content.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "pool/inspection.h"
#include "pool/naive_names.h"
#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr int32_t page_size = 4;

struct NamedPool {
  explicit NamedPool(uint32_t num_pages, Eviction eviction = Eviction::lru)
      : pool(make_pool(memory.hooked({.num_pages = num_pages,
                                      .page_size = page_size,
                                      .max_sequences = 8,
                                      .eviction = eviction,
                                      .name = names.function()}))) {}
  ~NamedPool() { expect_sound(pool); }
  NamedPool(const NamedPool&) = delete;
  NamedPool& operator=(const NamedPool&) = delete;

  PageName name(SequenceId id, int32_t position) { return pool.name(id, position).value(); }
  bool is_named(uint32_t page) { return pool::PoolInspection::record(pool, page).named; }
  std::string refusal(SequenceId id, int32_t position) {
    const std::vector<std::byte> before = memory.snapshot();
    const Status status = pool.name(id, position).error();
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_EQ(memory.snapshot(), before);
    return std::string(status.message());
  }

  PoolMemory memory;
  NaiveNames names;
  PagePool pool;
};

/// Of the last of the full pages, with the naive function.
PageName expected(const Tokens& tokens, const SequenceOptions& options = {}) {
  PageName name;
  const PageName* parent = nullptr;
  for (size_t end = page_size; end <= tokens.size(); end += page_size) {
    const std::span page = std::span(tokens).subspan(end - page_size, page_size);
    name = NaiveNames::of(parent, page, options.salt, options.adapter);
    parent = &name;
  }
  return name;
}

// ---- What a name is

TEST(PagePoolNames, names_are_chained_from_the_first_page_on) {
  NamedPool named(4);
  const Tokens tokens = count_from(5, 14);
  const SequenceId id = prefill(named.pool, tokens);
  for (const int32_t position : {0, 1, 2}) {
    EXPECT_EQ(named.name(id, position),
              expected({tokens.begin(), tokens.begin() + (position + 1) * page_size}));
  }
}

TEST(PagePoolNames, salt_and_adapter_belong_to_the_name) {
  NamedPool named(8);
  const Tokens tokens = count_from(0, 8);
  for (const SequenceOptions& options :
       {SequenceOptions{}, SequenceOptions{.salt = "t"}, SequenceOptions{.adapter = 3}}) {
    const SequenceId id = prefill(named.pool, tokens, options);
    EXPECT_EQ(named.name(id, 1), expected(tokens, options));
    named.pool.release(id).or_throw();
  }
}

// ---- When it is computed

TEST(PagePoolNames, nothing_is_named_until_somebody_asks_and_then_once) {
  NamedPool named(8);
  const SequenceId id = prefill(named.pool, count_from(0, 32));
  EXPECT_EQ(named.names.calls, 0);
  named.name(id, 3);
  EXPECT_EQ(named.names.calls, 4);
  named.name(id, 3);
  named.name(id, 0);
  EXPECT_EQ(named.names.calls, 4);
  named.name(id, 7);
  EXPECT_EQ(named.names.calls, 8);
}

TEST(PagePoolNames, a_hit_has_the_names_of_the_pages_that_it_found) {
  NamedPool named(8);
  const Tokens tokens = count_from(0, 8);
  const SequenceId first = prefill(named.pool, tokens);
  const PageName before = named.name(first, 1);
  named.pool.release(first).or_throw();
  const SequenceId second = prefill(named.pool, tokens + count_from(90, 4));
  EXPECT_EQ(named.name(second, 1), before);
  EXPECT_EQ(named.names.calls, 2);
}

TEST(PagePoolNames, a_long_sequence_is_named_with_one_call_a_page) {
  NamedPool named(1000);
  const SequenceId id = prefill(named.pool, count_from(0, 4000));
  for (int32_t position = 0; position < 1000; position += 7) named.name(id, position);
  named.name(id, 999);
  EXPECT_EQ(named.names.calls, 1000);
}

// ---- Whose it is

TEST(PagePoolNames, a_twin_has_the_name_of_its_content) {
  NamedPool named(8);
  const Tokens tokens = count_from(0, 8);
  const SequenceId a = named.pool.admit(tokens).value().id, b = named.pool.admit(tokens).value().id;
  feed(named.pool, a, tokens);
  feed(named.pool, b, tokens);
  ASSERT_NE(row(named.pool, a, 2), row(named.pool, b, 2));
  EXPECT_EQ(named.name(b, 1), expected(tokens));
  EXPECT_EQ(named.name(a, 1), expected(tokens));
  EXPECT_EQ(named.names.calls, 2);
}

TEST(PagePoolNames, a_name_stays_with_the_twin_that_answers_after_its_page_is_gone) {
  NamedPool named(8);
  const Tokens tokens = count_from(0, 8);
  const SequenceId a = named.pool.admit(tokens).value().id, b = named.pool.admit(tokens).value().id;
  feed(named.pool, a, tokens);
  const PageName before = named.name(a, 1);
  feed(named.pool, b, tokens);
  named.pool.release(a).or_throw();  // its pages become free, those of b answer
  EXPECT_EQ(named.name(b, 1), before);
  EXPECT_EQ(named.names.calls, 2);
}

TEST(PagePoolNames, a_cached_page_hands_its_name_to_the_page_that_takes_its_place) {
  NamedPool named(4);
  const Tokens tokens = count_from(0, 4);
  const SequenceId late = named.pool.admit(tokens).value().id;
  const SequenceId early = prefill(named.pool, tokens);
  const PageName before = named.name(early, 0);
  named.pool.release(early).or_throw();
  feed(named.pool, late, tokens);  // merges with the cached page
  EXPECT_EQ(named.pool.stats().cached_pages, 0);
  EXPECT_EQ(named.name(late, 0), before);
  EXPECT_EQ(named.names.calls, 1);
}

TEST(PagePoolNames, a_name_goes_with_the_last_page_of_its_content) {
  for (const Eviction eviction : {Eviction::lru, Eviction::s3_fifo, Eviction::lfu}) {
    NamedPool named(2, eviction);
    const SequenceId first = prefill(named.pool, count_from(0, 8));
    named.name(first, 1);
    EXPECT_TRUE(named.is_named(0) && named.is_named(1));
    named.pool.release(first).or_throw();
    const SequenceId second = prefill(named.pool, count_from(50, 8));  // evicts both
    EXPECT_FALSE(named.is_named(0) || named.is_named(1));
    EXPECT_EQ(named.name(second, 1), expected(count_from(50, 8)));
    named.pool.release(second).or_throw();
    const SequenceId again = prefill(named.pool, count_from(0, 8));
    EXPECT_EQ(named.name(again, 1), expected(count_from(0, 8)));
    EXPECT_EQ(named.names.calls, 6);
  }
}

TEST(PagePoolNames, a_page_that_is_cut_and_written_anew_gets_the_name_of_what_it_has_then) {
  NamedPool named(1);
  const SequenceId id = prefill(named.pool, count_from(0, 4));
  named.name(id, 0);
  named.pool.trim(id, 2).or_throw();
  EXPECT_THAT(named.refusal(id, 0), HasSubstr("less than 0"));
  feed(named.pool, id, {7, 8});
  EXPECT_EQ(named.name(id, 0), expected({0, 1, 7, 8}));
}

TEST(PagePoolNames, a_fork_has_the_names_of_the_pages_that_it_shares) {
  NamedPool named(8);
  const SequenceId id = prefill(named.pool, count_from(0, 12));
  const PageName before = named.name(id, 1);
  const SequenceId child = named.pool.fork(id, 10).value();
  EXPECT_EQ(named.name(child, 1), before);
  EXPECT_THAT(named.refusal(child, 2),
              HasSubstr("position is 2, expected 0 or more and less than 2"));
  EXPECT_EQ(named.names.calls, 2);
  take_copies(named.pool);
}

// ---- Names of tokens to come

TEST(PagePoolNames, tokens_have_the_names_that_their_pages_will_have) {
  NamedPool named(8);
  const Tokens tokens = count_from(0, 16);
  const SequenceOptions options{.salt = "s", .adapter = 3};
  const SequenceId id = prefill(named.pool, {tokens.begin(), tokens.begin() + 6}, options);
  std::vector<PageName> names(3);
  const auto rest = std::span(tokens).subspan(4);
  ASSERT_TRUE(named.pool.names_of(id, 1, rest.first(4), std::span(names).first(1)).is_ok());
  EXPECT_EQ(named.names.calls, 2) << "its own, and that of the page before";
  ASSERT_TRUE(named.pool.names_of(id, 1, rest, names, 1).is_ok());
  EXPECT_EQ(named.names.calls, 4) << "one is known";
  named.pool.reserve(id, 10).or_throw();
  feed(named.pool, id, {tokens.begin() + 6, tokens.end()});
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(named.name(id, static_cast<int32_t>(i) + 1), names[i]);
  EXPECT_EQ(names[2], expected(tokens, options));
  names.resize(4);
  ASSERT_TRUE(named.pool.names_of(id, 0, tokens, names).is_ok());
  EXPECT_EQ(names[3], expected(tokens, options)) << "from the first page on";
}

TEST(PagePoolNames, tokens_that_cannot_be_named_are_refused) {
  NamedPool named(4);
  const Tokens tokens = count_from(0, 8);
  const SequenceId id = prefill(named.pool, tokens);
  std::vector<PageName> names(2);
  const auto refusal = [&](int32_t position, size_t count, size_t num_names, size_t known = 0) {
    const Status s = named.pool.names_of(id, position, std::span(tokens).first(count),
                                         std::span(names).first(num_names), known);
    EXPECT_EQ(s.code(), Errc::invalid_argument);
    return std::string(s.message());
  };
  for (const int32_t position : {-1, 3, INT_MIN, INT_MAX})
    EXPECT_THAT(refusal(position, 8, 2), HasSubstr("position is"));
  EXPECT_THAT(refusal(0, 7, 2), HasSubstr("tokens has 7 elements for 2 names"));
  EXPECT_THAT(refusal(0, 8, 2, 3), HasSubstr("known is 3, expected at most 2"));
  const std::span<const TokenId> nowhere(static_cast<const TokenId*>(nullptr), 8);
  EXPECT_THAT(named.pool.names_of(id, 0, nowhere, names).message(), HasSubstr("tokens is null"));
  const std::span<PageName> no_names(static_cast<PageName*>(nullptr), 2);
  EXPECT_THAT(named.pool.names_of(id, 0, tokens, no_names).message(), HasSubstr("names is null"));
  const std::span<PageName> many(names.data(), size_t{1} << 40);
  EXPECT_THAT(named.pool.names_of(id, 0, tokens, many).message(), HasSubstr("at most"));
  EXPECT_TRUE(named.pool.names_of(id, 2, {}, {}).is_ok()) << "none";
  EXPECT_THAT(named.pool.names_of({}, 0, {}, {}).message(), HasSubstr("id is sequence"));
  EXPECT_EQ(named.names.calls, 0);
  named.names.fail_at = 1;
  EXPECT_EQ(named.pool.names_of(id, 0, tokens, names).code(), Errc::io);
  PagePool nameless = make_pool({.num_pages = 4, .page_size = page_size});
  EXPECT_THAT(nameless.names_of(prefill(nameless, tokens), 0, tokens, names).message(),
              HasSubstr("no names"));
  EXPECT_EQ(nameless.name_function().function, nullptr);
  EXPECT_EQ(named.pool.name_function().context, named.names.function().context);
}

// ---- Errors of the function

TEST(PagePoolNames, an_error_of_the_function_leaves_its_page_unnamed_and_keeps_the_names_before) {
  NamedPool named(4);
  const Tokens tokens = count_from(0, 16);
  const SequenceId id = prefill(named.pool, tokens);
  named.names.fail_at = 2;
  const Status status = named.pool.name(id, 3).error();
  EXPECT_EQ(status.code(), Errc::io);
  EXPECT_EQ(status.message(), "no name today");
  expect_sound(named.pool);
  const std::vector<uint32_t> pages = row(named.pool, id, 4);
  EXPECT_TRUE(named.is_named(pages[0]) && named.is_named(pages[1]));
  EXPECT_FALSE(named.is_named(pages[2]) || named.is_named(pages[3]));
  EXPECT_EQ(named.name(id, 3), expected(tokens));
  EXPECT_EQ(named.names.calls, 5);
}

TEST(PagePoolNames, an_error_for_the_first_page_changes_nothing) {
  NamedPool named(4);
  const SequenceId id = prefill(named.pool, count_from(0, 16));
  named.names.fail_at = 0;
  const std::vector<std::byte> before = named.memory.snapshot();
  EXPECT_EQ(named.pool.name(id, 3).error().code(), Errc::io);
  EXPECT_EQ(named.memory.snapshot(), before);
}

// ---- Refusals

TEST(PagePoolNames, positions_that_are_not_full_pages_are_refused) {
  NamedPool named(4);
  const SequenceId id = prefill(named.pool, count_from(0, 10));
  for (const int32_t position : {2, 3, 4, -1, INT_MIN, INT_MAX}) {
    EXPECT_EQ(named.refusal(id, position),
              "PagePool::name: position is " + std::to_string(position) +
                  ", expected 0 or more and less than 2 (the full pages of the sequence)");
  }
  EXPECT_EQ(named.names.calls, 0);
}

TEST(PagePoolNames, stale_and_foreign_ids_are_refused) {
  NamedPool named(8);
  const SequenceId id = prefill(named.pool, count_from(0, 8));
  named.name(id, 1);
  named.pool.release(id).or_throw();
  NamedPool other(8);
  prefill(other.pool, count_from(0, 8));
  const SequenceId foreign = prefill(other.pool, count_from(20, 8));
  for (const SequenceId bad : {id, foreign, SequenceId{}, SequenceId{UINT32_MAX, 1}})
    EXPECT_THAT(named.refusal(bad, 0), HasSubstr("PagePool::name: id is sequence"));
  PagePool moved = std::move(other.pool);
  EXPECT_EQ(other.pool.name(foreign, 0).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.name(foreign, 1).value(), expected(count_from(20, 8)));
  expect_sound(moved);
}

TEST(PagePoolNames, a_pool_without_a_function_has_no_names) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = page_size});
  const SequenceId id = prefill(pool, count_from(0, 8));
  EXPECT_EQ(pool.name(id, 0).error().message(),
            "PagePool::name: the pool has no names, expected a function in PoolOptions::name");
}

TEST(PagePoolNames, a_context_without_a_function_and_names_without_reuse_are_refused) {
  NaiveNames names;
  const Status alone =
      PagePool::create({.num_pages = 4, .name = {.function = nullptr, .context = &names}}).error();
  EXPECT_EQ(alone.code(), Errc::invalid_argument);
  EXPECT_EQ(alone.message(),
            "PagePool::create: name.function is null, expected a function, as name.context is not");
  const Status useless =
      PagePool::create({.num_pages = 4, .prefix_reuse = false, .name = names.function()}).error();
  EXPECT_EQ(useless.code(), Errc::invalid_argument);
  EXPECT_EQ(useless.message(),
            "PagePool::create: name.function is given, expected none without prefix_reuse");
}

TEST(PagePoolNames, a_name_takes_32_bytes_a_page_where_a_function_is_given_and_none_elsewhere) {
  NaiveNames names;
  const PoolOptions without{.num_pages = 1000};
  PoolOptions with = without;
  with.name = names.function();
  const int64_t more =
      PagePool::required_bytes(with).value() - PagePool::required_bytes(without).value();
  EXPECT_GE(more, 32 * 1000);
  EXPECT_LT(more, 32 * 1000 + 64);
}

}  // namespace
}  // namespace folio::test
