// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_pool_io_test.cpp: pages that transfers hold, through the C interface.
#include <gmock/gmock.h>

#include "c/c_pool_case.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

class CPoolIo : public CPool {
 protected:
  void change(folio_pool_options& options) override { options.max_io_pins = 1; }
};

TEST_F(CPoolIo, a_page_stays_until_its_transfer_ends) {
  const folio_sequence id = admit({1, 2, 3, 4, 5});
  write(id, {1, 2, 3, 4, 5});
  folio_io_pin pin = 0;
  ASSERT_EQ(folio_begin_io(pool.get(), id, 1, 0, &pin, &message), FOLIO_OK) << message.text;
  uint32_t page = 99;
  ASSERT_EQ(folio_get_io_page(pool.get(), pin, &page, &message), FOLIO_OK) << message.text;
  auto table = c_struct<folio_table>();
  int64_t row = -1;
  ASSERT_EQ(folio_get_table(pool.get(), &table, &message), FOLIO_OK);
  ASSERT_EQ(folio_get_row_start(pool.get(), id, &row, &message), FOLIO_OK);
  EXPECT_EQ(page, table.entries[row + 1]);
  ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  EXPECT_EQ(stats().free_pages, 6);
  EXPECT_EQ(folio_clear_pool(pool.get(), &message), FOLIO_BUSY);
  ASSERT_EQ(folio_end_io(pool.get(), pin, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(stats().free_pages, 7);
  EXPECT_EQ(folio_clear_pool(pool.get(), &message), FOLIO_OK) << message.text;
}

TEST_F(CPoolIo, says_what_is_wrong) {
  const folio_sequence id = admit({1, 2, 3, 4, 5});
  write(id, {1, 2, 3, 4, 5});
  folio_io_pin pin = 7;
  uint32_t page = 99;
  EXPECT_EQ(folio_begin_io(pool.get(), id, 2, 0, &pin, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_THAT(message.text, HasSubstr("entry is 2"));
  EXPECT_EQ(folio_begin_io(pool.get(), id, 0, 1, &pin, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_THAT(message.text, HasSubstr("group is 1"));
  EXPECT_EQ(pin, 7u);
  EXPECT_EQ(folio_end_io(pool.get(), pin, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_get_io_page(pool.get(), pin, &page, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(page, 99u);
  ASSERT_EQ(folio_begin_io(pool.get(), id, 0, 0, &pin, &message), FOLIO_OK);
  EXPECT_EQ(folio_begin_io(pool.get(), id, 1, 0, &pin, &message), FOLIO_BUSY);
  EXPECT_THAT(message.text, HasSubstr("max_io_pins"));
}

}  // namespace
}  // namespace folio::test
