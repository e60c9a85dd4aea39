// SPDX-License-Identifier: Apache-2.0
/// tests/names/c_names_test.cpp: SHA-256 names through the C interface are those of Python's
/// hashlib, and what cannot be named is refused and writes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "folio/c/folio.h"
#include "folio/names/c_names.h"
#include "names/vectors.h"

namespace folio::test {
namespace {

struct NamesDeleter {
  void operator()(folio_sha256_names* names) const { folio_destroy_sha256_names(names); }
};
using Names = std::unique_ptr<folio_sha256_names, NamesDeleter>;

struct PoolDeleter {
  void operator()(folio_pool* pool) const { folio_destroy_pool(pool); }
};

template <class T>
T c_struct() {
  T t = {};
  t.struct_size = sizeof t;
  return t;
}

Names names_for(const NameVector& v) {
  auto options = c_struct<folio_sha256_names_options>();
  std::memcpy(options.fingerprint, v.fingerprint.bytes.data(), sizeof options.fingerprint);
  options.header = reinterpret_cast<const uint8_t*>(v.header.data());
  options.header_bytes = v.header.size();
  folio_sha256_names* made = nullptr;
  folio_message message = {};
  EXPECT_EQ(folio_create_sha256_names(&options, &made, &message), FOLIO_OK) << message.text;
  return Names(made);
}

PageName of(const folio_page_name& name) {
  PageName to;
  std::memcpy(to.bytes.data(), name.bytes, sizeof name.bytes);
  return to;
}

TEST(CNames, pages_are_named_as_by_hashlib) {
  int32_t pages = 0;
  for (const NameVector& v : name_vectors()) {
    if (v.kind != NameVector::Kind::page) continue;
    ++pages;
    folio_page_name parent = {}, name = {};
    std::memcpy(parent.bytes, v.parent.bytes.data(), sizeof parent.bytes);
    auto page = c_struct<folio_page_content>();
    page.parent = &parent;
    page.tokens = v.tokens.data();
    page.num_tokens = static_cast<int64_t>(v.tokens.size());
    page.spans = reinterpret_cast<const folio_content_span*>(v.spans.data());
    page.num_spans = static_cast<int64_t>(v.spans.size());
    ASSERT_EQ(folio_name_page_by_sha256(names_for(v).get(), &page, &name), FOLIO_OK);
    EXPECT_EQ(of(name), v.names[0]);
  }
  EXPECT_GT(pages, 50);
}

TEST(CNames, a_pool_names_its_pages_and_a_caller_names_them_without_one) {
  for (const NameVector& v : name_vectors()) {
    if (v.kind != NameVector::Kind::chain) continue;
    const Names names = names_for(v);
    const auto num_pages = static_cast<int32_t>(v.names.size());
    const auto num_tokens = static_cast<int32_t>(v.tokens.size());
    auto options = c_struct<folio_pool_options>();
    options.num_pages = static_cast<uint32_t>(num_pages + 1);
    options.page_size = v.page_size;
    options.name_page = folio_name_page_by_sha256;
    options.name_context = names.get();
    folio_message message = {};
    folio_pool* made = nullptr;
    ASSERT_EQ(folio_create_pool(&options, &made, &message), FOLIO_OK) << message.text;
    const std::unique_ptr<folio_pool, PoolDeleter> pool(made);
    auto sequence = c_struct<folio_sequence_options>();
    sequence.salt = v.salt.data();
    sequence.salt_bytes = v.salt.size();
    sequence.adapter = v.adapter;
    folio_sequence id = 0;
    ASSERT_EQ(folio_admit(made, v.tokens.data(), num_tokens, &sequence, &id, nullptr, &message),
              FOLIO_OK)
        << message.text;
    ASSERT_EQ(folio_reserve(made, id, num_tokens, &message), FOLIO_OK) << message.text;
    ASSERT_EQ(folio_commit(made, id, v.tokens.data(), num_tokens, &message), FOLIO_OK);
    folio_page_name name = {}, parent = {};
    for (int32_t i = 0; i < num_pages; ++i) {
      ASSERT_EQ(folio_get_page_name(made, id, i, &name, &message), FOLIO_OK) << message.text;
      EXPECT_EQ(of(name), v.names[static_cast<size_t>(i)]);
      auto page = c_struct<folio_page_content>();
      page.parent = i == 0 ? nullptr : &parent;
      page.tokens = v.tokens.data() + int64_t{i} * v.page_size;
      page.num_tokens = v.page_size;
      page.salt = v.salt.data();
      page.salt_bytes = v.salt.size();
      page.adapter = v.adapter;
      folio_page_name again = {};
      ASSERT_EQ(folio_name_page_by_sha256(names.get(), &page, &again), FOLIO_OK);
      EXPECT_EQ(of(again), of(name));
      parent = again;
    }
  }
}

folio_companion_content companion_of(const NameVector& v) {
  auto companion = c_struct<folio_companion_content>();
  companion.group = v.group;
  companion.rule = static_cast<int32_t>(v.rule.rule);
  companion.window = v.rule.window;
  companion.sinks = v.rule.sinks;
  companion.chunk = v.rule.chunk;
  companion.checkpoint = v.rule.checkpoint;
  std::memcpy(companion.leading.bytes, v.parent.bytes.data(), sizeof companion.leading.bytes);
  return companion;
}

TEST(CNames, companions_are_named_as_by_hashlib) {
  int32_t seen = 0;
  for (const NameVector& v : name_vectors()) {
    if (v.kind != NameVector::Kind::companion) continue;
    ++seen;
    const folio_companion_content companion = companion_of(v);
    folio_page_name name = {};
    ASSERT_EQ(folio_name_companion_by_sha256(names_for(v).get(), &companion, &name), FOLIO_OK);
    EXPECT_EQ(of(name), v.names[0]);
  }
  EXPECT_GE(seen, 40);
}

TEST(CNames, companions_that_cannot_be_are_refused_and_write_nothing) {
  const Names names = names_for({});
  auto companion = c_struct<folio_companion_content>();
  companion.group = 1;
  companion.rule = FOLIO_GROUP_STATE;
  folio_page_name name = {{7}};
  const auto code_of = [&](const folio_companion_content* content) {
    name = {{7}};
    const folio_code code = folio_name_companion_by_sha256(names.get(), content, &name);
    EXPECT_EQ(of(name) == of(folio_page_name{{7}}), code != FOLIO_OK);
    return code;
  };
  EXPECT_EQ(code_of(&companion), FOLIO_OK);
  using Break = std::function<void(folio_companion_content&)>;
  const std::vector<Break> breaks = {
      [](auto& c) { c.struct_size = 0; }, [](auto& c) { c.struct_size = UINT32_MAX; },
      [](auto& c) { c.group = 0; },       [](auto& c) { c.group = 256; },
      [](auto& c) { c.rule = -1; },       [](auto& c) { c.rule = FOLIO_GROUP_STATE + 1; },
      [](auto& c) { c.rule = 256; },      [](auto& c) { c.rule = INT32_MIN; },
  };
  for (size_t i = 0; i < breaks.size(); ++i) {
    folio_companion_content broken = companion;
    breaks[i](broken);
    EXPECT_EQ(code_of(&broken), FOLIO_INVALID_ARGUMENT) << "break " << i;
  }
  EXPECT_EQ(code_of(nullptr), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_name_companion_by_sha256(nullptr, &companion, &name), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_name_companion_by_sha256(names.get(), &companion, nullptr),
            FOLIO_INVALID_ARGUMENT);
}

TEST(CNames, what_cannot_be_named_is_refused_and_writes_nothing) {
  const int32_t tokens[] = {1, 2, 3, 4};
  const folio_content_span spans[] = {{0, 2, {}}, {2, 1, {}}};
  folio_content_span wrong[2] = {};
  const Names names = names_for({});
  using Break = std::function<void(folio_page_content&)>;
  const auto code_of = [&](const Break& break_it) {
    auto page = c_struct<folio_page_content>();
    page.tokens = tokens;
    page.num_tokens = 4;
    page.spans = spans;
    page.num_spans = 2;
    page.salt = "salt";
    page.salt_bytes = 4;
    break_it(page);
    folio_page_name name = {{7}};
    const folio_code code = folio_name_page_by_sha256(names.get(), &page, &name);
    EXPECT_EQ(of(name) == of(folio_page_name{{7}}), code != FOLIO_OK);
    return code;
  };
  EXPECT_EQ(code_of([](auto&) {}), FOLIO_OK);
  const std::vector<Break> breaks = {
      [](auto& p) { p.struct_size = 0; },
      [](auto& p) { p.struct_size = 3; },
      [](auto& p) { p.struct_size = UINT32_MAX; },
      [](auto& p) { p.struct_size = offsetof(folio_page_content, tokens); },  // so it has none
      [](auto& p) { p.reserved = 1; },
      [](auto& p) { p.tokens = nullptr; },
      [](auto& p) { p.num_tokens = 0; },
      [](auto& p) { p.num_tokens = -1; },
      [](auto& p) { p.num_tokens = INT64_MIN; },
      [](auto& p) { p.num_tokens = INT64_MAX; },
      [](auto& p) { p.spans = nullptr; },
      [](auto& p) { p.num_spans = -1; },
      [](auto& p) { p.num_spans = INT64_MAX; },
      [](auto& p) { p.num_spans = 5; },
      [](auto& p) { p.salt = nullptr; },
      [](auto& p) { p.salt_bytes = SIZE_MAX; },
      [&](auto& p) { p.spans = wrong; },  // empty
  };
  for (size_t i = 0; i < breaks.size(); ++i)
    EXPECT_EQ(code_of(breaks[i]), FOLIO_INVALID_ARGUMENT) << "break " << i;
  const auto page = c_struct<folio_page_content>();
  folio_page_name name = {};
  EXPECT_EQ(folio_name_page_by_sha256(nullptr, &page, &name), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_name_page_by_sha256(names.get(), nullptr, &name), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_name_page_by_sha256(names.get(), &page, nullptr), FOLIO_INVALID_ARGUMENT);
}

TEST(CNames, a_longer_struct_is_taken_if_it_is_zero_there) {
  const int32_t tokens[] = {1, 2, 3, 4};
  const Names names = names_for({});
  struct {
    folio_page_content known;
    uint64_t more;
  } page = {c_struct<folio_page_content>(), 0};
  page.known.struct_size = sizeof page;
  page.known.tokens = tokens;
  page.known.num_tokens = 4;
  folio_page_name name = {};
  EXPECT_EQ(folio_name_page_by_sha256(names.get(), &page.known, &name), FOLIO_OK);
  page.more = 1;
  EXPECT_EQ(folio_name_page_by_sha256(names.get(), &page.known, &name), FOLIO_UNSUPPORTED);
}

TEST(CNames, options_that_cannot_be_are_refused_with_a_text) {
  folio_sha256_names* names = nullptr;
  folio_message message = {};
  ASSERT_EQ(folio_create_sha256_names(nullptr, &names, &message), FOLIO_OK) << message.text;
  EXPECT_STREQ(message.text, "");
  const Names defaults(names);
  const auto refusal = [&](const std::function<void(folio_sha256_names_options&)>& break_it) {
    auto options = c_struct<folio_sha256_names_options>();
    break_it(options);
    names = defaults.get();
    EXPECT_EQ(folio_create_sha256_names(&options, &names, &message), FOLIO_INVALID_ARGUMENT);
    EXPECT_EQ(names, nullptr);
    EXPECT_EQ(folio_create_sha256_names(&options, &names, nullptr), FOLIO_INVALID_ARGUMENT);
    return std::string(message.text);
  };
  EXPECT_EQ(refusal([](auto& o) { o.struct_size = 1; }),
            "folio_create_sha256_names: options->struct_size is 1, expected sizeof of the struct");
  EXPECT_EQ(refusal([](auto& o) { o.reserved = 2; }),
            "folio_create_sha256_names: options->reserved is 2, expected 0");
  EXPECT_EQ(refusal([](auto& o) { o.header_bytes = 5; }),
            "Sha256Names::create: header is null, expected memory of size 5");
  uint8_t header[257] = {};
  EXPECT_EQ(refusal([&](auto& o) { o.header = header, o.header_bytes = 257; }),
            "Sha256Names::create: header has 257 bytes, expected at most 256");
  EXPECT_EQ(folio_create_sha256_names(nullptr, nullptr, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_create_sha256_names: names is null");
  folio_destroy_sha256_names(nullptr);
}

}  // namespace
}  // namespace folio::test
