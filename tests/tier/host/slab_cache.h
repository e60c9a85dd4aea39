// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/slab_cache.h: a pool's planes with random rows, and a host tier that has their
/// pages, too.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "cache/check_view.h"
#include "cache/granule_bytes.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/planes.h"
#include "folio/tier/host_pages.h"
#include "support/random.h"
#include "tier/tier_helpers.h"

namespace folio::test {

/// Rows of bf16 or i8 between -1 and 1, scales of f32.
inline void fill_rows(const PagedKVView& view, Rng& rng) {
  for (int64_t page = 0; page < view.num_pages; ++page)
    for (int32_t slot = 0; slot < view.page_size; ++slot)
      for (int32_t head = 0; head < view.num_heads; ++head) {
        std::byte* const row = detail::row_of(view, page, slot, head);
        for (int32_t d = 0; d < view.head_size; ++d) {
          if (view.dtype == DType::bf16) {
            const auto bits =
                static_cast<uint16_t>(std::bit_cast<uint32_t>(rng.uniform(-1.0f, 1.0f)) >> 16);
            std::memcpy(row + 2 * d, &bits, 2);
          } else {
            row[d] = static_cast<std::byte>(rng.between(-127, 127));
          }
        }
        if (view.scales.data == nullptr) continue;
        for (int64_t g = 0; g < granules_of(view.head_size, view.scales.granularity); ++g) {
          const float scale = rng.uniform(0.004f, 0.007f);
          std::memcpy(static_cast<std::byte*>(view.scales.data) +
                          detail::scale_offset_bytes(view.scales, page, slot, head, g),
                      &scale, 4);
        }
      }
}

/// The bytes that a page shows of a row and of what stands beside it, row after row.
inline std::vector<std::byte> shown(const PagedKVView& view, int64_t page) {
  std::vector<std::byte> all;
  const auto add = [&](const std::byte* at, int64_t bytes) {
    all.insert(all.end(), at, at + bytes);
  };
  const ScaleView& scales = view.scales;
  for (int32_t slot = 0; slot < view.page_size; ++slot)
    for (int32_t head = 0; head < view.num_heads; ++head) {
      add(detail::row_of(view, page, slot, head), row_bytes(view.dtype, view.head_size));
      if (scales.data == nullptr) continue;
      for (int64_t g = 0; g < granules_of(view.head_size, scales.granularity); ++g)
        for (const auto& [offset, bytes] : granule_bytes(scales))
          add(static_cast<const std::byte*>(scales.data) + offset +
                  detail::scale_offset_bytes(scales, page, slot, head, g),
              bytes);
    }
  return all;
}

/// A pool's memory of `make_planes`, and a tier that has room for all of its pages.
class SlabCache {
 public:
  SlabCache(const KVShape& shape, int64_t num_pages, uint64_t seed) : rng_(seed) {
    blocks_.resize(static_cast<size_t>(num_pages * page_bytes(shape).value()));
    scales_.resize(static_cast<size_t>(num_pages * scale_page_bytes(shape).value()));
    planes = make_planes(shape, num_pages, span_of(blocks_), span_of(scales_)).value();
    for (const KVPlanes& layer : planes)
      for (const PagedKVView* view : {&layer.key, &layer.value})
        if (view->data != nullptr) fill_rows(*view, rng_);
    std::vector<uint32_t> pages(static_cast<size_t>(num_pages));
    std::iota(pages.begin(), pages.end(), 0U);
    rng_.shuffle(pages);  // a page lies elsewhere in the slab
    const int64_t bytes = page_bytes(shape).value() + scale_page_bytes(shape).value();
    tier = tier::make_host_tier({.max_bytes = num_pages * (bytes + 128)}, bytes).value();
    for (const uint32_t page : pages) {
      const std::vector<Extent> extents = tier::payload_extents(planes, page).value();
      const TierPage stored[] = {{name_of(page), extents}};
      static_cast<void>(tier->store(stored).value());
      EXPECT_EQ(wait_for(*tier, 1).front().outcome, TierOutcome::done);
    }
    slab_planes = tier::planes_in(tier->slab(), planes).value();
  }

  /// The pages' places in the slab; they stay held.
  [[nodiscard]] std::vector<uint32_t> held(std::span<const uint32_t> pages) const {
    std::vector<PageName> names;
    for (const uint32_t page : pages) names.push_back(name_of(page));
    std::vector<int32_t> places(pages.size());
    EXPECT_TRUE(tier->hold(names, places).is_ok());
    EXPECT_TRUE(std::ranges::all_of(places, [](int32_t place) { return place >= 0; }));
    return {places.begin(), places.end()};
  }
  /// What the pool's pages hold is gone.
  void forget_pool() {
    std::ranges::fill(blocks_, std::byte{0xff});
    std::ranges::fill(scales_, std::byte{0xff});
  }

 private:
  static MemorySpan span_of(std::vector<std::byte>& bytes) {
    return {bytes.empty() ? nullptr : bytes.data(), std::ssize(bytes)};
  }
  Rng rng_;
  std::vector<std::byte> blocks_, scales_;

 public:
  std::vector<KVPlanes> planes, slab_planes;
  std::unique_ptr<tier::HostTier> tier;
};

}  // namespace folio::test
