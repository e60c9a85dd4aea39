// SPDX-License-Identifier: Apache-2.0
/// tests/cache/planes_test.cpp: sizes, strides and byte runs against the storage tensor counted by
/// hand.
#include "folio/cache/planes.h"
#include "folio/cache/page_extents.h"

#include <gtest/gtest.h>

#include <set>

#include "folio/cache/page_walk.h"
#include "support/guarded_memory.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

int64_t bytes_of(DType dtype) { return bit_width(dtype) / 8; }

/// Element (page, kv, layer, slot, head, d) of the seeds' tensor, counted in the order that the
/// shape states.
int64_t element_index(const KVShape& s, int64_t row, int64_t page, int64_t kv, int64_t layer,
                      int64_t slot, int64_t head, int64_t d) {
  const int64_t planes = s.is_mla ? 1 : 2;
  const int64_t plane = (page * planes + kv) * s.num_layers + layer;
  const bool token_major = s.order == StorageOrder::token_major;
  const int64_t outer = token_major ? slot : head;
  const int64_t inner = token_major ? head : slot;
  return ((plane * (token_major ? s.page_size : s.num_heads) + outer) *
              (token_major ? s.num_heads : s.page_size) +
          inner) *
             row +
         d;
}

KVShape small_shape(StorageOrder order, bool is_mla) {
  KVShape shape;
  shape.num_layers = 3;
  shape.num_heads = 2;
  shape.head_size = 24;
  shape.page_size = 5;
  shape.dtype = DType::f8_e4m3;
  shape.is_mla = is_mla;
  shape.scale_dtype = DType::f16;
  shape.quantization_granularity = 16;
  shape.order = order;
  return shape;
}

TEST(Planes, page_bytes_is_the_product_of_the_extents) {
  KVShape shape;
  shape.num_layers = 32;
  shape.num_heads = 8;
  shape.head_size = 128;
  shape.page_size = 16;
  EXPECT_EQ(*page_bytes(shape), 2ll * 32 * 16 * 8 * 128 * 2);
  EXPECT_EQ(*scale_page_bytes(shape), 0);
  shape.is_mla = true;
  shape.head_size = 576;
  shape.num_heads = 1;
  shape.dtype = DType::i8;
  EXPECT_EQ(*page_bytes(shape), 1ll * 32 * 16 * 576);
}

TEST(Planes, sizes_of_impossible_shapes_are_refused) {
  KVShape shape;
  shape.head_size = 0;
  EXPECT_EQ(page_bytes(shape).error().message(),
            "page_bytes: shape.head_size is 0, expected at least 1");
  EXPECT_EQ(scale_page_bytes(shape).error().message(),
            "scale_page_bytes: shape.head_size is 0, expected at least 1");
}

TEST(Planes, scale_page_bytes_rounds_granules_up_and_takes_the_head_by_default) {
  KVShape shape = small_shape(StorageOrder::token_major, false);
  EXPECT_EQ(*scale_page_bytes(shape), 2 * 3 * 5 * 2 * 2 * 2);  // 24 elements in granules of 16: two
  shape.quantization_granularity = 0;
  EXPECT_EQ(*scale_page_bytes(shape), 2 * 3 * 5 * 2 * 1 * 2);
}

TEST(Planes, sizes_are_64_bit) {
  KVShape shape;
  shape.num_layers = 1000;
  shape.num_heads = 128;
  shape.head_size = 512;
  shape.page_size = 1024;
  EXPECT_EQ(*page_bytes(shape), 2ll * 1000 * 128 * 512 * 1024 * 2);
}

class Orders : public ::testing::TestWithParam<std::tuple<StorageOrder, bool>> {};

TEST_P(Orders, every_address_is_that_of_the_six_dimensional_tensor) {
  const auto [order, is_mla] = GetParam();
  const KVShape shape = small_shape(order, is_mla);
  const int64_t pages = 4;
  const GuardedMemory blocks(pages * *page_bytes(shape));
  const GuardedMemory scales(pages * *scale_page_bytes(shape), 2);
  const auto planes = make_planes(shape, pages, blocks.span(), scales.span());
  ASSERT_TRUE(planes) << planes.error().message();
  ASSERT_EQ(planes->size(), 3u);
  std::set<const std::byte*> seen;
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (int64_t kv = 0; kv < (is_mla ? 1 : 2); ++kv) {
      const KVPlanes& p = (*planes)[static_cast<size_t>(layer)];
      const PagedKVView& view = kv == 0 ? p.key : p.value;
      for (int64_t i = 0; i < pages * 5 * 2; ++i) {
        const int64_t page = i / 10, slot = i / 2 % 5, head = i % 2;
        const int64_t element = element_index(shape, 24, page, kv, layer, slot, head, 0);
        EXPECT_EQ(detail::row_of(view, page, slot, head),
                  blocks.data() + element * bytes_of(shape.dtype));
        const int64_t scale = element_index(shape, 2, page, kv, layer, slot, head, 1);
        EXPECT_EQ(static_cast<std::byte*>(view.scales.data) +
                      detail::scale_offset_bytes(view.scales, page, slot, head, 1),
                  scales.data() + scale * 2);
        seen.insert(detail::row_of(view, page, slot, head));
      }
    }
    EXPECT_EQ((*planes)[static_cast<size_t>(layer)].value.data == nullptr, is_mla);
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()) * 24 * bytes_of(shape.dtype), blocks.bytes());
}

