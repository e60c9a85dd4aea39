// SPDX-License-Identifier: Apache-2.0
/// tests/tier/index_cache_test.cpp: pages whose layers have an index plane beside K and V, in host
/// memory and in a directory, and back on other pages.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "support/indexed_layers.h"
#include "support/temporary_folder.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using Main = IndexedLayers::Main;

constexpr int32_t slots_of_page = 4;
constexpr uint32_t pages_of_pool = 6;

/// What the slots of a page have, one after the other.
std::vector<std::vector<std::byte>> rows_of(const IndexedLayers& layers, uint32_t page) {
  std::vector<std::vector<std::byte>> rows;
  for (int32_t slot = 0; slot < slots_of_page; ++slot)
    rows.push_back(layers.bytes_of(int64_t{page} * slots_of_page + slot));
  return rows;
}

/// Extents of the pages, as tiers are told of them.
struct PagesOfTier {
  PagesOfTier(const IndexedLayers& layers, const std::vector<uint32_t>& pages) {
    for (const uint32_t page : pages)
      extents.push_back(page_extents(layers.planes(), page).value());
    for (uint32_t i = 0; i < extents.size(); ++i) of.push_back({name_of(i), extents[i]});
  }
  std::vector<std::vector<Extent>> extents;
  std::vector<TierPage> of;
};

/// All pages go to a tier, and come back from another one, if there is one, on other pages.
void go_and_come_back(Main main, const IndexFormat& format, Tier& to, Tier& from) {
  SCOPED_TRACE(format.name);
  IndexedLayers layers(main, format, slots_of_page, pages_of_pool);
  std::vector<std::vector<std::vector<std::byte>>> expected;
  for (uint32_t page = 0; page < pages_of_pool; ++page) {
    for (int32_t slot = 0; slot < slots_of_page; ++slot) {
      const auto position = static_cast<int32_t>(page) * slots_of_page + slot;
      layers.write(position * 7, position, position);
    }
    expected.push_back(rows_of(layers, page));
  }
  const PagesOfTier stored(layers, {0, 1, 2, 3, 4, 5});
  to.store(stored.of).value();
  for (const TierCompletion& end : wait_for(to, pages_of_pool))
    ASSERT_EQ(end.outcome, TierOutcome::done);
  layers.fill(std::byte{0xee});
  const std::vector<uint32_t> others{3, 5, 0, 1, 2, 4};
  const PagesOfTier loaded(layers, others);
  from.load(loaded.of, 0).value();
  for (const TierCompletion& end : wait_for(from, pages_of_pool))
    ASSERT_EQ(end.outcome, TierOutcome::done);
  for (uint32_t page = 0; page < pages_of_pool; ++page)
    ASSERT_EQ(rows_of(layers, others[page]), expected[page]) << page;
}

constexpr int64_t megabyte = int64_t{1} << 20;

TEST(IndexCacheInTiers, comes_back_from_host_memory) {
  for (const Main main : {Main::kv, Main::latent}) {
    for (const IndexFormat& format : index_formats) {
      const std::unique_ptr<Tier> tier = make_host_tier({.max_bytes = megabyte}).value();
      ASSERT_NO_FATAL_FAILURE(go_and_come_back(main, format, *tier, *tier));
    }
  }
}

TEST(IndexCacheInTiers, comes_back_from_a_directory) {
  for (const Main main : {Main::kv, Main::latent}) {
    for (const IndexFormat& format : index_formats) {
      const TemporaryFolder folder;
      const TierOptions options{.max_bytes = 8 * megabyte};
      const std::unique_ptr<Tier> tier =
          make_disk_tier(folder.path(), options, {.segment_bytes = megabyte}).value();
      ASSERT_NO_FATAL_FAILURE(go_and_come_back(main, format, *tier, *tier));
    }
  }
}

TEST(IndexCacheInTiers, of_another_format_is_other_bytes_and_so_another_fingerprint) {
  // 132 bytes a token are 132 bytes, whatever they mean: the caller's digest has to say it
  const TemporaryFolder folder;
  IndexedLayers fp8(Main::latent, index_formats[1], slots_of_page, pages_of_pool),
      bf16(Main::latent, index_formats[0], slots_of_page, pages_of_pool);
  const PagesOfTier pages(fp8, {0}), others(bf16, {0}), same(fp8, {1});
  const auto open = [&folder](uint8_t format) {
    return make_disk_tier(folder.path(), {.max_bytes = 8 * megabyte, .fingerprint = {{format}}},
                          {.segment_bytes = megabyte})
        .value();
  };
  {
    const std::unique_ptr<Tier> tier = open(1);
    tier->store(pages.of).value();
    ASSERT_EQ(wait_for(*tier, 1)[0].outcome, TierOutcome::done);
    // pages of other sizes are not those
    tier->load(others.of, 0).value();
    EXPECT_NE(wait_for(*tier, 1)[0].outcome, TierOutcome::done);
  }
  {
    const std::unique_ptr<Tier> tier = open(2);
    tier->load(same.of, 0).value();
    EXPECT_NE(wait_for(*tier, 1)[0].outcome, TierOutcome::done);
  }
}

}  // namespace
}  // namespace folio::test
