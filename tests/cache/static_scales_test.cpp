// SPDX-License-Identifier: Apache-2.0
/// tests/cache/static_scales_test.cpp: scales of PagedKVCache: every scale type, granularity, short
/// last granules, page strides.
#include <gtest/gtest.h>

#include <cmath>

#include "folio/cache/paged_kv_cache.h"
#include "folio/core/element.h"
#include "support/static_cache.h"

namespace folio::test {
namespace {

template <DType D>
struct Scale {
  static constexpr DType dtype = D;
};

/// Powers of two, which every scale type stores exactly, different for neighbours.
float scale_value(int64_t page, int64_t slot, int64_t head, int64_t granule) {
  return std::ldexp(1.0f, static_cast<int>((page * 7 + slot * 5 + head * 3 + granule) % 9) - 4);
}

int stored_value(int64_t slot, int64_t head, int64_t dim) {
  return static_cast<int>((slot * 31 + head * 17 + dim * 5) % 255) - 127;
}

template <class S>
class StaticScales : public ::testing::Test {
 protected:
  /// Fills K of the last layer through the cache, reads it back against plain arithmetic.
  template <int HeadSize, int Granularity>
  void check() {
    constexpr int heads = 2, page = 3, granules = (HeadSize + Granularity - 1) / Granularity;
    using Collection = PagedKVCacheCollection<DType::i8, KVCacheStaticParams{heads, HeadSize}, page,
                                              S::dtype, Granularity>;
    using Scalar = element_t<S::dtype>;
    static_assert(Collection::head_dim_granularity == granules);
    StaticCache<Collection> cache({.num_pages = 3, .num_layers = 2, .max_cache_length = 6});
    cache.set_row(0, {2, 0});
    const auto key = cache.key(1);
    for (int token = 0; token < 6; ++token) {
      for (int head = 0; head < heads; ++head) {
        for (int d = 0; d < HeadSize; ++d)
          key.store(0, head, token, d,
                    Vec<int8_t, 1>{{static_cast<int8_t>(stored_value(token, head, d))}});
        for (int g = 0; g < granules; ++g) {
          key.store_scale(
              0, head, token, g * Granularity,
              Vec<Scalar, 1>{{from_float<Scalar>(scale_value(token / page, token, head, g))}});
        }
      }
    }
    for (int token = 0; token < 6; ++token) {
      for (int head = 0; head < heads; ++head) {
        for (int d = 0; d + 4 <= HeadSize; ++d) {  // every start, so every crossing of granules
          const auto loaded = key.template load<4, DType::f32>(0, head, token, d);
          const auto raw = key.template load_quantized<4>(0, head, token, d);
          for (int i = 0; i < 4; ++i) {
            const int stored = stored_value(token, head, d + i);
            const float scale = scale_value(token / page, token, head, (d + i) / Granularity);
            EXPECT_EQ(raw[i], stored);
            EXPECT_EQ(loaded[i], static_cast<float>(stored) * scale)
                << "token " << token << " head " << head << " dim " << d + i;
          }
        }
        const auto all = key.template load_scale<granules>(0, head, token, 0);
        for (int g = 0; g < granules; ++g)
          EXPECT_EQ(to_float(all[g]), scale_value(token / page, token, head, g));
        const int last = HeadSize - 1;
        EXPECT_EQ(to_float(key.template load_scale<1>(0, head, token, last)[0]),
                  scale_value(token / page, token, head, granules - 1));
      }
    }
  }
};

using ScaleTypes = ::testing::Types<Scale<DType::f32>, Scale<DType::f16>, Scale<DType::bf16>,
                                    Scale<DType::f8_e8m0>, Scale<DType::f8_e4m3>>;
TYPED_TEST_SUITE(StaticScales, ScaleTypes);

TYPED_TEST(StaticScales, one_scale_per_element) { this->template check<8, 1>(); }
TYPED_TEST(StaticScales, granules_that_divide_the_head) { this->template check<16, 8>(); }
TYPED_TEST(StaticScales, a_short_last_granule) { this->template check<20, 8>(); }
TYPED_TEST(StaticScales, one_scale_per_token_and_head) { this->template check<20, 20>(); }
TYPED_TEST(StaticScales, a_granularity_beyond_the_head) { this->template check<16, 256>(); }

TEST(StaticScales, the_product_is_rounded_once_from_float32) {
  using Cache = PagedKVCache<DType::f8_e4m3, KVCacheStaticParams{1, 2}, 1, DType::f16, 2>;
  f8_e4m3 stored[2] = {from_float<f8_e4m3>(448.0f), from_float<f8_e4m3>(-0.001953125f)};
  f16 scale = from_float<f16>(60000.0f);
  const uint32_t entry = 0;
  const Cache cache{{stored, Cache::blocks_tt_layout(1, 2)},
                    {},
                    {&entry, Cache::lookup_table_tt_layout(1, 1, 1)},
                    1,
                    1,
                    {&scale, Cache::scales_tt_layout(1, 1)}};
  // Beyond f16, the scale's type: a product in it would be infinite.
  EXPECT_EQ((cache.load<2, DType::f32>(0, 0, 0, 0)[0]), 448.0f * 60000.0f);
  EXPECT_EQ((cache.load<2, DType::bf16>(0, 0, 0, 0)[0]), from_float<bf16>(448.0f * 60000.0f));
  EXPECT_EQ((cache.load<2, DType::f32>(0, 0, 0, 0)[1]), -0.001953125f * 60000.0f);
}

TEST(StaticScales, the_slot_of_a_scale_is_the_floor_of_dim_by_granularity) {
  using Cache = PagedKVCache<DType::i8, KVCacheStaticParams{1, 128}, 1, DType::f32, 64>;
  int8_t stored[128] = {};
  float scales[2] = {3.0f, 5.0f};
  const uint32_t entry = 0;
  const Cache cache{{stored, Cache::blocks_tt_layout(1, 128)},
                    {},
                    {&entry, Cache::lookup_table_tt_layout(1, 1, 1)},
                    1,
                    1,
                    {scales, Cache::scales_tt_layout(1, 2)}};
  EXPECT_EQ((cache.load_scale<1>(0, 0, 0, 63)[0]), 3.0f);
  EXPECT_EQ((cache.load_scale<1>(0, 0, 0, 64)[0]), 5.0f);
  EXPECT_EQ(cache.scales_block_paged_ptr(0, 0, 0, 127), scales + 1);
}

TEST(StaticScales, scales_of_keys_do_not_alias_those_of_the_previous_page_s_values) {
  using Collection = PagedKVCacheCollection<DType::i8, KVCacheStaticParams{1, 4}, 2, DType::f32, 4>;
  StaticCache<Collection> cache({.num_pages = 2, .max_cache_length = 4});
  cache.set_row(0, {0, 1});
  cache.key().store_scale(0, 0, 2, 0, Vec<float, 1>{{7.0f}});
  cache.value().store_scale(0, 0, 0, 0, Vec<float, 1>{{11.0f}});
  EXPECT_EQ((cache.key().load_scale<1>(0, 0, 2, 0)[0]), 7.0f);
  EXPECT_EQ((cache.value().load_scale<1>(0, 0, 0, 0)[0]), 11.0f);
  EXPECT_EQ(cache.key().scale_row_stride(), 4);
}

TEST(StaticScales, nan_in_a_dead_scale_reaches_no_live_element) {
  using Collection = PagedKVCacheCollection<DType::i8, KVCacheStaticParams{1, 8}, 2, DType::f32, 4>;
  // all scales start as NaN
  StaticCache<Collection> cache({.num_pages = 1, .max_cache_length = 2});
  cache.set_row(0, {0});
  cache.key().store(0, 0, 0, 0, Vec<int8_t, 8>::splat(2));
  cache.key().store_scale(0, 0, 0, 0, Vec<float, 1>{{0.5f}});
  EXPECT_EQ((cache.key().load<4, DType::f32>(0, 0, 0, 0)), (Vec<float, 4>::splat(1.0f)));
  EXPECT_TRUE(std::isnan(cache.key().load<1, DType::f32>(0, 0, 0, 4)[0]));
}

}  // namespace
}  // namespace folio::test
