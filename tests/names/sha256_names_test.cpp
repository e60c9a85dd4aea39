// SPDX-License-Identifier: Apache-2.0
/// tests/names/sha256_names_test.cpp: names are those of Python's hashlib, and refusals.
#include "folio/names/sha256_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "names/vectors.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

static_assert(!std::is_copy_constructible_v<Sha256Names> &&
              std::is_nothrow_move_constructible_v<Sha256Names> &&
              std::is_nothrow_move_assignable_v<Sha256Names>);

Sha256Names make_names(const Digest256& fingerprint = {}, const std::string& header = {}) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(header.data());
  return Sha256Names::create({.fingerprint = fingerprint, .header = {bytes, header.size()}})
      .value();
}

/// The one digest of a salt, an adapter and one page, as a pool asks for it.
PageName first_page(const NameFunction& names, const std::string& salt, uint64_t adapter,
                    const std::vector<TokenId>& tokens) {
  PageName name;
  names.function(names.context, {.tokens = tokens, .salt = salt, .adapter = adapter}, &name)
      .or_throw();
  return name;
}

// ---- Vectors

TEST(Sha256Names, roots_pages_and_chains_are_those_of_hashlib) {
  std::map<NameVector::Kind, int> seen;
  for (const NameVector& v : name_vectors()) {
    SCOPED_TRACE(seen[v.kind]++);
    Sha256Names names = make_names(v.fingerprint, v.header);
    ASSERT_FALSE(v.names.empty());
    if (v.kind == NameVector::Kind::root) {
      EXPECT_EQ(names.root(v.salt, v.adapter).value(), v.names[0]);
    }
    if (v.kind == NameVector::Kind::page) {
      EXPECT_EQ(names.page(v.parent, v.tokens, v.spans).value(), v.names[0]);
    }
    if (v.kind != NameVector::Kind::chain) continue;
    PageName parent = names.root(v.salt, v.adapter).value();
    for (size_t i = 0; i < v.names.size(); ++i) {
      const auto page_size = static_cast<size_t>(v.page_size);
      parent = names.page(parent, std::span(v.tokens).subspan(i * page_size, page_size)).value();
      EXPECT_EQ(parent, v.names[i]) << i;
    }
  }
  EXPECT_GE(seen[NameVector::Kind::root], 30);
  EXPECT_GE(seen[NameVector::Kind::page], 80);
  EXPECT_GE(seen[NameVector::Kind::chain], 3);
}

TEST(Sha256Names, companions_are_those_of_hashlib) {
  Sha256Names names = make_names({}, "a header is of the leading page's name");
  int seen = 0;
  for (const NameVector& v : name_vectors()) {
    if (v.kind != NameVector::Kind::companion) continue;
    ++seen;
    EXPECT_EQ(names.companion(v.parent, v.group, v.rule).value(), v.names[0]);
    GroupOptions with_bytes = v.rule;
    with_bytes.page_bytes = 4096;
    EXPECT_EQ(names.companion(v.parent, v.group, with_bytes).value(), v.names[0]);
    const NameFunction function = names.function();
    PageName name;
    function
        .companion(function.context, {.leading = v.parent, .group = v.group, .options = with_bytes},
                   &name)
        .or_throw();
    EXPECT_EQ(name, v.names[0]);
  }
  EXPECT_GE(seen, 40);
}

TEST(Sha256Names, companions_of_no_group_or_rule_are_refused) {
  Sha256Names names = make_names();
  EXPECT_THAT(names.companion({}, 0, {}).error().message(), HasSubstr("group is 0"));
  EXPECT_THAT(names.companion({}, 256, {}).error().message(), HasSubstr("group is 256"));
  EXPECT_THAT(names.companion({}, 1, {.rule = static_cast<GroupRule>(4)}).error().message(),
              HasSubstr("options.rule is 4"));
  const Sha256Names taken = std::move(names);
  EXPECT_THAT(names.companion({}, 1, {}).error().message(),  // NOLINT(bugprone-use-after-move)
              HasSubstr("moved from"));
}

