// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/planes_in_test.cpp: planes over a host tier's pages show what those of the pool
/// show, or are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tier/host/slab_cache.h"
#include "tier/hostile/refusals.h"

namespace folio::test {
namespace {

using tier::HostSlab;
using tier::make_host_tier;
using tier::payload_extents;
using tier::planes_in;

/// Stores all pages, and looks at each of them in the slab, with the pool's memory gone.
void expect_shown(std::span<const KVPlanes> planes, std::vector<std::byte>& memory) {
  const auto pages = static_cast<uint32_t>(planes[0].key.num_pages);
  int64_t bytes = 0;
  const std::vector<Extent> first = payload_extents(planes, 0).value();
  for (const Extent& e : first) bytes += e.bytes;
  const auto tier = make_host_tier({.max_bytes = pages * (bytes + 128)}, bytes).value();
  std::vector<std::vector<std::byte>> wanted;
  for (uint32_t page = 0; page < pages; ++page) {
    const std::vector<Extent> extents = payload_extents(planes, page).value();
    const TierPage stored[] = {{name_of(page), extents}};
    static_cast<void>(tier->store(stored).value());
    ASSERT_EQ(wait_for(*tier, 1).front().outcome, TierOutcome::done);
    for (const KVPlanes& layer : planes)
      for (const PagedKVView* view : {&layer.key, &layer.value})
        if (view->data != nullptr) wanted.push_back(shown(*view, page));
  }
  const std::vector<KVPlanes> moved = planes_in(tier->slab(), planes).value();
  ASSERT_EQ(moved.size(), planes.size());
  std::ranges::fill(memory, std::byte{0xee});
  size_t seen = 0;
  for (uint32_t page = 0; page < pages; ++page) {
    const PageName name = name_of(page);
    int32_t place = -1;
    ASSERT_TRUE(tier->hold({&name, 1}, {&place, 1}).is_ok());
    ASSERT_GE(place, 0);
    for (const KVPlanes& layer : moved)
      for (const PagedKVView* view : {&layer.key, &layer.value}) {
        if (view->data == nullptr) continue;
        EXPECT_EQ(view->num_pages, pages);
        EXPECT_EQ(shown(*view, place), wanted[seen++]) << "page " << page;
      }
  }
  EXPECT_EQ(seen, wanted.size());
}

class RandomMemory {
 public:
  explicit RandomMemory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    Rng rng(7);
    for (std::byte& b : bytes_) b = static_cast<std::byte>(rng.between(0, 255));
  }
  [[nodiscard]] MemorySpan span() { return {bytes_.data(), std::ssize(bytes_)}; }
  [[nodiscard]] std::byte* at(int64_t offset) { return bytes_.data() + offset; }
  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

TEST(PlanesIn, show_the_pools_pages_of_every_shape) {
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major})
    for (const bool is_mla : {false, true})
      for (const int32_t layers : {1, 3}) {
        const KVShape shapes[] = {
            {.dtype = DType::bf16},
            {.dtype = DType::f32},
            {.dtype = DType::q8_0},
            {.dtype = DType::i8, .scale_dtype = DType::f32},
            {.dtype = DType::i8, .scale_dtype = DType::f16, .quantization_granularity = 16},
            {.dtype = DType::i4, .scale_dtype = DType::f16, .quantization_granularity = 32},
            {.dtype = DType::u4,
             .scale_dtype = DType::f16,
             .quantization_granularity = 32,
             .zeros = Zeros::minimum},
        };
        for (KVShape shape : shapes) {
          shape.num_layers = layers;
          shape.num_heads = 2;
          shape.head_size = 64;
          shape.page_size = 4;
          shape.is_mla = is_mla;
          shape.order = order;
          SCOPED_TRACE(std::string(name(shape.dtype)) + ", layers " + std::to_string(layers));
          constexpr int64_t pages = 3;
          const int64_t blocks = (pages * page_bytes(shape).value() + 63) / 64 * 64;
          RandomMemory memory(blocks + pages * scale_page_bytes(shape).value());
          const MemorySpan scales =
              shape.scale_dtype == DType::invalid
                  ? MemorySpan{}
                  : MemorySpan{memory.at(blocks), std::ssize(memory.bytes()) - blocks};
          expect_shown(make_planes(shape, pages, {memory.at(0), blocks}, scales).value(),
                       memory.bytes());
        }
      }
}

/// [pages, slots 4, heads 2, 16 elements of i8] at `data`.
PagedKVView plane_at(std::byte* data, int64_t page_stride) {
  return {.data = data,
          .dtype = DType::i8,
          .num_heads = 2,
          .head_size = 16,
          .page_size = 4,
          .num_pages = 3,
          .page_stride_bytes = page_stride,
          .slot_stride_bytes = 32,
          .head_stride_bytes = 16};
}

