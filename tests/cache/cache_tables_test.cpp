// SPDX-License-Identifier: Apache-2.0
/// tests/cache/cache_tables_test.cpp: one call from a batch to the tables of a static cache.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "folio/cache/cache_tables.h"
#include "folio/cache/paged_kv_cache_collection.h"
#include "support/guarded_memory.h"

namespace folio::test {
namespace {

constexpr int32_t page_size = 4, num_pages = 6;

/// Two sequences in rows 2 and 0 of a larger table: 9 keys of which 3 are new, and 4 of which 1 is.
struct TwoSequences {
  uint32_t entries[12] = {5, 9, 9, 9, 7, 7, 7, 7, 3, 0, 0xffffffffu, 9};
  int64_t starts[2] = {8, 0};
  int32_t offsets[3] = {0, 3, 4};
  int32_t contexts[2] = {9, 4};
  Batch batch{.size = 2,
              .query_offsets = offsets,
              .context_lengths = contexts,
              .table = {entries, 0, starts}};
};

TEST(CacheTables, are_the_batch_s_rows_and_the_lengths_before_the_step) {
  const TwoSequences two;
  const GuardedMemory memory(cache_tables_bytes(2, 3).value(), 32);
  const CacheTables tables =
      make_cache_tables(two.batch, page_size, num_pages, memory.span()).value();
  EXPECT_EQ(tables.batch, 2u);
  EXPECT_EQ(tables.max_seq_length, 3u);
  EXPECT_EQ(tables.max_cache_length, 9u);
  EXPECT_EQ(tables.cache_lengths[0], 6u);
  EXPECT_EQ(tables.cache_lengths[1], 3u);
  EXPECT_EQ(tables.lut_cols, PageTable::padded_columns(3));
  const uint32_t expected[2][4] = {{3, 0, num_pages, num_pages},
                                   {5, num_pages, num_pages, num_pages}};
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t p = 0; p < 4; ++p)
      EXPECT_EQ(tables.lookup_table[b * tables.lut_stride + p], expected[b][p]) << b << p;
  EXPECT_TRUE(memory.slack_untouched());
}

TEST(CacheTables, are_what_a_collection_accepts) {
  const TwoSequences two;
  const GuardedMemory memory(cache_tables_bytes(2, 3).value(), 32);
  using Collection = PagedKVCacheCollection<DType::f32, KVCacheStaticParams{1, 4}, page_size>;
  const GuardedMemory blocks(num_pages * 2 * page_size * 4 * 4, 4);
  const auto made =
      Collection::make(blocks.span(), num_pages, 1,
                       make_cache_tables(two.batch, page_size, num_pages, memory.span()).value());
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->get_key_cache(0).block_paged_ptr<1>(0, 5, 0),
            made->get_key_cache(0).blocks.pointer(0, 1, 0, 0));
  EXPECT_EQ(made->get_key_cache(0).block_paged_ptr<1>(0, 8, 0), nullptr) << "unassigned";
}

TEST(CacheTables, refuse_what_they_cannot_be_made_of) {
  const GuardedMemory memory(cache_tables_bytes(2, 3).value(), 32);
  const auto message = [&](const Batch& batch, int32_t size, MemorySpan span) {
    const auto made = make_cache_tables(batch, size, num_pages, span);
    return made ? std::string() : std::string(made.error().message());
  };
  TwoSequences two;
  EXPECT_EQ(message(two.batch, page_size, memory.span()), "");
  EXPECT_EQ(message(two.batch, 0, memory.span()),
            "make_cache_tables: page_size is 0, expected at least 1");
  EXPECT_EQ(message(two.batch, page_size, {memory.data(), 10}),
            "make_cache_tables: memory has 10 bytes, expected at least 200 (cache_tables_bytes)");
  EXPECT_NE(message(two.batch, page_size, {memory.data() + 4, memory.bytes()}).find("not aligned"),
            std::string::npos);
  two.starts[1] = -1;
  EXPECT_EQ(message(two.batch, page_size, memory.span()),
            "make_cache_tables: batch.table.row_starts[1] is -1, expected 0 to 2^54 entries");
  Batch dense = two.batch;
  dense.table.row_starts = nullptr;
  dense.table.row_stride = -4;
  EXPECT_EQ(message(dense, page_size, memory.span()),
            "make_cache_tables: batch.table.row_stride is -4 over 2 rows, expected at least 0 and "
            "at most 2^54 entries in all");
  two.starts[1] = 0;
  two.contexts[1] = 0;
  EXPECT_EQ(message(two.batch, page_size, memory.span()),
            "make_cache_tables: sequence 1 has 1 new tokens, expected 0 to 0 "
            "(context_lengths[1])");
  two.batch.context_lengths = nullptr;
  EXPECT_EQ(message(two.batch, page_size, memory.span()),
            "make_cache_tables: batch has 2 sequences and no context_lengths, expected at least 1 "
            "and offsets, lengths and a table");
  EXPECT_FALSE(cache_tables_bytes(-1, 3));
}

}  // namespace
}  // namespace folio::test