TEST(Sha256Names, a_pool_gets_the_name_of_a_first_page_with_its_root_and_of_others_by_the_parent) {
  for (const NameVector& v : name_vectors()) {
    if (v.kind != NameVector::Kind::chain) continue;
    Sha256Names names = make_names(v.fingerprint);
    const NameFunction function = names.function();
    const auto page_size = static_cast<size_t>(v.page_size);
    for (size_t i = 0; i < v.names.size(); ++i) {
      PageName name;
      const PageContent page{.parent = i == 0 ? nullptr : &v.names[i - 1],
                             .tokens = std::span(v.tokens).subspan(i * page_size, page_size),
                             .salt = v.salt,
                             .adapter = v.adapter};
      function.function(function.context, page, &name).or_throw();
      EXPECT_EQ(name, v.names[i]) << i;
    }
  }
}

TEST(Sha256Names, a_function_goes_along_with_the_object_that_it_is_of) {
  Sha256Names names = make_names();
  const NameFunction function = names.function();
  const PageName before = first_page(function, "", 0, {1});
  Sha256Names other = std::move(names), third = make_names(Digest256{{1}});
  EXPECT_EQ(first_page(function, "", 0, {1}), before);
  third = std::move(other);
  EXPECT_EQ(first_page(function, "", 0, {1}), before);
  EXPECT_EQ(third.page(third.root("", 0).value(), std::vector<TokenId>{1}).value(), before);
}

TEST(Sha256Names, objects_in_different_threads_do_not_disturb_each_other) {
  const std::vector<NameVector> vectors = name_vectors();
  const auto all = [&](size_t* wrong) {
    for (const NameVector& v : vectors) {
      if (v.kind != NameVector::Kind::page) continue;
      Sha256Names names = make_names(v.fingerprint, v.header);
      for (int i = 0; i < 20; ++i)
        *wrong += names.page(v.parent, v.tokens, v.spans).value() == v.names[0] ? 0U : 1U;
    }
  };
  size_t wrong[2] = {};
  std::thread other(all, &wrong[1]);
  all(&wrong[0]);
  other.join();
  EXPECT_EQ(wrong[0] + wrong[1], 0U);
}

// ---- Refusals

template <class Value>
std::string refusal(const Result<Value>& result) {
  EXPECT_EQ(result.error().code(), Errc::invalid_argument);
  return std::string(result.error().message());
}

constexpr size_t too_much = std::numeric_limits<size_t>::max();

TEST(Sha256Names, a_header_that_is_null_or_too_long_is_refused) {
  const std::vector<uint8_t> header(257);
  EXPECT_EQ(refusal(Sha256Names::create({.header = header})),
            "Sha256Names::create: header has 257 bytes, expected at most 256");
  const std::span<const uint8_t> null(static_cast<const uint8_t*>(nullptr), 3);
  EXPECT_EQ(refusal(Sha256Names::create({.header = null})),
            "Sha256Names::create: header is null, expected memory of size 3");
  const std::span<const uint8_t> endless(header.data(), too_much);
  EXPECT_THAT(refusal(Sha256Names::create({.header = endless})), HasSubstr("header has"));
}

TEST(Sha256Names, a_salt_that_is_too_long_is_refused_before_it_is_read) {
  Sha256Names names = make_names();
  EXPECT_EQ(refusal(names.root(std::string_view("x", size_t{1} << 31), 0)),
            "Sha256Names::root: salt has 2147483648 bytes, expected at most 2147483647");
  EXPECT_EQ(names.root({}, 0).value(), names.root("", 0).value());
}

TEST(Sha256Names, tokens_that_are_none_null_or_too_many_are_refused_before_they_are_read) {
  Sha256Names names = make_names();
  const TokenId token = 0;
  EXPECT_EQ(refusal(names.page({}, {})),
            "Sha256Names::page: tokens has 0 elements, expected 1 .. 2147483647");
  EXPECT_THAT(refusal(names.page({}, {&token, size_t{1} << 31})), HasSubstr("2147483648 elements"));
  EXPECT_THAT(refusal(names.page({}, {&token, too_much / 4 + 2})), HasSubstr("tokens has"));
  EXPECT_EQ(refusal(names.page({}, {static_cast<const TokenId*>(nullptr), 2})),
            "Sha256Names::page: tokens is null, expected memory of size 2");
}