TEST(PlanesIn, show_planes_wherever_these_were_allocated) {
  RandomMemory memory(4096);
  const auto expect = [&](const KVPlanes& layer) {
    std::vector<std::byte> before = memory.bytes();
    const KVPlanes twice[] = {layer, {.key = plane_at(memory.at(3000), 128), .value = {}}};
    expect_shown(twice, memory.bytes());
    memory.bytes() = before;
  };
  // V before K, with other strides, and pages backwards
  expect({.key = plane_at(memory.at(1024), 160), .value = plane_at(memory.at(0), 300)});
  expect({.key = plane_at(memory.at(1024), -128), .value = plane_at(memory.at(1280), 130)});
  {
    KVPlanes pair{.key = plane_at(memory.at(0), 256), .value = plane_at(memory.at(32), 256)};
    for (PagedKVView* view : {&pair.key, &pair.value}) view->slot_stride_bytes = 64;
    SCOPED_TRACE("K and V of a slot side by side");
    expect(pair);
  }
  {
    KVPlanes reversed{.key = plane_at(memory.at(112), 128), .value = {}};
    reversed.key.slot_stride_bytes = -32;
    reversed.key.head_stride_bytes = -16;
    SCOPED_TRACE("slots and heads backwards");
    expect(reversed);
  }
  {
    KVPlanes behind{.key = plane_at(memory.at(0), 160), .value = {}};
    behind.key.slot_stride_bytes = 40;
    behind.key.head_stride_bytes = 20;
    behind.key.scales = {.data = memory.at(16),
                         .dtype = DType::f32,
                         .granularity = 16,
                         .page_stride_bytes = 160,
                         .slot_stride_bytes = 40,
                         .head_stride_bytes = 20,
                         .granule_stride_bytes = 4};
    SCOPED_TRACE("scales behind their rows");
    expect(behind);
  }
}