INSTANTIATE_TEST_SUITE_P(Planes, Orders,
                         ::testing::Combine(::testing::Values(StorageOrder::token_major,
                                                              StorageOrder::head_major),
                                            ::testing::Bool()));

TEST(Planes, null_blocks_give_geometry_only) {
  const KVShape shape = small_shape(StorageOrder::head_major, false);
  const auto planes = make_planes(shape, 7, {});
  ASSERT_TRUE(planes);
  const PagedKVView& key = planes->front().key;
  EXPECT_EQ(key.data, nullptr);
  EXPECT_EQ(key.scales.data, nullptr);
  EXPECT_EQ(key.scales.dtype, DType::f16);
  EXPECT_EQ(key.num_pages, 7);
  EXPECT_EQ(key.slot_stride_bytes, 24);
  EXPECT_EQ(key.head_stride_bytes, 5 * 24);
  EXPECT_EQ(key.page_stride_bytes, 2 * 3 * 5 * 2 * 24);
}

TEST(Planes, no_pages_need_no_memory_whatever_their_stride) {
  KVShape shape;
  shape.page_stride_bytes = int64_t{1} << 58;
  alignas(64) std::byte none[64];
  EXPECT_TRUE(make_planes(shape, 0, {none, 0}).has_value());
  EXPECT_TRUE(make_planes(shape, 1, {}).has_value());
}

TEST(Planes, unbounded_pages_are_rows_of_one_run_per_plane) {
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    KVShape shape;
    shape.num_heads = 2;
    shape.head_size = 8;
    shape.page_size = unbounded_page_size;
    shape.dtype = DType::f32;
    shape.order = order;
    EXPECT_EQ(*page_bytes(shape), 2 * 2 * 8 * 4);
    const GuardedMemory blocks(10 * *page_bytes(shape), 4);
    const auto planes = make_planes(shape, 10, blocks.span());
    ASSERT_TRUE(planes);
    const PagedKVView& value = planes->front().value;
    EXPECT_EQ(value.page_stride_bytes, value.slot_stride_bytes);
    EXPECT_EQ(static_cast<std::byte*>(value.data), blocks.data() + 10 * 2 * 8 * 4);
    EXPECT_EQ(detail::row_of(value, 3, 6, 1) + 8 * 4, blocks.data() + blocks.bytes())
        << "row 9 of the last head ends the tensor";
  }
}

/// Extents by definition: every byte of every element and per-page scale of the page.
std::set<const std::byte*> bytes_of_page(const std::vector<KVPlanes>& planes, int64_t page) {
  std::set<const std::byte*> bytes;
  const auto add = [&](const std::byte* at, int64_t n) {
    for (int64_t i = 0; i < n; ++i) bytes.insert(at + i);
  };
  for (const KVPlanes& p : planes) {
    for (const PagedKVView* v : {&p.key, &p.value}) {
      if (v->data == nullptr) continue;
      for (int64_t slot = 0; slot < v->page_size; ++slot) {
        for (int64_t head = 0; head < v->num_heads; ++head) {
          add(detail::row_of(*v, page, slot, head), v->head_size * bytes_of(v->dtype));
          if (v->scales.data == nullptr || v->scales.page_stride_bytes == 0) continue;
          for (int32_t d = 0; d < v->head_size; ++d) {
            const int64_t offset = detail::scale_offset_bytes(v->scales, page, slot, head,
                                                              detail::granule_of(v->scales, d));
            add(static_cast<const std::byte*>(v->scales.data) + offset, bytes_of(v->scales.dtype));
          }
        }
      }
    }
  }
  return bytes;
}

