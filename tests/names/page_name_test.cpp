// SPDX-License-Identifier: Apache-2.0
/// tests/names/page_name_test.cpp: names as hashlib computes them, and no two contents with one.
#include "names/page_name.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace folio::test {
namespace {

using names::Digest;
using names::Item;
using names::NameScope;
using Tokens = std::vector<TokenId>;

Digest digest_of(const std::string& hex) {
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i)
    digest.bytes[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return digest;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; hex != "-" && i < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Digest filled(int value) {
  Digest digest;
  digest.bytes.fill(static_cast<std::byte>(value));
  return digest;
}

Digest root(const NameScope& scope) { return names::root_name(scope).value(); }
Digest page(const Digest& parent, const Tokens& tokens, const std::vector<Item>& items = {}) {
  return names::page_name(parent, tokens, items).value();
}
Errc refusal(const Tokens& tokens, const std::vector<Item>& items) {
  return names::page_name({}, tokens, items).error().code();
}

// ---- What hashlib says

TEST(Names, are_those_that_hashlib_computes) {
  std::ifstream file(FOLIO_NAME_VECTORS);
  std::string line, kind, first;
  int roots = 0, pages = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> kind >> first;
    std::string name;
    if (kind == "root") {
      uint64_t adapter = 0;
      std::string salt;
      words >> adapter >> salt >> name;
      salt = bytes_of(salt);
      EXPECT_EQ(root({digest_of(first), adapter, salt}), digest_of(name)) << line;
      ++roots;
      continue;
    }
    size_t count = 0;
    words >> count;
    Tokens tokens(count);
    for (TokenId& token : tokens) words >> token;
    words >> count;
    std::vector<Item> items(count);
    for (Item& item : items) {
      words >> item.offset >> item.length >> name;
      item.content = digest_of(name);
    }
    words >> name;
    ASSERT_TRUE(words) << line;
    EXPECT_EQ(page(digest_of(first), tokens, items), digest_of(name)) << line;
    ++pages;
  }
  EXPECT_EQ(roots, 60);
  EXPECT_GE(pages, 200);
}

// ---- Framing

TEST(Names, of_different_scopes_differ) {
  const std::string_view salts[] = {"", "o", "org_1", "org_12345", {"org_1\0", 6}, {"\0", 1}};
  std::set<Digest> seen;
  for (const int fingerprint : {0, 1, 255}) {
    for (const uint64_t adapter : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, UINT64_MAX}) {
      for (const std::string_view salt : salts)
        seen.insert(root({filled(fingerprint), adapter, salt}));
    }
  }
  EXPECT_EQ(seen.size(), 3 * 4 * std::size(salts));
}

TEST(Names, of_different_pages_differ_in_whatever_field_they_do) {
  const Digest parent = filled(3);
  const Item item{2, 3, filled(9)};
  std::set<Digest> seen;
  seen.insert(page(parent, {1, 2, 3, 4}));
  seen.insert(page(parent, {1, 2, 3, 5}));
  seen.insert(page(parent, {1, 2, 3}));
  seen.insert(page(parent, {1, 2, 3, 4, 0}));
  seen.insert(page(parent, {2, 1, 3, 4}));
  seen.insert(page(filled(4), {1, 2, 3, 4}));
  seen.insert(page(parent, {1, 2, 3, 4}, {item}));
  seen.insert(page(parent, {1, 2, 3, 4}, {{1, 3, filled(9)}}));
  seen.insert(page(parent, {1, 2, 3, 4}, {{2, 4, filled(9)}}));
  seen.insert(page(parent, {1, 2, 3, 4}, {{2, 3, filled(8)}}));
  seen.insert(page(parent, {1, 2, 3, 4}, {{0, 1, filled(9)}, item}));
  seen.insert(page(parent, {1, 2, 3, 4}, {{-7, 8, filled(9)}, item}));
  EXPECT_EQ(seen.size(), 12U);
}

