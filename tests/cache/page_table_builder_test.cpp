// SPDX-License-Identifier: Apache-2.0
/// tests/cache/page_table_builder_test.cpp: padding, sentinels and alignment of built tables.
#include "folio/cache/page_table_builder.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/guarded_memory.h"

namespace folio::test {
namespace {

GuardedMemory table_memory(int64_t rows, int64_t columns) {
  return GuardedMemory(*PageTableBuilder::table_bytes(rows, columns), 32);
}

TEST(PageTableBuilder, columns_are_padded_to_eight_and_sixteen_more) {
  const int64_t expected[][2] = {{0, 16},    {1, 24},    {7, 24},     {8, 24},
                                 {9, 32},    {16, 32},   {17, 40},    {100, 120},
                                 {128, 144}, {129, 152}, {1000, 1016}};
  for (const auto& [columns, padded] : expected) {
    EXPECT_EQ(PageTable::padded_columns(columns), padded);
    EXPECT_EQ(*PageTableBuilder::table_bytes(3, columns), 3 * padded * 4);
    const GuardedMemory memory = table_memory(3, columns);
    EXPECT_EQ(PageTableBuilder::make(3, columns, 10, memory.span())->row_stride(), padded);
  }
}

TEST(PageTableBuilder, a_new_table_is_all_sentinel) {
  const GuardedMemory memory = table_memory(2, 9);
  ASSERT_TRUE(PageTableBuilder::make(2, 9, 77, memory.span()));
  for (int64_t i = 0; i < memory.bytes() / 4; ++i) EXPECT_EQ(memory.as<uint32_t>()[i], 77u);
  EXPECT_TRUE(memory.slack_untouched());
}

TEST(PageTableBuilder, set_row_writes_its_pages_and_the_sentinel_behind_them) {
  const GuardedMemory memory = table_memory(3, 5);
  auto builder = PageTableBuilder::make(3, 5, 8, memory.span());
  ASSERT_TRUE(builder);
  ASSERT_TRUE(builder->set_row(1, std::vector<uint32_t>{4, 0, 8, 7, 1}).is_ok());
  ASSERT_TRUE(builder->set_row(1, std::vector<uint32_t>{6, 8}).is_ok());
  const PageTable table = builder->table();
  for (int64_t b = 0; b < 3; ++b) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(table.entries + table.row_start(b)) % 32, 0u);
    for (int64_t p = 0; p < builder->row_stride(); ++p) {
      EXPECT_EQ(table.entries[table.row_start(b) + p], b == 1 && p == 0 ? 6u : 8u)
          << b << ", " << p;
    }
  }
}

TEST(PageTableBuilder, sixteen_entries_from_any_used_column_stay_in_the_row) {
  for (int64_t columns = 1; columns < 40; ++columns)
    EXPECT_LE(columns - 1 + 16, PageTable::padded_columns(columns));
}

TEST(PageTableBuilder, a_refused_row_stays_as_it_was) {
  const GuardedMemory memory = table_memory(1, 2);
  auto builder = PageTableBuilder::make(1, 2, 8, memory.span());
  ASSERT_TRUE(builder);
  ASSERT_TRUE(builder->set_row(0, std::vector<uint32_t>{3, 5}).is_ok());
  EXPECT_EQ(builder->set_row(0, std::vector<uint32_t>{1, 9}).code(), Errc::invalid_argument);
  EXPECT_EQ(builder->set_row(0, std::vector<uint32_t>{1, 2, 3}).code(), Errc::invalid_argument);
  EXPECT_EQ(builder->set_row(1, std::vector<uint32_t>{1}).code(), Errc::invalid_argument);
  EXPECT_EQ(builder->set_row(-1, std::vector<uint32_t>{1}).code(), Errc::invalid_argument);
  EXPECT_EQ(memory.as<uint32_t>()[0], 3u);
  EXPECT_EQ(memory.as<uint32_t>()[1], 5u);
}

TEST(PageTableBuilder, a_table_without_rows_needs_no_memory) {
  const auto builder = PageTableBuilder::make(0, 100, 8, {});
  ASSERT_TRUE(builder);
  EXPECT_EQ(builder->rows(), 0);
}

}  // namespace
}  // namespace folio::test
