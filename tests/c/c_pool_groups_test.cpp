// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_pool_groups_test.cpp: a pool of full attention and of a sliding window, through the C
/// interface.
#include <cstring>
#include <string>

#include "c/c_pool_case.h"

namespace folio::test {
namespace {

class CPoolGroups : public CPool {
 protected:
  void SetUp() override {
    auto options = c_struct<folio_pool_options>();
    options.page_size = 4;
    options.max_sequences = 3;
    options.max_pages_per_sequence = 16;
    folio_pool* made = nullptr;
    ASSERT_EQ(folio_create_group_pool(&options, groups, 2, 64 * 256, &made, &message), FOLIO_OK)
        << message.text;
    pool.reset(made);
  }
  folio_group_figures figures(uint32_t group) {
    auto f = c_struct<folio_group_figures>();
    EXPECT_EQ(folio_get_group(pool.get(), group, &f, &message), FOLIO_OK) << message.text;
    return f;
  }
  folio_group groups[2] = {{FOLIO_GROUP_FULL, 0, 0, 0, 0, 0, 64},
                           {FOLIO_GROUP_WINDOW, 8, 0, 0, 0, 0, 64}};
};

TEST_F(CPoolGroups, a_window_gives_its_pages_back_and_full_attention_keeps_them) {
  int32_t count = 0;
  ASSERT_EQ(folio_get_num_groups(pool.get(), &count, &message), FOLIO_OK);
  EXPECT_EQ(count, 2);
  std::vector<int32_t> prompt(32);
  for (int32_t i = 0; i < 32; ++i) prompt[static_cast<size_t>(i)] = i;
  const folio_sequence id = admit(prompt);
  for (size_t at = 0; at < 32; at += 8)
    write(id, {prompt.begin() + static_cast<int>(at), prompt.begin() + static_cast<int>(at) + 8});
  EXPECT_EQ(figures(0).used_pages, 8);
  EXPECT_EQ(figures(1).used_pages, 2);
  EXPECT_EQ(figures(0).page_size, 4);
  EXPECT_EQ(figures(1).num_pages, 256);
  auto table = c_struct<folio_table>();
  int64_t row = -1;
  ASSERT_EQ(folio_get_group_table(pool.get(), 1, &table, &message), FOLIO_OK) << message.text;
  ASSERT_EQ(folio_get_group_rows(pool.get(), 1, &id, 1, &row, &message), FOLIO_OK) << message.text;
  for (int64_t page = 0; page < 8; ++page)
    EXPECT_EQ(table.entries[row + page] == 256, page < 6) << page;
  ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  prompt.push_back(99);
  static_cast<void>(admit(prompt, 32));
}

TEST_F(CPoolGroups, a_copy_for_each_group_and_which_one_lacks_pages) {
  const folio_sequence id = admit({1, 2, 3, 4, 5, 6});
  write(id, {1, 2, 3, 4, 5, 6});
  folio_sequence child = 0;
  ASSERT_EQ(folio_fork(pool.get(), id, 6, &child, &message), FOLIO_OK) << message.text;
  for (uint32_t group = 0; group < 2; ++group) {
    const folio_page_copy* copies = nullptr;
    int64_t num_copies = 0;
    ASSERT_EQ(folio_take_group_copies(pool.get(), group, &copies, &num_copies, &message), FOLIO_OK);
    ASSERT_EQ(num_copies, 1) << group;
    EXPECT_EQ(copies[0].tokens, 2);
  }
  auto e = c_struct<folio_pool_explanation>();
  ASSERT_EQ(folio_explain(pool.get(), id, 8, &e, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(e.short_group, -1);
}

TEST_F(CPoolGroups, what_no_group_may_be_is_named) {
  auto options = c_struct<folio_pool_options>();
  folio_pool* made = nullptr;
  const auto refused = [&](int64_t count, int64_t bytes, const char* words) {
    EXPECT_EQ(folio_create_group_pool(&options, groups, count, bytes, &made, &message),
              FOLIO_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(message.text, words), nullptr) << message.text;
    EXPECT_EQ(made, nullptr);
  };
  refused(0, 1 << 14, "num_groups is 0, expected at least 1");
  refused(-1, 1 << 14, "num_groups");
  groups[1].rule = 4;
  refused(2, 1 << 14, "groups[1].rule is 4, expected 0 to 3");
  groups[1].rule = FOLIO_GROUP_WINDOW;
  groups[1].reserved = 1;
  refused(2, 1 << 14, "groups[1].reserved is 1, expected 0");
  groups[1].reserved = 0;
  groups[1].window = 0;
  refused(2, 1 << 14, "window");
  for (const uint32_t group : {2U, UINT32_MAX}) {
    auto table = c_struct<folio_table>();
    auto f = c_struct<folio_group_figures>();
    const folio_page_copy* copies = nullptr;
    int64_t num_copies = 0, row = 0;
    EXPECT_EQ(folio_get_group_table(pool.get(), group, &table, &message), FOLIO_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(message.text, "expected less than 2"), nullptr) << message.text;
    EXPECT_EQ(folio_get_group(pool.get(), group, &f, &message), FOLIO_INVALID_ARGUMENT);
    EXPECT_EQ(folio_get_group_rows(pool.get(), group, nullptr, 0, &row, &message),
              FOLIO_INVALID_ARGUMENT);
    EXPECT_EQ(folio_take_group_copies(pool.get(), group, &copies, &num_copies, &message),
              FOLIO_INVALID_ARGUMENT);
  }
}

TEST_F(CPool, a_pool_without_groups_has_one) {
  int32_t count = 0;
  ASSERT_EQ(folio_get_num_groups(pool.get(), &count, &message), FOLIO_OK);
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace folio::test
