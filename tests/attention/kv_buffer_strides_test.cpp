// SPDX-License-Identifier: Apache-2.0
/// tests/attention/kv_buffer_strides_test.cpp: strides of either sign: planes and scales that lie
/// backwards, seen through ViewMHAOperand and loaded by every loader of KVBuffer.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <vector>

#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand/view_operand.h"
#include "folio/core/element.h"
#include "support/kv_buffer_configs.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

constexpr int32_t heads = 3, depth = 64, granularity = 16;
constexpr int64_t context = 100, num_pages = 5;
constexpr uint32_t page_ids[4] = {3, 0, 4, 2};

/// Negates one stride of a dimension of `extent` and begins at its other end.
void turn(void*& data, int64_t& stride, int64_t extent) {
  data = static_cast<std::byte*>(data) + (extent - 1) * stride;
  stride = -stride;
}
enum Turned {
  page = 1,
  slot = 2,
  head = 4,
  granule = 8,
  scale_page = 16,
  scale_slot = 32,
  scale_head = 64,
  everything = 127
};

/// A plane of i8 with scales of f32, some of whose strides are negative.
class Backwards {
 public:
  explicit Backwards(unsigned turned, int32_t page_size = 32)
      : plane_({.dtype = DType::i8,
                .num_heads = heads,
                .head_size = depth,
                .page_size = page_size,
                .num_pages = num_pages,
                .gap = 1,
                .scales = {.dtype = DType::f32,
                           .granularity = granularity,
                           .page = true,
                           .slot = true,
                           .head = true,
                           .granule = true}}) {
    PagedKVView& v = plane_.view;
    ScaleView& s = v.scales;
    if ((turned & page) != 0) turn(v.data, v.page_stride_bytes, num_pages);
    if ((turned & slot) != 0) turn(v.data, v.slot_stride_bytes, page_size);
    if ((turned & head) != 0) turn(v.data, v.head_stride_bytes, heads);
    if ((turned & granule) != 0) turn(s.data, s.granule_stride_bytes, depth / granularity);
    if ((turned & scale_page) != 0) turn(s.data, s.page_stride_bytes, num_pages);
    if ((turned & scale_slot) != 0) turn(s.data, s.slot_stride_bytes, page_size);
    if ((turned & scale_head) != 0) turn(s.data, s.head_stride_bytes, heads);
    for (int64_t token = 0; token < context; ++token) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 0; d < depth; ++d) {
          const int8_t stored = code(token, h, d);
          const float factor = scale(token, h, d);
          const int64_t id = page_ids[token / page_size];
          std::memcpy(plane_.element(id, token % page_size, h, d), &stored, 1);
          std::memcpy(plane_.scale(id, token % page_size, h, d), &factor, 4);
        }
      }
    }
  }
  template <DType ScaleDType>
  [[nodiscard]] ViewMHAOperand<DType::i8, ScaleDType> operand() const {
    PagedKVView view = plane_.view;
    if (ScaleDType == DType::invalid) view.scales = {};
    return view_operand<DType::i8, ScaleDType>(view, {page_ids, 4, nullptr}, lengths, context)
        .value();
  }
  static int8_t code(int64_t token, int64_t h, int64_t d) {
    return static_cast<int8_t>((token * 31 + h * 57 + d * 3) % 251 - 125);
  }
  static float scale(int64_t token, int64_t h, int64_t d) {
    return static_cast<float>(1 + (token * 5 + h * 7 + d / granularity * 3) % 13) / 4.0f;
  }

 private:
  static constexpr int32_t lengths[1] = {context};
  TestPlane plane_;
};

template <template <class> class L, DType Staged>
struct Config : ThreadKeys<depth> {
  static constexpr int bk_smem = depth;
  static constexpr DType smem_dtype = Staged;
  template <class Shape>
  using Loader = L<Shape>;
};
template <class Shape>
using InPlace = InPlaceLoader<Shape>;

/// Every element of both tiles of a head.
template <class Config, DType ScaleDType>
void expect_keys(const Backwards& plane, const char* what, unsigned turned) {
  using Buffer = KVBuffer<ViewMHAOperand<DType::i8, ScaleDType>, Config>;
  constexpr int64_t h = 2;
  std::vector<typename Buffer::smem_type> smem(Buffer::smem_elements);
  Buffer buffer(plane.operand<ScaleDType>(), 0, h, {smem.data(), {}}, context);
  for (int64_t tile = 0; tile < 2; ++tile) {
    buffer.template load_from_dram<1>();
    for (int key = 0; key < 64; ++key) {
      for (int d = 0; d < depth; ++d) {
        const int64_t token = tile * 64 + key;
        float expected = 0.0f;
        if (token < context) expected = Backwards::code(token, h, d);
        if (token < context && ScaleDType != DType::invalid)
          expected *= Backwards::scale(token, h, d);
        ASSERT_EQ(to_float(buffer.loader().at(1, key, d)), expected)
            << what << ", turned " << turned << ", key " << token << ", dim " << d;
      }
    }
  }
}