void expect_extents(const std::vector<KVPlanes>& planes, uint32_t page) {
  const auto extents = page_extents(planes, page);
  ASSERT_TRUE(extents) << extents.error().message();
  std::set<const std::byte*> covered;
  const std::byte* end = nullptr;
  for (const Extent& e : *extents) {
    EXPECT_GT(e.bytes, 0);
    EXPECT_TRUE(end == nullptr || e.data > end) << "ascending, adjacent runs merged";
    for (int64_t i = 0; i < e.bytes; ++i) covered.insert(e.data + i);
    end = e.data + e.bytes;
  }
  EXPECT_EQ(covered, bytes_of_page(planes, page));
}

TEST(Planes, pages_may_lie_further_apart_than_they_are_long) {
  KVShape shape = small_shape(StorageOrder::token_major, false);
  const int64_t page = *page_bytes(shape), scale_page = *scale_page_bytes(shape);
  const std::vector<KVPlanes> dense = make_planes(shape, 3, {}).value();
  // each page's scales behind its elements, and a gap
  const int64_t stride = page + scale_page + 6;
  shape.page_stride_bytes = shape.scale_page_stride_bytes = stride;
  EXPECT_EQ(*page_bytes(shape), page);
  EXPECT_EQ(*scale_page_bytes(shape), scale_page);
  const GuardedMemory memory(2 * stride + page + scale_page, 2);
  const auto planes = make_planes(shape, 3, {memory.data(), 2 * stride + page},
                                  {memory.data() + page, 2 * stride + scale_page});
  ASSERT_TRUE(planes) << planes.error().message();
  for (size_t layer = 0; layer < 3; ++layer) {
    for (const auto member : {&KVPlanes::key, &KVPlanes::value}) {
      const PagedKVView& view = (*planes)[layer].*member;
      EXPECT_EQ(view.page_stride_bytes, stride);
      EXPECT_EQ(view.scales.page_stride_bytes, stride);
      EXPECT_EQ(view.slot_stride_bytes, (dense[layer].*member).slot_stride_bytes);
      EXPECT_EQ(view.scales.slot_stride_bytes, (dense[layer].*member).scales.slot_stride_bytes);
    }
  }
  for (uint32_t p = 0; p < 3; ++p) {
    const auto extents = page_extents(*planes, p);
    ASSERT_TRUE(extents) << extents.error().message();
    ASSERT_EQ(extents->size(), 1U) << "elements and scales are one run";
    EXPECT_EQ(extents->front().data, memory.data() + p * stride);
    EXPECT_EQ(extents->front().bytes, page + scale_page);
    expect_extents(*planes, p);
  }
}

TEST(Planes, extents_of_the_seeds_tensor_are_one_run_of_values_and_one_of_scales) {
  const KVShape shape = small_shape(StorageOrder::token_major, false);
  const GuardedMemory blocks(4 * *page_bytes(shape));
  const GuardedMemory scales(4 * *scale_page_bytes(shape), 2);
  const auto planes = make_planes(shape, 4, blocks.span(), scales.span());
  ASSERT_TRUE(planes);
  const auto extents = page_extents(*planes, 2);
  ASSERT_TRUE(extents);
  EXPECT_EQ(extents->size(), 2u);
  expect_extents(*planes, 2);
}

TEST(Planes, extents_cover_exactly_the_bytes_of_a_page_for_any_geometry) {
  Rng rng(test_seed());
  const DType scale_dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0,
                                DType::f8_e4m3};
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    PlaneSpec spec;
    spec.dtype = rng.chance(0.5) ? DType::i8 : DType::bf16;
    spec.num_heads = rng.int_between(1, 3);
    spec.head_size = rng.int_between(1, 20);
    spec.page_size = rng.int_between(1, 5);
    spec.order = rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major;
    spec.gap = rng.between(0, 2);
    if (rng.chance(0.7)) {
      spec.scales = {rng.pick(scale_dtypes), rng.int_between(1, 8), rng.chance(0.7),
                     rng.chance(0.7),        rng.chance(0.7),       rng.chance(0.7),
                     rng.chance(0.3)};
    }
    const TestPlane key(spec), value(spec);
    expect_extents({{key.view, value.view}, {value.view, {}}},
                   static_cast<uint32_t>(rng.between(0, 4)));
  }
}

TEST(Planes, extents_of_values_inside_key_rows_name_each_byte_once) {
  const TestPlane latent({.num_heads = 1, .head_size = 24, .gap = 1});
  PagedKVView value = latent.view;
  value.head_size = 16;
  expect_extents({{latent.view, value}}, 1);
}

}  // namespace
}  // namespace folio::test
