// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_pool_functions_test.cpp: names and events by functions of the caller's, through the C
/// interface; what these functions may ask of the pool that calls them.
#include <cstring>
#include <string>

#include "c/c_pool_case.h"

namespace folio::test {
namespace {

using Tokens = std::vector<int32_t>;

/// A name that shows what it was made of: parent's first byte + 1, then the first token and the
/// adapter.
folio_page_name shown(uint8_t depth, int32_t token, uint64_t adapter) {
  return {{depth, static_cast<uint8_t>(token), static_cast<uint8_t>(adapter), 0xaa}};
}
bool same(const folio_page_name& a, const folio_page_name& b) {
  return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

/// Names pages, hears events and, if it is told to, calls back.
struct Functions {
  folio_pool* pool = nullptr;
  folio_code code = FOLIO_OK;  ///< of the names
  bool calls_back = false;
  std::vector<folio_code> refusals;
  std::vector<std::string> texts;
  int32_t length = -1;
  std::vector<folio_page_content> contents;
  std::vector<std::string> salts;
  std::vector<folio_content_span> spans;
  std::vector<folio_pool_event> events;
  std::vector<Tokens> tokens;

  static folio_code name(void* self, const folio_page_content* page, folio_page_name* name) {
    auto& f = *static_cast<Functions*>(self);
    f.contents.push_back(*page);
    f.salts.emplace_back(page->salt_bytes == 0 ? "" : page->salt, page->salt_bytes);
    f.spans.insert(f.spans.end(), page->spans, page->spans + page->num_spans);
    if (f.calls_back) f.call_back();
    const auto depth =
        static_cast<uint8_t>(page->parent == nullptr ? 1 : page->parent->bytes[0] + 1);
    *name = shown(depth, page->tokens[0], page->adapter);
    return f.code;
  }
  static void event(void* self, const folio_pool_event* told, const int32_t* of,
                    int64_t num_tokens) {
    auto& f = *static_cast<Functions*>(self);
    f.events.push_back(*told);
    f.tokens.emplace_back(of, of + num_tokens);
    if (f.calls_back) f.call_back();
  }
  void call_back() {
    const int32_t prompt[] = {1, 2, 3, 4};
    constexpr folio_sequence first = uint64_t{1} << 32;
    folio_message message = {};
    folio_sequence made = 0;
    folio_step step = 0;
    folio_page_name name = {};
    const folio_page_copy* copies = nullptr;
    int64_t count = 0;
    const auto add = [&](folio_code refusal) {
      refusals.push_back(refusal);
      texts.emplace_back(message.text);
    };
    add(folio_admit(pool, prompt, 4, nullptr, &made, nullptr, &message));
    add(folio_reserve(pool, first, 1, &message));
    add(folio_commit(pool, first, prompt, 1, &message));
    add(folio_release(pool, first, &message));
    add(folio_clear_pool(pool, &message));
    add(folio_begin_step(pool, &first, 1, &step, &message));
    add(folio_take_copies(pool, &copies, &count, &message));
    add(folio_take_group_copies(pool, 0, &copies, &count, &message));
    add(folio_get_page_name(pool, first, 0, &name, &message));
    folio_destroy_pool(pool);
    EXPECT_EQ(folio_get_length(pool, first, &length, &message), FOLIO_OK) << message.text;
  }
};

class CPoolFunctions : public CPool {
 protected:
  void change(folio_pool_options& options) override {
    options.max_spans = 1;
    options.event_capacity = 16;
    options.name_page = Functions::name;
    options.name_context = &functions;
    options.on_event = Functions::event;
    options.event_context = &functions;
  }
  folio_sequence serve(const Tokens& tokens, const folio_sequence_options* options = nullptr) {
    functions.pool = pool.get();
    folio_sequence id = 0;
    EXPECT_EQ(folio_admit(pool.get(), tokens.data(), static_cast<int64_t>(tokens.size()), options,
                          &id, nullptr, &message),
              FOLIO_OK)
        << message.text;
    write(id, tokens);
    return id;
  }
  Functions functions;
};

TEST_F(CPoolFunctions, events_are_told_with_tokens_and_names_and_the_ring_has_them_too) {
  auto options = c_struct<folio_sequence_options>();
  options.adapter = 7;
  static_cast<void>(serve({1, 2, 3, 4, 5, 6, 7, 8, 9}, &options));
  ASSERT_EQ(functions.events.size(), 2u);
  EXPECT_EQ(functions.tokens, (std::vector<Tokens>{{1, 2, 3, 4}, {5, 6, 7, 8}}));
  const folio_pool_event &a = functions.events[0], &b = functions.events[1];
  EXPECT_EQ(a.kind, FOLIO_STORED);
  EXPECT_EQ(a.has_name, 1);
  EXPECT_EQ(a.has_parent_name, 0);
  EXPECT_TRUE(same(a.name, shown(1, 1, 7)));
  EXPECT_TRUE(same(b.name, shown(2, 5, 7)));
  EXPECT_EQ(b.has_parent_name, 1);
  EXPECT_TRUE(same(b.parent_name, a.name));
  EXPECT_EQ(b.adapter, 7u);
  EXPECT_EQ(b.position, 1);
  folio_pool_event read[4] = {};
  int64_t count = 0;
  uint64_t next = 0;
  int32_t lost = 0;
  ASSERT_EQ(folio_read_events(pool.get(), 1, read, 4, &count, &next, &lost, &message), FOLIO_OK);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(std::memcmp(read, functions.events.data(), 2 * sizeof *read), 0);
}

TEST_F(CPoolFunctions, snapshots_and_removed_events_have_names) {
  const folio_sequence id = serve({1, 2, 3, 4});
  folio_pool_event seen[2] = {};
  int64_t count = 0;
  uint64_t last = 0;
  ASSERT_EQ(folio_snapshot(pool.get(), seen, 2, &count, &last, &message), FOLIO_OK);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(seen[0].has_name, 1);
  EXPECT_TRUE(same(seen[0].name, shown(1, 1, 0)));
  ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  const folio_sequence other = admit({9});
  ASSERT_EQ(folio_reserve(pool.get(), other, 32, &message), FOLIO_OK) << message.text;
  ASSERT_EQ(functions.events.size(), 2u);
  EXPECT_EQ(functions.events[1].kind, FOLIO_REMOVED);
  EXPECT_TRUE(same(functions.events[1].name, shown(1, 1, 0)));
  EXPECT_TRUE(functions.tokens[1].empty());
}

TEST_F(CPoolFunctions, a_name_stands_for_salt_adapter_and_items) {
  const folio_content_span span = {5, 2, {9}};
  auto options = c_struct<folio_sequence_options>();
  options.salt = "tenant";
  options.salt_bytes = 6;
  options.adapter = 3;
  options.spans = &span;
  options.num_spans = 1;
  const folio_sequence id = serve({1, 2, 3, 4, 0, 0, 0, 0, 5}, &options);
  ASSERT_EQ(functions.contents.size(), 2u);
  EXPECT_EQ(functions.contents[0].struct_size, sizeof(folio_page_content));
  EXPECT_EQ(functions.contents[0].num_tokens, 4);
  EXPECT_EQ(functions.contents[0].num_spans, 0);
  EXPECT_EQ(functions.salts, (std::vector<std::string>{"tenant", "tenant"}));
  ASSERT_EQ(functions.spans.size(), 1u);
  EXPECT_EQ(functions.spans[0].offset, 1) << "as seen from the page";
  EXPECT_EQ(functions.spans[0].hash[0], 9);
  folio_page_name name = {};
  ASSERT_EQ(folio_get_page_name(pool.get(), id, 1, &name, &message), FOLIO_OK) << message.text;
  EXPECT_TRUE(same(name, shown(2, 0, 3)));
  EXPECT_EQ(functions.contents.size(), 2u) << "named once";
  EXPECT_EQ(folio_get_page_name(pool.get(), id, 2, &name, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(message.text, "position is 2, expected 0 or more and less than 2"), nullptr)
      << message.text;
}

TEST_F(CPoolFunctions, a_page_whose_function_fails_has_no_name_until_it_succeeds) {
  functions.code = FOLIO_IO;
  const folio_sequence id = serve({1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_EQ(functions.events.size(), 2u);
  for (const folio_pool_event& event : functions.events) {
    EXPECT_EQ(event.has_name, 0);
    EXPECT_TRUE(same(event.name, {}));
  }
  folio_page_name name = shown(9, 9, 9);
  EXPECT_EQ(folio_get_page_name(pool.get(), id, 0, &name, &message), FOLIO_IO);
  EXPECT_STREQ(message.text, "folio_pool_options::name_page returned 6 (io), and no name");
  EXPECT_TRUE(same(name, shown(9, 9, 9)));
  for (const folio_code wrong : {-1, 9, INT32_MIN, INT32_MAX}) {
    functions.code = wrong;
    EXPECT_EQ(folio_get_page_name(pool.get(), id, 0, &name, &message), FOLIO_INTERNAL);
    EXPECT_NE(std::strstr(message.text, (std::to_string(wrong) + " (no code of folio's)").c_str()),
              nullptr)
        << message.text;
  }
  functions.code = FOLIO_OK;
  EXPECT_EQ(folio_get_page_name(pool.get(), id, 1, &name, &message), FOLIO_OK) << message.text;
  EXPECT_TRUE(same(name, shown(2, 5, 0)));
}

TEST_F(CPoolFunctions, calls_from_a_function_that_would_change_its_pool_are_busy) {
  functions.calls_back = true;
  const folio_sequence id = serve({1, 2, 3, 4});
  EXPECT_EQ(id, uint64_t{1} << 32);
  EXPECT_EQ(functions.refusals, std::vector<folio_code>(2 * 9, FOLIO_BUSY));
  for (const std::string& text : functions.texts)
    EXPECT_NE(text.find("the pool is calling a function of its options"), std::string::npos)
        << text;
  EXPECT_EQ(functions.length, 4);
  functions.calls_back = false;
  EXPECT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(stats().cached_pages, 1);
}

TEST_F(CPool, without_the_functions_there_are_no_names_and_a_context_is_refused) {
  const folio_sequence id = admit({1, 2, 3, 4});
  write(id, {1, 2, 3, 4});
  folio_page_name name = {};
  EXPECT_EQ(folio_get_page_name(pool.get(), id, 0, &name, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(message.text, "the pool has no names"), nullptr) << message.text;
  auto options = c_struct<folio_pool_options>();
  options.num_pages = 8;
  folio_pool* made = nullptr;
  options.name_context = &options;
  EXPECT_EQ(folio_create_pool(&options, &made, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text,
               "folio_create_pool: options->name_page is null, expected a function, as "
               "options->name_context is not");
  options.name_context = nullptr;
  options.event_context = &options;
  EXPECT_EQ(folio_create_pool(&options, &made, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(message.text, "options->on_event is null"), nullptr) << message.text;
  EXPECT_EQ(made, nullptr);
  options.event_context = nullptr;
  options.on_event = Functions::event;
  options.no_prefix_reuse = 1;
  EXPECT_EQ(folio_create_pool(&options, &made, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(message.text, "expected none without prefix_reuse"), nullptr)
      << message.text;
}

TEST_F(CPool, an_older_callers_options_have_no_functions) {
  auto options = c_struct<folio_pool_options>();
  options.num_pages = 8;
  options.name_page = Functions::name;  // beyond what the caller says that it has
  options.struct_size = offsetof(folio_pool_options, name_page);
  folio_pool* made = nullptr;
  ASSERT_EQ(folio_create_pool(&options, &made, &message), FOLIO_OK) << message.text;
  pool.reset(made);
  const folio_sequence id = admit(Tokens(16, 1));
  write(id, Tokens(16, 1));
  folio_page_name name = {};
  EXPECT_EQ(folio_get_page_name(pool.get(), id, 0, &name, &message), FOLIO_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace folio::test