TEST(NegativeStrides, of_values_and_scales_load_the_same_keys) {
  for (const unsigned turned : {0u, 1u, 2u, 4u, 8u, 16u, 32u, 64u, 2u + 32u, 5u, 122u, 127u}) {
    const Backwards plane(turned);
    expect_keys<Config<PlainLoader, DType::i8>, DType::invalid>(plane, "plain", turned);
    expect_keys<Config<InPlace, DType::i8>, DType::invalid>(plane, "in place", turned);
    expect_keys<Config<InPlace, DType::f32>, DType::f32>(plane, "converted rows", turned);
    expect_keys<Config<TileLoader, DType::f32>, DType::f32>(plane, "tiles", turned);
  }
}

/// A tile that was found before is several runs, or one.
TEST(NegativeStrides, of_tiles_that_were_found_before) {
  using Buffer = KVBuffer<ViewMHAOperand<DType::i8, DType::f32>, Config<InPlace, DType::f32>>;
  for (const int32_t page_size : {32, 64}) {
    const Backwards plane(everything, page_size);
    const auto operand = plane.operand<DType::f32>();
    std::vector<float> smem(Buffer::smem_elements);
    Buffer buffer(operand, 0, 0, {smem.data(), {}}, context);
    KeyTile keys;
    keys.seen = ~uint64_t{0};
    PageCursor(operand.view, operand.table, 0).find(keys);
    ASSERT_EQ(keys.runs, 64 / page_size);
    buffer.kv_cache_iter.set_tile(keys, 1);
    buffer.load_from_dram<0>();
    for (int key = 0; key < 64; ++key)
      for (int d = 0; d < depth; ++d)
        ASSERT_EQ(buffer.loader().at(0, key, d),
                  static_cast<float>(Backwards::code(key, 1, d)) * Backwards::scale(key, 1, d))
            << "pages of " << page_size << ", key " << key << ", dim " << d;
  }
}

TEST(NegativeStrides, are_walked_by_the_operand) {
  for (const unsigned turned : {0u, 2u, 7u, 127u}) {
    const Backwards plane(turned);
    const auto operand = plane.operand<DType::f32>();
    for (int64_t token = 0; token < context;) {
      const OperandRun run = operand.run(0, token, 1);
      ASSERT_NE(run.data, nullptr);
      for (int64_t i = 0; i < run.rows && token < context; ++i, ++token) {
        int8_t element;
        std::memcpy(&element, run.data + i * run.slot_stride_bytes + 9, 1);
        ASSERT_EQ(element, Backwards::code(token, 1, 9)) << turned;
        ASSERT_EQ(
            (operand.load_scale<2>(0, token, 1, 17)),
            (Vec<float, 2>{{Backwards::scale(token, 1, 17), Backwards::scale(token, 1, 17 + 16)}}));
      }
    }
  }
}

TEST(NegativeStrides, heads_are_adjacent_whichever_way_they_lie) {
  const PagedKVView forwards = Backwards(0).operand<DType::f32>().view;
  for (const unsigned turned : {0u, 2u, 4u, 6u})
    EXPECT_TRUE(PageCursor::heads_are_adjacent(Backwards(turned).operand<DType::f32>().view));
  PagedKVView head_major = forwards;
  head_major.head_stride_bytes = -forwards.slot_stride_bytes;
  head_major.slot_stride_bytes = forwards.head_stride_bytes;
  EXPECT_FALSE(PageCursor::heads_are_adjacent(head_major));
}

TEST(RowsBeside, values_lie_beside_keys_within_a_slot_of_the_same_pages) {
  std::byte memory[4096] = {};
  PagedKVView key;
  key.data = memory + 1024;
  key.page_stride_bytes = 2048;
  key.slot_stride_bytes = 512;
  key.head_stride_bytes = 256;
  PagedKVView value = key;
  for (const int64_t bytes : {128, -128, 511, -511}) {
    value.data = memory + 1024 + bytes;
    EXPECT_EQ(PageCursor::bytes_beside(key, value), bytes);
  }
  for (const int64_t bytes : {0, 512, -512, 2048}) {
    value.data = memory + 1024 + bytes;
    EXPECT_EQ(PageCursor::bytes_beside(key, value), 0);
  }
  value.data = memory + 1024 + 128;
  for (int64_t PagedKVView::*stride :
       {&PagedKVView::page_stride_bytes, &PagedKVView::slot_stride_bytes,
        &PagedKVView::head_stride_bytes}) {
    PagedKVView other = value;
    other.*stride *= 2;
    EXPECT_EQ(PageCursor::bytes_beside(key, other), 0);
  }
}

TEST(NegativeStrides, have_no_tensor_map) {
  const Backwards plane(slot);
  const auto tile = plane.operand<DType::invalid>().create_tma_tile<tma::Swizzle::b64, 32, 64>();
  EXPECT_FALSE(tile.check().is_ok());
}

}  // namespace
}  // namespace folio::test
