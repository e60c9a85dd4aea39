// SPDX-License-Identifier: Apache-2.0
/// tests/cache/row_indices_test.cpp: populate and PagedRowIndices over every tile, page, alignment,
/// CTA of a pair and sentinel.
#include "folio/cache/row_indices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "folio/cache/page_table.h"
#include "folio/cache/paged_kv_cache.h"
#include "support/static_cache.h"

namespace folio::test {
namespace {

TEST(PagedRowIndices, a_tile_is_cut_at_pages) {
  struct Row {
    int tile, page, alignment, piece, pieces, chunk;
  };
  const Row table[] = {
      // max-facts 13.2
      {64, 0, 64, 64, 1, 1},      {64, 16, 16, 16, 4, 1},     {64, 16, 64, 16, 4, 4},
      {64, 32, 32, 32, 2, 1},     {64, 32, 64, 32, 2, 2},     {64, 64, 64, 64, 1, 1},
      {64, 128, 64, 64, 1, 1},    {64, 256, 64, 64, 1, 1},    {128, 0, 128, 128, 1, 1},
      {128, 16, 16, 16, 8, 1},    {128, 16, 128, 16, 8, 8},   {128, 32, 32, 32, 4, 1},
      {128, 32, 128, 32, 4, 4},   {128, 64, 64, 64, 2, 1},    {128, 64, 128, 64, 2, 2},
      {128, 128, 128, 128, 1, 1}, {128, 256, 128, 128, 1, 1}, {256, 0, 256, 256, 1, 1},
      {256, 16, 16, 16, 16, 1},   {256, 16, 256, 16, 16, 8},  {256, 32, 32, 32, 8, 1},
      {256, 32, 256, 32, 8, 8},   {256, 64, 64, 64, 4, 1},    {256, 64, 256, 64, 4, 4},
      {256, 128, 128, 128, 2, 1}, {256, 128, 256, 128, 2, 2}, {256, 256, 256, 256, 1, 1},
      {96, 16, 96, 16, 6, 2},     {192, 16, 64, 16, 12, 4},   {48, 16, 96, 16, 3, 1}};
  for (const Row& row : table) {
    EXPECT_EQ(detail::sub_rows(row.tile, row.page), row.piece) << row.tile << ' ' << row.page;
    EXPECT_EQ(detail::num_sub(row.tile, row.page), row.pieces) << row.tile << ' ' << row.page;
    EXPECT_EQ(detail::populate_chunk(row.tile, row.page, row.alignment), row.chunk)
        << row.tile << ' ' << row.page << ' ' << row.alignment;
  }
}

TEST(PagedRowIndices, table_rows_are_padded_for_reads_of_16_entries) {
  const std::pair<int64_t, int64_t> table[] = {{0, 16},
                                               {1, 24},
                                               {7, 24},
                                               {8, 24},
                                               {9, 32},
                                               {16, 32},
                                               // max-facts 13.1
                                               {17, 40},
                                               {100, 120},
                                               {128, 144},
                                               {129, 152},
                                               {1000, 1016}};
  for (const auto& [columns, padded] : table) EXPECT_EQ(PageTable::padded_columns(columns), padded);
}

TEST(PagedRowIndices, geometry_that_cannot_be_served_is_refused_at_compile_time) {
  static_assert(detail::TileGeometry<64, 128, false> && detail::TileGeometry<128, 64, true> &&
                detail::TileGeometry<64, 0, true>);
  static_assert(!detail::tile_and_page_divide_one_another<64, 96> &&
                !detail::tile_and_page_divide_one_another<128, 48>);
  static_assert(!detail::tile_spans_at_most_16_pages<256, 8> &&
                detail::tile_spans_at_most_16_pages<256, 16>);
  static_assert(!detail::pair_of_ctas_halves_the_tile<48, 16, true> &&
                detail::pair_of_ctas_halves_the_tile<48, 16, false>);
  static_assert(!detail::pair_of_ctas_halves_the_tile<63, 63, true>);
  static_assert(!detail::base_alignment_is_a_multiple_of_the_piece<128, 64, 32>);
  static_assert(!detail::base_alignment_is_a_multiple_of_the_piece<64, 128, 96>);
  static_assert(detail::base_alignment_is_a_multiple_of_the_piece<64, 0, 1>);
}

/// A cache of 8 + 1 pages of one sequence, the ids permuted; the table row is exactly as long as
/// promised and then faults.
template <int PageSize>
class Populate {
 public:
  using Cache = PagedKVCache<DType::i8, KVCacheStaticParams{1, 8}, PageSize>;
  static constexpr uint32_t num_pages = 37;
  static constexpr int64_t row_stride = 3 * PageSize;

