// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/index_cache_test.cpp: a manager whose layers have index planes on the pages
/// of K and V: what a prompt finds below has them, too.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "folio/cache/copy.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/host_tier.h"
#include "support/indexed_layers.h"

namespace folio::test {
namespace {

using Main = IndexedLayers::Main;

constexpr int32_t index_page_size = 4;

/// A pool over index and other planes, and host memory below.
struct IndexedEngine {
  IndexedEngine(Main main, const IndexFormat& format)
      : names(Sha256Names::create().value()),
        pool(std::move(PagePool::create({.num_pages = 16,
                                         .page_size = index_page_size,
                                         .max_sequences = 4,
                                         .name = names.function(),
                                         .max_io_pins = 32}))
                 .value()),
        layers(main, format, index_page_size, 16),
        tier(make_host_tier({.max_bytes = int64_t{1} << 20}).value()),
        below{{.tier = tier.get(), .policy = StorePolicy::write_through}},
        manager(CacheManager::create({.pool = &pool,
                                      .planes = layers.planes(),
                                      .tiers = below,
                                      .load_deadline_ms = 0,
                                      .store_deadline_ms = 0})
                    .value()) {}

  [[nodiscard]] int64_t slot_of(SequenceId id, int32_t position) const {
    const int64_t first = pool.row_start(id).value();
    return int64_t{pool.table().entries[first + position / index_page_size]} * index_page_size +
           position % index_page_size;
  }
  /// What the sequence has not yet.
  void compute(SequenceId id, std::span<const TokenId> tokens) {
    const int32_t length = pool.length(id).value();
    const auto rest = tokens.subspan(static_cast<size_t>(length));
    pool.reserve(id, static_cast<int32_t>(rest.size())).or_throw();
    copy_pages(layers.planes(), layers.planes(), pool.take_copies(), serial_executor()).or_throw();
    for (size_t i = 0; i < rest.size(); ++i) {
      const int32_t position = length + static_cast<int32_t>(i);
      layers.write(rest[i], position, slot_of(id, position));
    }
    manager.commit(id, rest).or_throw();
  }
  void settle() {
    while (manager.figures().loads + manager.figures().stores != 0) manager.poll();
    manager.poll();
  }

  Sha256Names names;
  PagePool pool;
  IndexedLayers layers;
  std::unique_ptr<Tier> tier;
  std::vector<TierOfCache> below;
  CacheManager manager;
};

TEST(IndexCacheOfManager, comes_back_with_the_pages_of_a_prompt) {
  Rng rng(test_seed());
  std::vector<TokenId> prompt(22);
  for (TokenId& token : prompt) token = rng.int_between(0, 999);
  for (const Main main : {Main::kv, Main::latent}) {
    for (const IndexFormat& format : index_formats) {
      SCOPED_TRACE(format.name);
      IndexedEngine engine(main, format);
      ExpectedRows expected(main, format);
      const TieredAdmission first = engine.manager.admit(prompt).value();
      engine.compute(first.id, prompt);
      engine.manager.release(first.id).or_throw();
      engine.settle();
      ASSERT_EQ(engine.tier->figures().pages, 5);
      engine.pool.clear().or_throw();
      engine.layers.fill(std::byte{0xee});

      const TieredAdmission again = engine.manager.admit(prompt).value();
      EXPECT_EQ(again.cached_tokens, 0);
      EXPECT_EQ(again.loading_tokens, 20);
      engine.settle();
      ASSERT_EQ(engine.manager.load_state(again.id), LoadState::loaded);
      EXPECT_EQ(engine.manager.layers_ready(again.id), 4) << "each plane counts as a layer";
      engine.compute(again.id, prompt);
      for (int32_t t = 0; t < 22; ++t)
        ASSERT_EQ(engine.layers.bytes_of(engine.slot_of(again.id, t)),
                  expected.of(prompt[static_cast<size_t>(t)], t))
            << t;
      engine.manager.release(again.id).or_throw();
      engine.settle();
    }
  }
}

}  // namespace
}  // namespace folio::test