TEST(Names, no_tokens_imitate_an_item) {
  // behind the number of tokens the bytes are the same, but for the last four
  const Item item{1, 2, filled(5)};
  Tokens spelled = {7, 8, 1};
  spelled.resize(3 + sizeof(Item) / sizeof(TokenId));
  std::memcpy(&spelled[3], &item, sizeof item);
  EXPECT_NE(page({}, spelled), page({}, {7, 8}, {item}));
}

TEST(Names, no_salt_imitates_a_page) {
  // all bytes behind the first word are those of the page {8, 12, 42, 43} without items
  const Digest parent = filled(6);
  const uint32_t page_bytes[] = {4, 8, 12, 42, 43, 0};
  NameScope scope{.fingerprint = parent};
  std::memcpy(&scope.adapter, page_bytes, 8);
  std::string salt(12, '\0');  // as long as the third number says
  std::memcpy(salt.data(), page_bytes + 3, 12);
  scope.salt = salt;
  EXPECT_NE(root(scope), page(parent, {8, 12, 42, 43}));
}

TEST(Names, another_image_behind_the_same_placeholders_changes_every_page_from_there_on) {
  const Tokens tokens(16, 99);
  const auto chain = [&](int image) {
    Digest name = root({});
    std::vector<Digest> all{name = page(name, tokens)};
    for (const int32_t offset : {11, -5, -21})
      all.push_back(name = page(name, tokens, {{offset, 30, filled(image)}}));
    return all;
  };
  const std::vector<Digest> a = chain(1), b = chain(2);
  EXPECT_EQ(a[0], b[0]);
  for (size_t i = 1; i < a.size(); ++i) EXPECT_NE(a[i], b[i]) << i;
  EXPECT_EQ(a, chain(1));
}

// ---- Hostile callers

TEST(Names, refuse_pages_that_are_none) {
  EXPECT_EQ(refusal({}, {}), Errc::invalid_argument);
  const auto nothing = static_cast<const TokenId*>(nullptr);
  EXPECT_EQ(names::page_name({}, {nothing, 4}).error().message(),
            "page_name: tokens has 4 elements and is null, expected memory of 1 .. "
            "2147483647");
  const TokenId token = 1;
  EXPECT_EQ(names::page_name({}, {&token, size_t{INT32_MAX} + 1}).error().code(),
            Errc::invalid_argument);
  EXPECT_EQ(
      names::page_name({}, {&token, 1}, {static_cast<const Item*>(nullptr), 1}).error().code(),
      Errc::invalid_argument);
}

TEST(Names, refuse_items_outside_the_page_and_out_of_order) {
  const Tokens tokens(4, 1);
  for (const auto& [offset, length] :
       std::vector<std::pair<int32_t, int32_t>>{{0, 0},
                                                {0, -1},
                                                {4, 1},
                                                {INT32_MAX, INT32_MAX},
                                                {-1, 1},
                                                {INT32_MIN, INT32_MAX},
                                                {INT32_MIN, INT32_MIN},
                                                {0, INT32_MIN},
                                                {-5, 5}}) {
    EXPECT_EQ(refusal(tokens, {{offset, length, {}}}), Errc::invalid_argument) << offset;
  }
  EXPECT_EQ(refusal(tokens, {{2, 1, {}}, {0, 1, {}}}), Errc::invalid_argument);
  EXPECT_EQ(refusal(tokens, {{0, 2, {}}, {1, 1, {}}}), Errc::invalid_argument);
  EXPECT_EQ(refusal(tokens, {{0, INT32_MAX, {}}, {3, 1, {}}}), Errc::invalid_argument);
  EXPECT_NO_THROW(page({}, tokens, {{INT32_MIN + 2, INT32_MAX, {}}, {1, INT32_MAX, {}}}))
      << "beside each other";
}

TEST(Names, refuse_salts_that_no_pool_takes) {
  const std::string longest(PagePool::max_salt_bytes, 'x'), longer = longest + 'x';
  EXPECT_NO_THROW(root({.salt = longest}));
  EXPECT_EQ(names::root_name({.salt = longer}).error().code(), Errc::invalid_argument);
  const std::string_view null(static_cast<const char*>(nullptr), 3);
  EXPECT_EQ(names::root_name({.salt = null}).error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace folio::test