  Populate() : tables_(2, PageTable::padded_columns(num_pages), num_pages * PageSize, num_pages) {
    for (uint32_t b = 0; b < 2; ++b) {
      for (uint32_t p = 0; p < num_pages; ++p) row(b)[p] = (p * 5 + b * 11 + 3) % num_pages;
    }
    cache_ = Cache{{nullptr, typename Cache::blocks_tt_layout(num_pages, row_stride * 8)},
                   {},
                   {tables_.table(), typename Cache::lookup_table_tt_layout(
                                         2, tables_.tables.lut_cols, tables_.tables.lut_stride)},
                   1,
                   1};
  }
  [[nodiscard]] uint32_t* row(uint32_t b) const {
    return tables_.table() + b * tables_.tables.lut_stride;
  }

  /// Every aligned tile of both sequences against row_idx.
  template <int BN, int Alignment>
  void check() const {
    if constexpr (detail::TileGeometry<BN, PageSize, true>) {
      for (uint32_t b = 0; b < 2; ++b) {
        for (uint32_t base = 0; base < num_pages * PageSize; base += Alignment) {
          const auto whole = cache_.template populate<BN, Alignment>(b, base);
          const auto leader = cache_.template populate<BN, Alignment, true, true>(b, base);
          const auto peer = cache_.template populate<BN, Alignment, true, false>(b, base);
          check_rows(whole, b, base);
          check_rows(leader, b, base);
          check_rows(peer, b, base);
          check_halves(whole, leader, peer);
        }
      }
    }
  }

 private:
  template <class Rows>
  void check_rows(const Rows& rows, uint32_t b, uint32_t base) const {
    int valid = 0;
    for (int i = 0; i < Rows::num_pages; ++i) {
      const uint32_t token = base + static_cast<uint32_t>(i * Rows::eff_page);
      const int64_t expected = cache_.row_idx(b, token);
      ASSERT_EQ(rows.rows[i], expected) << "b " << b << " base " << base << " piece " << i;
      if (expected != cache_.num_kv_rows() && valid == i) ++valid;
      for (uint32_t offset : {0u, static_cast<uint32_t>(Rows::eff_page - 1)}) {
        const uint32_t key = static_cast<uint32_t>(i * Rows::eff_page) + offset;
        ASSERT_EQ(rows.get_row(key), expected + offset);
      }
    }
    ASSERT_EQ(rows.valid_pages, valid);
  }