TEST(Sha256Names, spans_that_are_null_or_too_many_are_refused_before_they_are_read) {
  Sha256Names names = make_names();
  const std::vector<TokenId> tokens(4);
  const ContentSpan span{0, 1, {}};
  EXPECT_EQ(refusal(names.page({}, tokens, {static_cast<const ContentSpan*>(nullptr), 2})),
            "Sha256Names::page: spans is null, expected memory of size 2");
  EXPECT_EQ(refusal(names.page({}, tokens, {&span, 5})),
            "Sha256Names::page: spans has 5 elements, expected at most 4 (the tokens)");
  EXPECT_THAT(refusal(names.page({}, tokens, {&span, too_much / sizeof span + 2})),
              HasSubstr("spans has"));
}

struct BadSpans {
  std::vector<ContentSpan> spans;
  const char* expected;
};

TEST(Sha256Names, spans_that_are_empty_outside_out_of_order_or_overlapping_are_refused) {
  Sha256Names names = make_names();
  const std::vector<TokenId> tokens(4);
  const BadSpans cases[] = {
      {{{0, 0, {}}}, "spans[0] has length 0, expected at least 1"},
      {{{0, -1, {}}}, "spans[0] has length -1"},
      {{{0, INT_MIN, {}}}, "spans[0] has length -2147483648"},
      {{{4, 1, {}}}, "spans[0] is [4, 5), expected a token of the page's [0, 4)"},
      {{{INT_MAX, INT_MAX, {}}}, "spans[0] is [2147483647, 4294967294)"},
      {{{-2, 2, {}}}, "spans[0] is [-2, 0)"},
      {{{INT_MIN, INT_MAX, {}}}, "spans[0] is [-2147483648, -1)"},
      {{{2, 1, {}}, {0, 1, {}}}, "spans[1] begins at 0, expected 3 or more"},
      {{{0, 2, {}}, {1, 1, {}}}, "spans[1] begins at 1, expected 2 or more"},
      {{{0, 1, {}}, {0, 1, {}}}, "spans[1] begins at 0, expected 1 or more"},
      {{{0, INT_MAX, {}}, {3, 1, {}}}, "spans[1] begins at 3, expected 2147483647 or more"},
      {{{-1, 3, {}}, {2, 1, {}}, {2, 2, {}}}, "spans[2] begins at 2, expected 3 or more"},
  };
  for (const BadSpans& bad : cases)
    EXPECT_THAT(refusal(names.page({}, tokens, bad.spans)), HasSubstr(bad.expected));
}

TEST(Sha256Names, a_refusal_leaves_the_object_as_it_was) {
  Sha256Names names = make_names();
  const std::vector<TokenId> tokens{1, 2};
  const PageName before = names.page({}, tokens).value();
  refusal(names.page({}, {}));
  EXPECT_EQ(names.page({}, tokens).value(), before);
  const NameFunction function = names.function();
  PageName untouched{{7}};
  EXPECT_EQ(function.function(function.context, {}, &untouched).code(), Errc::invalid_argument);
  EXPECT_EQ(untouched, (PageName{{7}}));
}

TEST(Sha256Names, a_moved_from_object_refuses) {
  Sha256Names names = make_names();
  const Sha256Names other = std::move(names);
  EXPECT_EQ(refusal(names.root("", 0)),
            "Sha256Names::root: the object is moved from, expected one that hashes");
  EXPECT_THAT(refusal(names.page({}, std::vector<TokenId>{1})), HasSubstr("moved from"));
  EXPECT_EQ(names.function().function, nullptr);
  EXPECT_EQ(names.function().context, nullptr);
}

}  // namespace
}  // namespace folio::test
