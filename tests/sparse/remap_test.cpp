// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/remap_test.cpp: lists of keys to slots, against the definition of tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "folio/cache/paged_kv_view.h"
#include "folio/sparse/select.h"
#include "reference/index.h"
#include "support/executors.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

/// A batch with permuted, shared and unassigned pages, and lists of its keys.
struct Case {
  std::vector<int32_t> offsets = {0}, lengths;
  std::vector<uint32_t> entries;
  std::vector<int64_t> starts;
  Batch batch = {};
  int32_t page_size = 0;
  int64_t num_pages = 0;
  int32_t count = 0;
  int64_t stride = 0;
  std::vector<int32_t> indices;

  explicit Case(Rng& rng) {
    const bool has_pages = rng.chance(0.8);
    page_size = has_pages ? rng.int_between(1, 40) : unbounded_page_size;
    num_pages = rng.between(1, 50);
    batch.size = rng.int_between(1, 6);
    count = rng.int_between(0, 70);
    stride = count + rng.between(0, 3);
    for (int32_t b = 0; b < batch.size; ++b) {
      lengths.push_back(rng.chance(0.1) ? 0 : rng.int_between(1, 200));
      offsets.push_back(offsets.back() + rng.int_between(0, 5));
      starts.push_back(static_cast<int64_t>(entries.size()));
      const int64_t pages = has_pages ? (lengths.back() + page_size - 1) / page_size : 1;
      for (int64_t p = 0; p < pages; ++p)
        entries.push_back(rng.chance(0.1) ? 0xffffffffu
                                          : static_cast<uint32_t>(rng.between(0, num_pages)));
    }
    entries.shrink_to_fit();
    for (int32_t b = 0; b < batch.size; ++b)
      for (int32_t t = offsets[static_cast<size_t>(b)]; t < offsets[static_cast<size_t>(b) + 1];
           ++t)
        for (int64_t i = 0; i < stride; ++i)
          indices.push_back(rng.int_between(-1, lengths[static_cast<size_t>(b)] - 1));
    batch.query_offsets = offsets.data();
    batch.context_lengths = lengths.data();
    batch.table.entries = entries.data();
    batch.table.row_starts = starts.data();
  }
  [[nodiscard]] int64_t tokens() const { return offsets.back(); }
  [[nodiscard]] RemapArgs args(int32_t* slots, int64_t slots_stride) const {
    return {indices.data(), stride, count, page_size, num_pages, slots, slots_stride};
  }
  [[nodiscard]] int64_t expected(int32_t b, int64_t row, int64_t i) const {
    return reference::slot_number(batch, b, indices[static_cast<size_t>(row * stride + i)],
                                  page_size, num_pages);
  }
};

TEST(Remap, gives_the_slots_of_the_table) {
  Rng rng(test_seed());
  int64_t listed = 0, none = 0;
  for (int round = 0; round < 300; ++round) {
    const Case c(rng);
    const int64_t stride = c.count + rng.between(0, 2);
    std::vector<int32_t> slots(static_cast<size_t>(c.tokens() * stride), -7);
    ShufflingExecutor threads(3, rng.next());
    const Status status = remap(c.batch, c.args(slots.data(), stride), threads.executor());
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (int32_t b = 0; b < c.batch.size; ++b) {
      for (int64_t row = c.offsets[static_cast<size_t>(b)];
           row < c.offsets[static_cast<size_t>(b) + 1]; ++row) {
        for (int64_t i = 0; i < stride; ++i) {
          const int32_t slot = slots[static_cast<size_t>(row * stride + i)];
          ASSERT_EQ(slot, i < c.count ? c.expected(b, row, i) : -7) << "gaps stay as they were";
          ++(slot < 0 ? none : listed);
        }
      }
    }
  }
  EXPECT_GT(listed, 10000);
  EXPECT_GT(none, 1000);
}

TEST(Remap, may_write_where_it_reads) {
  Rng rng(test_seed());
  for (int round = 0; round < 50; ++round) {
    Case c(rng);
    std::vector<int32_t> apart(static_cast<size_t>(c.tokens() * c.stride));
    ASSERT_TRUE(remap(c.batch, c.args(apart.data(), c.stride), serial_executor()).is_ok());
    std::vector<int32_t> kept = c.indices;
    ASSERT_TRUE(remap(c.batch, c.args(c.indices.data(), c.stride), serial_executor()).is_ok());
    for (int64_t row = 0; row < c.tokens(); ++row) {
      for (int64_t i = 0; i < c.stride; ++i) {
        const auto at = static_cast<size_t>(row * c.stride + i);
        EXPECT_EQ(c.indices[at], i < c.count ? apart[at] : kept[at]);
      }
    }
  }
}

TEST(Remap, reads_the_entries_of_listed_pages_alone) {
  const GuardedMemory entries(3 * 4, 4);  // the fourth page's would fault
  entries.as<uint32_t>()[1] = 5;
  const int32_t offsets[] = {0, 1}, lengths[] = {64};
  Batch batch;
  batch.size = 1;
  batch.query_offsets = offsets;
  batch.context_lengths = lengths;
  batch.table.entries = entries.as<uint32_t>();
  int32_t list[] = {16, -1, 31};
  const RemapArgs args{list, 3, 3, 16, 6, list, 3};
  ASSERT_TRUE(remap(batch, args, serial_executor()).is_ok());
  EXPECT_EQ(list[0], 80);
  EXPECT_EQ(list[1], -1);
  EXPECT_EQ(list[2], 95);
}

TEST(Remap, takes_slots_up_to_the_largest_int32) {
  const uint32_t entry = (1u << 27) - 1;
  const int32_t offsets[] = {0, 1}, lengths[] = {16};
  Batch batch;
  batch.size = 1;
  batch.query_offsets = offsets;
  batch.context_lengths = lengths;
  batch.table.entries = &entry;
  int32_t list[] = {15};
  ASSERT_TRUE(remap(batch, {list, 1, 1, 16, int64_t{1} << 27, list, 1}, serial_executor()).is_ok());
  EXPECT_EQ(list[0], INT32_MAX);
}

}  // namespace
}  // namespace folio::test