  /// The K rows of leader and peer, one after the other, are the tile.
  template <class Whole, class Leader, class Peer>
  static void check_halves(const Whole& whole, const Leader& leader, const Peer& peer) {
    static_assert(Leader::cta_group == 2 && Whole::cta_group == 1 &&
                  Whole::num_k_pages == Whole::num_pages);
    static_assert(Leader::num_k_pages * Leader::k_page_rows * 2 ==
                  Whole::num_pages * Whole::eff_page);
    std::vector<uint32_t> keys;
    for (int i = 0; i < Leader::num_k_pages; ++i) {
      for (uint32_t r = 0; r < static_cast<uint32_t>(Leader::k_page_rows); ++r)
        keys.push_back(leader.k_row(i) + r);
    }
    for (int i = 0; i < Peer::num_k_pages; ++i) {
      for (uint32_t r = 0; r < static_cast<uint32_t>(Peer::k_page_rows); ++r)
        keys.push_back(peer.k_row(i) + r);
    }
    for (uint32_t key = 0; key < keys.size(); ++key) ASSERT_EQ(keys[key], whole.get_row(key));
    for (int i = 0; i < Whole::num_pages; ++i) ASSERT_EQ(whole.k_row(i), whole.rows[i]);
    if (Whole::num_pages > 1) {
      ASSERT_EQ(leader.valid_k_pages() + peer.valid_k_pages(), whole.valid_pages);
    } else {
      ASSERT_EQ(leader.valid_k_pages(), peer.valid_k_pages());
    }
  }

  StaticTables tables_;
  Cache cache_;
};

template <int PageSize>
void check_grid(const Populate<PageSize>& populate) {
  constexpr auto piece = [](int tile) { return detail::sub_rows(tile, PageSize); };
  populate.template check<64, 64>();
  populate.template check<64, piece(64)>();
  populate.template check<128, 128>();
  populate.template check<128, piece(128)>();
  populate.template check<256, 256>();
  populate.template check<256, piece(256)>();
  populate.template check<256, 512>();
}

template <class PageSize>
class PopulateGrid : public ::testing::Test {};
template <int N>
struct Page {
  static constexpr int size = N;
};
using PageSizes = ::testing::Types<Page<4>, Page<8>, Page<16>, Page<32>, Page<64>, Page<128>,
                                   Page<256>, Page<512>>;
TYPED_TEST_SUITE(PopulateGrid, PageSizes);

TYPED_TEST(PopulateGrid, rows_are_those_of_row_idx) { check_grid(Populate<TypeParam::size>()); }

TYPED_TEST(PopulateGrid, a_page_that_is_not_assigned_is_out_of_bounds_and_ends_the_leading_ones) {
  for (const uint32_t sentinel : {37u, 0xffffffffu, 0x80000000u}) {
    // a hole: pages behind it are assigned, and not counted
    for (const int at : {0, 1, 3, 7, 20}) {
      Populate<TypeParam::size> populate;
      populate.row(0)[at] = sentinel;
      std::fill_n(populate.row(1) + at, 37 - at, sentinel);
      check_grid(populate);
    }
  }
}

TEST(Populate, a_table_of_unassigned_entries_gives_the_row_out_of_bounds) {
  using Collection = PagedKVCacheCollection<DType::bf16, KVCacheStaticParams{1, 64}, 64>;
  StaticCache<Collection> cache({.num_pages = 4, .max_cache_length = 256});
  const auto rows = cache.key().populate<128, 64>(0, 0);
  EXPECT_EQ(rows.valid_pages, 0);
  EXPECT_EQ(rows.rows[0], 3 * 128 + 64);
  EXPECT_EQ(rows.rows[1], 3 * 128 + 64);
}

TEST(Populate, the_last_tile_of_a_row_reads_no_entry_behind_its_padding) {
  using Collection = PagedKVCacheCollection<DType::bf16, KVCacheStaticParams{1, 8}, 16>;
  // 9 columns, padded to 32; then a guard page
  StaticCache<Collection> cache({.num_pages = 9, .max_cache_length = 9 * 16});
  cache.set_row(0, {8, 7, 6, 5, 4, 3, 2, 1, 0});
  const auto rows = cache.key().populate<256, 128>(0, 128);  // entries 8 .. 23
  EXPECT_EQ(rows.valid_pages, 1);
  EXPECT_EQ(rows.rows[0], 0u);
  EXPECT_EQ(rows.rows[15], cache.key().num_kv_rows());
  const auto scalars = cache.key().populate<256, 16>(0, 128);
  EXPECT_TRUE(std::equal(rows.rows, rows.rows + 16, scalars.rows));
}

}  // namespace
}  // namespace folio::test