TEST(PlanesIn, leave_where_they_are_what_lies_in_no_page) {
  RandomMemory memory(2048);
  const float tensor_scale = 2.0f;
  std::vector<float> channel_scales(32, 1.0f);
  KVPlanes layer{.key = plane_at(memory.at(0), 128), .value = plane_at(memory.at(512), 128)};
  layer.key.scales = {.data = memory.at(1024),
                      .dtype = DType::f32,
                      .granularity = 16,
                      .head_stride_bytes = 4,
                      .tensor_scale = &tensor_scale};
  layer.value.has_channel_scales = true;
  layer.value.channel_scales = channel_scales.data();
  const auto tier = make_host_tier({.max_bytes = 10'000}, 256).value();
  const std::vector<KVPlanes> moved = planes_in(tier->slab(), {&layer, 1}).value();
  EXPECT_EQ(moved[0].key.scales, layer.key.scales);
  EXPECT_EQ(moved[0].value.channel_scales, channel_scales.data());
  EXPECT_EQ(moved[0].key.data, tier->slab().data);
  EXPECT_EQ(moved[0].value.data, tier->slab().data + 128);
  EXPECT_EQ(moved[0].key.page_stride_bytes, 256);
  EXPECT_EQ(moved[0].key.num_pages, 10'000 / (256 + 128));
}

TEST(PlanesIn, move_zero_points_that_lie_apart_from_their_scales) {
  RandomMemory memory(4096);
  PagedKVView key{.data = memory.at(0),
                  .dtype = DType::u4,
                  .num_heads = 2,
                  .head_size = 32,
                  .page_size = 4,
                  .num_pages = 3,
                  .page_stride_bytes = 128,
                  .slot_stride_bytes = 32,
                  .head_stride_bytes = 16};
  key.scales = {.data = memory.at(1000),
                .dtype = DType::f16,
                .granularity = 16,
                .page_stride_bytes = 32,
                .slot_stride_bytes = 8,
                .head_stride_bytes = 4,
                .granule_stride_bytes = 2,
                .zeros = Zeros::minimum,
                .zero_offset_bytes = -500};
  const KVPlanes layer{.key = key, .value = {}};
  expect_shown({&layer, 1}, memory.bytes());
}

// ---- Refusals

class PlanesInRefusals : public ::testing::Test {
 protected:
  void expect_refused(const HostSlab& slab, std::span<const KVPlanes> planes,
                      std::string_view part) {
    expect_refusal(planes_in(slab, planes), part);
  }
  RandomMemory memory_{4096};
  KVPlanes layer_{.key = plane_at(memory_.at(0), 128), .value = plane_at(memory_.at(512), 128)};
  const std::unique_ptr<tier::HostTier> tier_ = make_host_tier({.max_bytes = 10'000}, 256).value();
  const HostSlab slab_ = tier_->slab();
};

TEST_F(PlanesInRefusals, name_planes_whose_pages_have_gaps) {
  layer_.value.slot_stride_bytes = 40;
  layer_.value.page_stride_bytes = 160;
  expect_refused(slab_, {&layer_, 1},
                 "planes_in: elements of a page of planes[0].value lie in several runs of bytes");
  layer_.value = plane_at(memory_.at(512), 128);
  layer_.key.scales = {.data = memory_.at(1024),
                       .dtype = DType::f32,
                       .granularity = 16,
                       .page_stride_bytes = 64,
                       .slot_stride_bytes = 16,
                       .head_stride_bytes = 4,
                       .granule_stride_bytes = 4};
  const auto with_scales = make_host_tier({.max_bytes = 10'000}, 256 + 32).value();
  expect_refused(with_scales->slab(), {&layer_, 1},
                 "planes_in: scales of a page of planes[0].key lie in several runs");
}

TEST_F(PlanesInRefusals, name_rows_of_unbounded_pages) {
  layer_.value = {};
  layer_.key.page_size = unbounded_page_size;
  layer_.key.page_stride_bytes = layer_.key.slot_stride_bytes;
  const auto of_rows = make_host_tier({.max_bytes = 10'000}, 32).value();
  expect_refused(of_rows->slab(), {&layer_, 1}, "planes_in: planes[0].key");
}

TEST_F(PlanesInRefusals, name_places_that_are_not_aligned) {
  PagedKVView odd = plane_at(memory_.at(0), 13);
  odd.num_heads = 1;
  odd.head_size = 13;
  odd.page_size = 1;
  PagedKVView wide = plane_at(memory_.at(512), 16);
  wide.dtype = DType::bf16;
  wide.num_heads = 1;
  wide.head_size = 8;
  wide.page_size = 1;
  const KVPlanes layers[] = {{.key = odd, .value = {}}, {.key = wide, .value = {}}};
  const auto tier = make_host_tier({.max_bytes = 10'000}, 29).value();
  expect_refused(tier->slab(), layers, "planes_in: planes[1].key");
}

TEST_F(PlanesInRefusals, name_pages_of_another_size) {
  expect_refused(slab_, {}, "planes are 0");
  expect_refused(slab_, null_span<const KVPlanes>(), "planes are 3, expected 1 or more");
  const KVPlanes keys{.key = layer_.key, .value = {}};
  expect_refused(slab_, {&keys, 1},
                 "planes_in: a page of planes has 128 bytes, expected slab.page_bytes, 256");
  for (const int64_t pages : {int64_t{0}, int64_t{-1}, least_int64, int64_t{1} << 32}) {
    KVPlanes none = layer_;
    none.key.num_pages = pages;
    expect_refused(slab_, {&none, 1}, "planes_in: planes[0].key.num_pages is ");
    expect_refusal(payload_extents({&none, 1}, 0), "payload_extents: planes[0].key.num_pages is ");
  }
  KVPlanes fewer = layer_;
  fewer.value.num_pages = 2;
  expect_refused(slab_, {&fewer, 1}, "planes_in: planes[0] have no page 2");
}

TEST_F(PlanesInRefusals, name_a_slab_that_is_none) {
  HostSlab slab = slab_;
  slab.data = nullptr;
  expect_refused(slab, {&layer_, 1}, "planes_in: slab.data is null");
  for (const int64_t pages : {int64_t{0}, least_int64, int64_t{1} << 31}) {
    slab = slab_;
    slab.pages = pages;
    expect_refused(slab, {&layer_, 1}, "planes_in: slab.pages is ");
  }
  for (const int64_t bytes : {int64_t{0}, int64_t{-5}, slab_.page_stride_bytes + 1}) {
    slab = slab_;
    slab.page_bytes = bytes;
    expect_refused(slab, {&layer_, 1}, "planes_in: slab.page_bytes is ");
  }
  slab = slab_;
  slab.page_stride_bytes = most_int64;
  expect_refused(slab, {&layer_, 1}, "planes_in: planes[0].key");
}

TEST_F(PlanesInRefusals, name_pages_that_there_are_not) {
  EXPECT_TRUE(payload_extents({&layer_, 1}, 2));
  for (const uint32_t page : {3U, 0xffffffffU})
    expect_refusal(payload_extents({&layer_, 1}, page),
                   "payload_extents: page is " + std::to_string(page) + ", expected less than 3");
  expect_refusal(payload_extents({}, 0), "payload_extents: planes are 0");
  layer_.value = layer_.key;
  layer_.value.page_stride_bytes = 64;  // pages share bytes
  EXPECT_FALSE(payload_extents({&layer_, 1}, 0));
  EXPECT_FALSE(planes_in(slab_, {&layer_, 1}));
}

}  // namespace
}  // namespace folio::test
