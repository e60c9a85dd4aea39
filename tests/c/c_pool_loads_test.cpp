// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_pool_loads_test.cpp: a load that another store fills, names of companions and pages
/// that outlive their eviction, through the C interface: a pool of full attention and of a window.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "c/c_pool_case.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

folio_code name_page(void*, const folio_page_content* page, folio_page_name* name) {
  if (page->parent != nullptr) *name = *page->parent;
  for (uint8_t& byte : name->bytes)
    byte = static_cast<uint8_t>(31 * byte + page->tokens[page->num_tokens - 1]);
  return FOLIO_OK;
}

class CPoolLoads : public CPool {
 protected:
  void SetUp() override {
    auto options = c_struct<folio_pool_options>();
    options.page_size = 4;
    options.max_sequences = 3;
    options.max_pages_per_sequence = 16;
    options.max_io_pins = 2;
    options.event_capacity = 8;
    options.name_page = name_page;
    options.name_context = this;
    options.name_companion = [](void* self, const folio_companion_content* c,
                                folio_page_name* name) {
      auto& suite = *static_cast<CPoolLoads*>(self);
      suite.asked = *c;
      *name = c->leading;
      name->bytes[31] = static_cast<uint8_t>(c->group);
      return suite.code;
    };
    folio_pool* made = nullptr;
    ASSERT_EQ(folio_create_group_pool(&options, groups, 2, int64_t{64} * 16, &made, &message),
              FOLIO_OK)
        << message.text;
    pool.reset(made);
    prompt.resize(17);
    std::iota(prompt.begin(), prompt.end(), 0);
  }

  folio_group groups[2] = {{FOLIO_GROUP_FULL, 0, 0, 0, 0, 0, 64},
                           {FOLIO_GROUP_WINDOW, 6, 0, 0, 0, 0, 64}};
  std::vector<int32_t> prompt;  // four pages, and a token more
  folio_companion_content asked = {};
  folio_code code = FOLIO_OK;
};

