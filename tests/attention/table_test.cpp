// SPDX-License-Identifier: Apache-2.0
/// tests/attention/table_test.cpp: tables are read as they are: every form, not one entry too many,
/// unassigned ids of all kinds.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

TEST(Table, every_form_is_read_in_place_without_padding) {
  // The tables of a case end at an inaccessible page: reading behind the last row's last entry is a
  // crash.
  for (const TableForm form : {TableForm::dense, TableForm::csr, TableForm::rows_in_larger}) {
    for (const int32_t page_size : {1, 3, 8, 64}) {
      CaseOptions options;
      options.table = form;
      options.page_size = page_size;
      options.head_size = 16;
      options.sequences = {{3, 60}, {1, 130}, {2, 2}, {5, 200}};
      expect_every_kernel_right(options);
    }
  }
}

TEST(Table, keys_of_unassigned_pages_are_invisible) {
  // The three kinds of id that are no page: -1, num_pages and 2^31, at random places, up to
  // sequences without any page.
  for (const double share : {0.2, 0.7, 1.0}) {
    for (const bool sinks : {false, true}) {
      CaseOptions options;
      options.page_size = 8;
      options.head_size = 16;
      options.unassigned = share;
      options.sink_logits = sinks;
      options.shared = 0.0;
      options.sequences = {{3, 60}, {1, 130}, {2, 2}, {5, 200}, {1, 7}};
      expect_every_kernel_right(options);
    }
  }
}

TEST(Table, each_unassigned_id_alone) {
  for (const uint32_t id : {0xffffffffu, 0x80000000u, 0x7fffffffu, 0u}) {
    CaseOptions options;
    options.page_size = 4;
    options.head_size = 8;
    options.sequences = {{1, 12}};
    const auto arrange = [&](AttentionCase& c) {
      c.table_entries()[1] = id != 0u ? id : static_cast<uint32_t>(c.args().key.num_pages);
      EXPECT_EQ(c.expected(0, 0).keys, 8);
    };
    expect_every_kernel_right(options, {Adapt::shapes, arrange});
  }
}

TEST(Table, entries_behind_a_window_are_not_even_read) {
  // The row is moved so that its dead front entries lie in an inaccessible page.
  CaseOptions options;
  options.page_size = 8;
  options.head_size = 16;
  options.mask = Mask::sliding_window(30);
  options.sequences = {{4, 200}};
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  void* map = mmap(nullptr, static_cast<size_t>(3 * page_bytes), PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  auto* middle = static_cast<std::byte*>(map) + page_bytes;
  ASSERT_EQ(mprotect(middle, static_cast<size_t>(page_bytes), PROT_READ | PROT_WRITE), 0);
  for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
    // Context 200, first query at 196 sees 167 .. 196: pages 20 .. 24 of 25 entries.
    const uint32_t* const entries = c.batch().table.entries;
    std::memcpy(middle, entries + 20, 5 * sizeof(uint32_t));
    c.batch().table.entries = reinterpret_cast<uint32_t*>(middle) - 20;
    EXPECT_TRUE(kernel_is_right(c, kernel));
    c.batch().table.entries = entries;
  });
  munmap(map, static_cast<size_t>(3 * page_bytes));
}

TEST(Table, stale_front_entries_may_name_another_sequences_pages) {
  CaseOptions options;
  options.page_size = 8;
  options.head_size = 16;
  options.mask = Mask::sliding_window(12);
  options.shared = 0.0;
  options.table = TableForm::csr;
  options.sequences = {{2, 100}, {3, 90}};
  const auto arrange = [](AttentionCase& c) {
    const auto first_of_second = static_cast<size_t>(c.batch().table.row_starts[1]);
    for (size_t p = 0; p < 9; ++p) {
      // the live page of the other sequence
      c.table_entries()[p] = c.table_entries()[first_of_second + 11];
      c.table_entries()[first_of_second + p] = c.table_entries()[12];
    }
  };
  expect_every_kernel_right(options, {Adapt::shapes, arrange});
}

TEST(Table, an_entry_that_was_int32_means_the_same) {
  // Engines hand over int32 tables: -1 is the same bits.
  CaseOptions options;
  options.page_size = 4;
  options.head_size = 8;
  options.sequences = {{1, 12}};
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    const uint32_t* const given = c.batch().table.entries;
    int32_t entries[3];
    std::memcpy(entries, given, sizeof entries);
    entries[1] = -1;
    c.batch().table.entries = reinterpret_cast<const uint32_t*>(entries);
    c.forget_expected();
    EXPECT_TRUE(kernel_is_right(c, kernel));
    c.batch().table.entries = given;
  });
}

}  // namespace
}  // namespace folio::test
