// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/manager_slab_test.cpp: what a manager stores into a host tier is found in its
/// slab as `planes_in` says.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "tier/host/slab_cache.h"

namespace folio::test {
namespace {

TEST(ManagersPages, lie_in_the_slab_as_planes_in_says) {
  constexpr int32_t page_size = 4, num_pages = 8, full_pages = 3;
  const KVShape shape{.num_layers = 3,
                      .num_heads = 2,
                      .head_size = 32,
                      .page_size = page_size,
                      .dtype = DType::i8,
                      .scale_dtype = DType::f32};
  std::vector<std::byte> blocks(static_cast<size_t>(num_pages * page_bytes(shape).value()));
  std::vector<std::byte> scales(static_cast<size_t>(num_pages * scale_page_bytes(shape).value()));
  const std::vector<KVPlanes> planes =
      make_planes(shape, num_pages, {blocks.data(), std::ssize(blocks)},
                  {scales.data(), std::ssize(scales)})
          .value();
  Rng rng(test_seed());
  for (const KVPlanes& layer : planes)
    for (const PagedKVView* view : {&layer.key, &layer.value}) fill_rows(*view, rng);

  ChangeLog told;
  const int64_t bytes = page_bytes(shape).value() + scale_page_bytes(shape).value();
  const auto tier =
      tier::make_host_tier(
          {.threads = 1, .max_bytes = num_pages * (bytes + 128), .on_change = told.observer()},
          bytes)
          .value();
  Sha256Names names = Sha256Names::create().value();
  PagePool pool = PagePool::create({.num_pages = num_pages,
                                    .page_size = page_size,
                                    .name = names.function(),
                                    .max_io_pins = num_pages})
                      .value();
  const TierOfCache tiers[] = {{.tier = tier.get(), .policy = StorePolicy::write_through}};
  CacheManager manager =
      CacheManager::create(
          {.pool = &pool, .name = names.function(), .planes = planes, .tiers = tiers})
          .value();
  const std::vector<TokenId> prompt(full_pages * page_size + 1, 7);
  const SequenceId id = manager.admit(prompt).value().id;
  pool.reserve(id, static_cast<int32_t>(prompt.size())).or_throw();
  manager.commit(id, prompt).or_throw();
  while (manager.figures().stores != 0) {
    manager.poll();
    std::this_thread::yield();
  }

  const ChangeLog::Changes stored = told.all();
  ASSERT_EQ(stored.size(), size_t{full_pages});
  const uint32_t* const row = pool.table().entries + pool.row_start(id).value();
  const std::vector<KVPlanes> moved = tier::planes_in(tier->slab(), planes).value();
  for (size_t i = 0; i < stored.size(); ++i) {
    int32_t place = -1;
    ASSERT_TRUE(tier->hold({&stored[i].second, 1}, {&place, 1}).is_ok());
    ASSERT_GE(place, 0);
    for (size_t l = 0; l < planes.size(); ++l)
      for (const auto plane : {&KVPlanes::key, &KVPlanes::value})
        EXPECT_EQ(shown(moved[l].*plane, place), shown(planes[l].*plane, row[i]))
            << "page " << i << ", layer " << l;
  }
}

}  // namespace
}  // namespace folio::test