TEST_F(CPoolLoads, what_another_store_has_fills_a_hit_of_all_groups) {
  const folio_sequence id = admit(prompt);
  uint8_t bits[4] = {9, 9, 9, 9};
  int32_t found = -1;
  ASSERT_EQ(folio_find_parts(pool.get(), id, prompt.data(), 17, bits, 4, &found, &message),
            FOLIO_OK)
      << message.text;
  EXPECT_EQ(found, 0);
  EXPECT_EQ(bits[0], 0);
  ASSERT_EQ(folio_begin_load(pool.get(), id, prompt.data(), 17, 16, bits, 4, &message), FOLIO_OK)
      << message.text;
  // the window of 6 sees 5 tokens before the next one: its last two pages
  EXPECT_THAT(bits, ::testing::ElementsAre(1, 1, 3, 3));
  int32_t length = -1;
  ASSERT_EQ(folio_get_load_length(pool.get(), id, &length, &message), FOLIO_OK);
  EXPECT_EQ(length, 16);
  EXPECT_EQ(folio_commit(pool.get(), id, prompt.data(), 1, &message), FOLIO_BUSY);
  ASSERT_EQ(folio_shorten_load(pool.get(), id, 12, bits, 3, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(bits[0], 0);
  EXPECT_EQ(bits[1], 2) << "the shorter hit needs another page of the window";
  EXPECT_EQ(bits[2], 0);
  EXPECT_EQ(folio_commit_load(pool.get(), id, prompt.data(), 16, &message), FOLIO_INVALID_ARGUMENT);
  ASSERT_EQ(folio_commit_load(pool.get(), id, prompt.data(), 12, &message), FOLIO_OK)
      << message.text;
  auto parts = c_struct<folio_page_parts>();
  ASSERT_EQ(folio_get_page_parts(pool.get(), id, 1, &parts, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(parts.present, 3U);
  EXPECT_EQ(parts.held, 3U);
  ASSERT_EQ(folio_get_page_parts(pool.get(), id, 0, &parts, &message), FOLIO_OK);
  EXPECT_EQ(parts.present, 1U);
  ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  static_cast<void>(admit(prompt, 12));
}

TEST_F(CPoolLoads, companions_have_names_of_their_own) {
  const folio_sequence id = admit(prompt);
  write(id, prompt);
  folio_page_name leading = {}, own = {}, same = {};
  ASSERT_EQ(folio_get_page_name(pool.get(), id, 2, &leading, &message), FOLIO_OK) << message.text;
  ASSERT_EQ(folio_get_companion_name(pool.get(), id, 2, 1, &own, &message), FOLIO_OK)
      << message.text;
  EXPECT_EQ(asked.rule, FOLIO_GROUP_WINDOW);
  EXPECT_EQ(asked.window, 6);
  EXPECT_EQ(own.bytes[31], 1);
  EXPECT_EQ(std::memcmp(own.bytes, leading.bytes, 31), 0);
  ASSERT_EQ(folio_get_companion_names(pool.get(), 1, &leading, &same, 1, &message), FOLIO_OK)
      << message.text;
  EXPECT_EQ(std::memcmp(own.bytes, same.bytes, 32), 0);
  code = FOLIO_IO;
  EXPECT_EQ(folio_get_companion_names(pool.get(), 1, &leading, &same, 1, &message), FOLIO_IO);
  EXPECT_THAT(message.text, HasSubstr("folio_pool_options::name_companion returned"));
  folio_io_pin pin = 0;
  ASSERT_EQ(folio_begin_companion_io(pool.get(), id, 3, 1, &pin, &message), FOLIO_OK)
      << message.text;
  ASSERT_EQ(folio_end_io(pool.get(), pin, &message), FOLIO_OK);
}

TEST_F(CPoolLoads, pages_of_a_prompt_are_read_wherever_hits_end) {
  const folio_sequence first = admit(prompt);
  ASSERT_EQ(folio_reserve(pool.get(), first, 17, &message), FOLIO_OK);
  ASSERT_EQ(folio_commit(pool.get(), first, prompt.data(), 17, &message), FOLIO_OK);
  ASSERT_EQ(folio_release(pool.get(), first, &message), FOLIO_OK);
  const folio_sequence id = admit({0});
  const folio_prompt_page pages[] = {{2, 0}, {3, 1}, {1, 0}};
  folio_io_pin pins[3] = {7, 7, 7};
  int32_t found = -1;
  ASSERT_EQ(
      folio_begin_prompt_io(pool.get(), id, prompt.data(), 17, pages, pins, 3, &found, &message),
      FOLIO_OK)
      << message.text;
  EXPECT_EQ(found, 2) << "there are no more pins";
  EXPECT_EQ(pins[2], 0U);
  ASSERT_EQ(folio_end_io(pool.get(), pins[0], &message), FOLIO_OK);
  ASSERT_EQ(folio_end_io(pool.get(), pins[1], &message), FOLIO_OK);
  const folio_prompt_page wrong[] = {{0, 2}, {4, 0}, {-1, 0}};
  for (const folio_prompt_page& page : wrong) {
    EXPECT_EQ(
        folio_begin_prompt_io(pool.get(), id, prompt.data(), 17, &page, pins, 1, &found, &message),
        FOLIO_INVALID_ARGUMENT);
    EXPECT_THAT(message.text,
                HasSubstr(page.group == 2 ? "pages[0].group is 2" : "pages[0].position is"));
  }
  EXPECT_EQ(found, 2);
}

TEST_F(CPoolLoads, a_branch_is_expected_of_a_sequence) {
  const folio_sequence id = admit(prompt);
  ASSERT_EQ(folio_expect_branch(pool.get(), id, 8, &message), FOLIO_OK) << message.text;
  for (const int32_t tokens : {-1, INT32_MIN}) {
    EXPECT_EQ(folio_expect_branch(pool.get(), id, tokens, &message), FOLIO_INVALID_ARGUMENT);
    EXPECT_THAT(message.text, HasSubstr("expected 0 or more"));
  }
  EXPECT_EQ(folio_expect_branch(pool.get(), id + 1, 8, &message), FOLIO_INVALID_ARGUMENT);
}

TEST_F(CPoolLoads, a_spare_page_goes_instead_of_the_evicted_one) {
  struct Spare {
    folio_pool* pool;
    folio_io_pin pin = 0;
    bool is_given = false;
  } spare{pool.get()};
  const folio_sequence holder = admit({90, 91, 92, 93});
  EXPECT_EQ(folio_reserve(pool.get(), holder, 4, &message), FOLIO_OK);
  ASSERT_EQ(folio_begin_io(pool.get(), holder, 0, 0, &spare.pin, &message), FOLIO_OK);
  ASSERT_EQ(folio_release(pool.get(), holder, &message), FOLIO_OK);
  auto watcher = c_struct<folio_eviction_watcher>();
  watcher.context = &spare;
  watcher.function = [](void* context, uint32_t group, uint32_t, const folio_page_name*) {
    auto& s = *static_cast<Spare*>(context);
    folio_message refused = {};
    EXPECT_EQ(folio_end_io(s.pool, s.pin, &refused), FOLIO_BUSY) << "from within a call";
    if (group != 0 || s.is_given) return folio_io_pin{0};
    s.is_given = true;
    return s.pin;
  };
  ASSERT_EQ(folio_watch_evictions(pool.get(), &watcher, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(folio_watch_evictions(pool.get(), &watcher, &message), FOLIO_BUSY);
  uint32_t before = 0, after = 0;
  ASSERT_EQ(folio_get_io_page(pool.get(), spare.pin, &before, &message), FOLIO_OK);
  for (int32_t round = 1; !spare.is_given && round < 8; ++round) {
    for (int32_t& token : prompt) token += 100;
    const folio_sequence id = admit(prompt);
    write(id, prompt);
    for (int32_t p = 0; p < 4; ++p) {
      folio_page_name name = {};
      ASSERT_EQ(folio_get_page_name(pool.get(), id, p, &name, &message), FOLIO_OK);
    }
    ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  }
  EXPECT_TRUE(spare.is_given);
  ASSERT_EQ(folio_get_io_page(pool.get(), spare.pin, &after, &message), FOLIO_OK);
  EXPECT_NE(before, after);
  ASSERT_EQ(folio_watch_evictions(pool.get(), nullptr, &message), FOLIO_OK);
  ASSERT_EQ(folio_end_io(pool.get(), spare.pin, &message), FOLIO_OK);
}

TEST_F(CPoolLoads, a_whole_prompt_ends_within_a_page) {
  const folio_sequence id = admit(prompt);
  uint8_t bits[5] = {9, 9, 9, 9, 9};
  EXPECT_EQ(folio_begin_whole_load(pool.get(), id, prompt.data(), 17, bits, 4, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_THAT(message.text, HasSubstr("fill has 4 elements, expected 5"));
  EXPECT_THAT(bits, ::testing::Each(9));
  ASSERT_EQ(folio_begin_whole_load(pool.get(), id, prompt.data(), 17, bits, 5, &message), FOLIO_OK)
      << message.text;
  // the window of 6 of the token behind: tokens 12 to 16
  EXPECT_THAT(bits, ::testing::ElementsAre(1, 1, 1, 3, 3));
  EXPECT_EQ(folio_begin_whole_load(pool.get(), id, prompt.data(), 17, bits, 5, &message),
            FOLIO_INVALID_ARGUMENT)
      << "it has a load";
  ASSERT_EQ(folio_commit_load(pool.get(), id, prompt.data(), 17, &message), FOLIO_OK)
      << message.text;
  int32_t length = -1;
  ASSERT_EQ(folio_get_length(pool.get(), id, &length, &message), FOLIO_OK);
  EXPECT_EQ(length, 17);
}

TEST_F(CPoolLoads, a_merged_load_gives_pages_up_that_another_one_has_brought) {
  const folio_sequence a = admit(prompt), b = admit(prompt);
  uint8_t bits[3] = {};
  for (const folio_sequence id : {a, b}) {
    ASSERT_EQ(folio_begin_load(pool.get(), id, prompt.data(), 17, 12, bits, 3, &message), FOLIO_OK)
        << message.text;
    EXPECT_THAT(bits, ::testing::ElementsAre(1, 3, 3));
  }
  EXPECT_EQ(stats().used_pages, 6);
  ASSERT_EQ(folio_commit_load(pool.get(), a, prompt.data(), 12, &message), FOLIO_OK);
  EXPECT_EQ(folio_commit_merged_load(pool.get(), b, prompt.data(), 11, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_THAT(message.text, HasSubstr("tokens has 11 elements, expected 12"));
  ASSERT_EQ(folio_commit_merged_load(pool.get(), b, prompt.data(), 12, &message), FOLIO_OK)
      << message.text;
  EXPECT_EQ(stats().used_pages, 3);
}

TEST_F(CPoolLoads, a_hostile_callers_calls_are_refused_by_name) {
  const folio_sequence id = admit(prompt);
  write(id, prompt);
  auto parts = c_struct<folio_page_parts>();
  folio_page_name name = {};
  folio_io_pin pin = 7;
  const auto refuses = [this](folio_code returned, const char* text) {
    EXPECT_EQ(returned, FOLIO_INVALID_ARGUMENT);
    EXPECT_THAT(message.text, HasSubstr(text));
  };
  for (const int32_t position : {-1, 4, INT32_MIN, INT32_MAX}) {
    refuses(folio_get_page_parts(pool.get(), id, position, &parts, &message), "position is");
    refuses(folio_get_companion_name(pool.get(), id, position, 1, &name, &message), "position is");
    refuses(folio_begin_companion_io(pool.get(), id, position, 1, &pin, &message), "position is");
  }
  for (const uint32_t group : {2U, UINT32_MAX}) {
    refuses(folio_get_companion_name(pool.get(), id, 0, group, &name, &message), "group is");
    refuses(folio_begin_companion_io(pool.get(), id, 0, group, &pin, &message), "group is");
    refuses(folio_get_companion_names(pool.get(), group, &name, &name, 1, &message), "group is");
    folio_group options = {};
    refuses(folio_get_group_options(pool.get(), group, &options, &message), "group is");
  }
  refuses(folio_begin_companion_io(pool.get(), id, 0, 0, &pin, &message), "group is 0");
  EXPECT_EQ(pin, 7U);
  uint8_t bits[4] = {};
  int32_t found = -1;
  refuses(folio_find_parts(pool.get(), id, prompt.data(), 17, bits, 0, &found, &message),
          "the sequence has");
  refuses(folio_begin_load(pool.get(), id + 1, prompt.data(), 17, 16, bits, 4, &message), "id is");
  ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  refuses(folio_get_page_parts(pool.get(), id, 0, &parts, &message), "id is");
  refuses(folio_commit_load(pool.get(), id, prompt.data(), 4, &message), "id is");
}

TEST_F(CPoolLoads, a_groups_options_are_those_that_were_given) {
  for (const uint32_t g : {0U, 1U}) {
    folio_group options = {9, 9, 9, 9, 9, 9, 9};
    ASSERT_EQ(folio_get_group_options(pool.get(), g, &options, &message), FOLIO_OK);
    EXPECT_EQ(std::memcmp(&options, &groups[g], sizeof options), 0);
  }
}

TEST_F(CPoolLoads, a_page_that_goes_with_its_slab_is_told_of) {
  struct Told {
    folio_pool* pool;
    int asked = 0, left = 0;
  } told{pool.get()};
  auto watcher = c_struct<folio_eviction_watcher>();
  watcher.context = &told;
  watcher.function = [](void* context, uint32_t, uint32_t, const folio_page_name*) {
    ++static_cast<Told*>(context)->asked;
    return folio_io_pin{0};
  };
  watcher.leaving = [](void* context, uint32_t, uint32_t, const folio_page_name*) {
    auto& t = *static_cast<Told*>(context);
    folio_message refused = {};
    EXPECT_EQ(folio_watch_evictions(t.pool, nullptr, &refused), FOLIO_BUSY) << "from within a call";
    ++t.left;
  };
  ASSERT_EQ(folio_watch_evictions(pool.get(), &watcher, &message), FOLIO_OK) << message.text;
  for (int32_t round = 0; told.left == 0 && round < 8; ++round) {
    for (int32_t& token : prompt) token += 100;
    prompt.resize(round % 2 == 0 ? 5 : 17, prompt[0] + 50);
    const folio_sequence id = admit(prompt);
    write(id, prompt);
    folio_page_name name = {};
    const auto last = static_cast<int32_t>(prompt.size()) / 4 - 1;
    ASSERT_EQ(folio_get_page_name(pool.get(), id, last, &name, &message), FOLIO_OK);
    ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  }
  EXPECT_GT(told.left, 0);
}

TEST_F(CPoolLoads, a_snapshot_tells_of_companions_behind_the_leading_pages) {
  write(admit(prompt), prompt);
  folio_pool_event events[8] = {};
  int64_t count = -1;
  uint64_t last = 0;
  EXPECT_EQ(folio_snapshot(pool.get(), events, 4, &count, &last, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_THAT(message.text, HasSubstr("capacity is 4, expected at least "));
  EXPECT_EQ(count, -1);
  ASSERT_EQ(folio_snapshot(pool.get(), events, 8, &count, &last, &message), FOLIO_OK)
      << message.text;
  ASSERT_GT(count, 4);
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(events[i].group, i < 4 ? 0U : 1U);
    if (i < 4) continue;
    const auto* const leading = std::find_if(
        events, events + 4, [&](const auto& e) { return e.content == events[i].content; });
    ASSERT_NE(leading, events + 4);
    EXPECT_EQ(std::memcmp(&events[i].parent_name, &leading->name, sizeof leading->name), 0);
    EXPECT_EQ(events[i].name.bytes[31], 1);
  }
}

TEST_F(CPoolLoads, a_companions_name_needs_a_pages_name) {
  auto options = c_struct<folio_pool_options>();
  options.name_companion = [](void*, const folio_companion_content*, folio_page_name*) {
    return folio_code{FOLIO_OK};
  };
  folio_pool* made = nullptr;
  EXPECT_EQ(folio_create_group_pool(&options, groups, 2, 64 * 16, &made, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_THAT(message.text, HasSubstr("options->name_page is null"));
  EXPECT_EQ(made, nullptr);
}

}  // namespace
}  // namespace folio::test
