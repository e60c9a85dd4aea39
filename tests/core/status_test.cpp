// SPDX-License-Identifier: Apache-2.0
/// tests/core/status_test.cpp: Status and Result, with an allocator that counts and can be told to
/// fail.
#include "folio/core/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "support/allocations.h"

namespace folio {
namespace {

static_assert(sizeof(Status) == sizeof(void*));
static_assert(std::is_nothrow_move_constructible_v<Status> &&
              std::is_nothrow_copy_constructible_v<Status>);
static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);

Result<int> half(int x) noexcept {
  if (x % 2 != 0) return fail(Errc::invalid_argument, "half: x is {}, expected an even number", x);
  return x / 2;
}

TEST(Status, ok_is_empty_and_allocates_nothing) {
  const int64_t before = test::allocations();
  const Status ok;
  const Status copy = ok;
  const Result<int> result = half(8);
  ok.or_throw();
  EXPECT_EQ(test::allocations(), before);
  EXPECT_TRUE(ok.is_ok() && copy.is_ok());
  EXPECT_TRUE(static_cast<bool>(ok));
  EXPECT_EQ(ok.code(), Errc::ok);
  EXPECT_EQ(ok.message(), "");
  EXPECT_EQ(result.value(), 4);
  EXPECT_TRUE(result.error().is_ok());
  EXPECT_TRUE(Status(Errc::ok, "ignored").is_ok());
}

TEST(Status, failure_carries_code_and_message) {
  const Status s = fail(Errc::invalid_argument, "append: k has {} heads, expected {} (from {})", 7,
                        int64_t{8}, "key");
  EXPECT_FALSE(s.is_ok());
  EXPECT_EQ(s.code(), Errc::invalid_argument);
  EXPECT_EQ(s.message(), "append: k has 7 heads, expected 8 (from key)");
}

TEST(Status, arguments_of_every_kind_appear_in_the_message) {
  const Status s = fail(Errc::io, "{} {} {} {} {}|{}", DType::bf16, 2.5, uint8_t{255},
                        std::string_view("abc", 2), true, INT64_MIN);
  EXPECT_EQ(s.message(), "bf16 2.5 255 ab 1|-9223372036854775808");
  EXPECT_EQ(fail(Errc::io, "null: {}", static_cast<const char*>(nullptr)).message(),
            "null: (null)");
}

TEST(Status, missing_and_surplus_arguments_do_no_harm) {
  EXPECT_EQ(fail(Errc::io, "a {} b {}", 1).message(), "a 1 b {}");
  EXPECT_EQ(fail(Errc::io, "a", 1).message(), "a");
  EXPECT_EQ(fail(Errc::io, "{ {} }", 1).message(), "{ 1 }");
  EXPECT_EQ(fail(Errc::io, "").message(), "");
}

TEST(Status, a_message_too_long_is_cut) {
  const std::string text(5000, 'x');
  const Status s = fail(Errc::io, "a {} b", text.c_str());
  EXPECT_EQ(s.message().size(), 1024u);
  EXPECT_EQ(s.message().substr(0, 4), "a xx");
  EXPECT_EQ(Status(Errc::io, text).message(), text) << "a message given whole is kept whole";
}

TEST(Status, copy_and_move_keep_the_message) {
  Status a(Errc::busy, "first");
  const Status copy = a;
  Status moved = std::move(a);
  EXPECT_EQ(copy.message(), "first");
  EXPECT_EQ(moved.message(), "first");
  moved = Status(Errc::io, "second");
  EXPECT_EQ(moved.message(), "second");
  EXPECT_EQ(copy.code(), Errc::busy);
  moved = copy;
  EXPECT_EQ(moved.message(), "first");
  Status& itself = moved;
  moved = itself;
  EXPECT_EQ(moved.message(), "first");
}

TEST(Status, without_memory_it_is_out_of_memory_with_a_fixed_message) {
  const Status made_before(Errc::io, "kept");
  test::fail_allocations(true);
  const Status s(Errc::invalid_argument, "cannot be stored");
  const Status copy = s;
  const Status copy_of_kept = made_before;
  test::fail_allocations(false);
  EXPECT_EQ(s.code(), Errc::out_of_memory);
  EXPECT_EQ(s.message(), "out of memory");
  EXPECT_EQ(copy.code(), Errc::out_of_memory);
  EXPECT_EQ(copy_of_kept.code(), Errc::out_of_memory);
}

TEST(Status, or_throw_throws_an_error_with_the_message) {
  const Status s(Errc::out_of_pages, "reserve: 3 pages free");
  try {
    s.or_throw();
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::out_of_pages);
    EXPECT_STREQ(e.what(), "reserve: 3 pages free");
    EXPECT_EQ(e.status().message(), "reserve: 3 pages free");
  }
}

TEST(Errc, codes_have_fixed_values_and_names) {
  const char* const names[] = {"ok",           "invalid_argument", "unsupported",
                               "out_of_pages", "out_of_memory",    "busy",
                               "io",           "device",           "internal"};
  for (int i = 0; i < 9; ++i) EXPECT_STREQ(name(static_cast<Errc>(i)), names[i]);
}

TEST(Result, holds_a_value_or_a_reason) {
  const Result<int> good = half(6);
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(*good, 3);
  const Result<int> bad = half(7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message(), "half: x is 7, expected an even number");
  EXPECT_EQ(bad.value_or(-1), -1);
  EXPECT_EQ(good.value_or(-1), 3);
  EXPECT_THROW((void)bad.value(), Error);
  EXPECT_THROW(bad.or_throw(), Error);
  EXPECT_NO_THROW(good.or_throw());
}

TEST(Result, chains_and_stops_at_the_first_failure) {
  EXPECT_EQ(half(12).and_then(half).value(), 3);
  EXPECT_EQ(half(6).and_then(half).error().message(), "half: x is 3, expected an even number");
  EXPECT_EQ(half(5).and_then(half).error().message(), "half: x is 5, expected an even number");
  EXPECT_EQ(half(6).transform([](int x) { return std::to_string(x); }).value(), "3");
  EXPECT_FALSE(half(5).transform([](int x) { return std::to_string(x); }));
}

TEST(Result, made_from_an_ok_status_has_a_reason_all_the_same) {
  const Result<int> result = Status();
  EXPECT_FALSE(result);
  EXPECT_EQ(result.error().code(), Errc::internal);
  EXPECT_THROW((void)result.value(), Error);
}

TEST(Result, moves_what_cannot_be_copied) {
  Result<std::unique_ptr<int>> a = std::make_unique<int>(5);
  Result<std::unique_ptr<int>> b = std::move(a);
  EXPECT_EQ(**b, 5);
  b = Result<std::unique_ptr<int>>(fail(Errc::io, "gone"));
  EXPECT_FALSE(b);
  b = Result<std::unique_ptr<int>>(std::make_unique<int>(6));
  const std::unique_ptr<int> out = std::move(b).value();
  EXPECT_EQ(*out, 6);
}

TEST(Result, copies_are_independent) {
  const Result<std::string> a = std::string("text");
  Result<std::string> b = a;
  *b += "!";
  EXPECT_EQ(*a, "text");
  EXPECT_EQ(b->size(), 5u);
  b = Result<std::string>(fail(Errc::io, "x"));
  EXPECT_EQ(a.value(), "text");
  EXPECT_EQ(b.error().message(), "x");
}

}  // namespace
}  // namespace folio
