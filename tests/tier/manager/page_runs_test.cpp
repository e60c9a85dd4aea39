// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/page_runs_test.cpp: planes whose pages share bytes are found, and no others.
#include "tier/manager/page_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

#include "support/random.h"

namespace folio::test {
namespace {

/// Rows of one head of 4 bytes.
PagedKVView view_at(std::byte* data, int32_t page_size, int64_t num_pages, int64_t page_stride) {
  return {.data = data,
          .dtype = DType::i8,
          .num_heads = 1,
          .head_size = 4,
          .page_size = page_size,
          .num_pages = num_pages,
          .page_stride_bytes = page_stride,
          .slot_stride_bytes = 4,
          .head_stride_bytes = 4};
}

/// K and V, or both as one where they lie among one another in page 0.
std::vector<KVPlanes> parts_of(const KVPlanes& layer) {
  if (layer.value.data == nullptr) return {layer};
  const auto *const key = static_cast<const std::byte*>(layer.key.data),
                    *const value = static_cast<const std::byte*>(layer.value.data);
  if (std::abs(key - value) < 4 * layer.key.page_size) return {layer};
  return {{.key = layer.key, .value = {}}, {.key = layer.value, .value = {}}};
}

/// Whether a byte belongs to two pages, or to two parts of one.
bool share(std::span<const KVPlanes> planes, uint32_t num_pages, std::span<std::byte> memory) {
  std::vector<int> owners(memory.size());
  for (const KVPlanes& layer : planes)
    for (const KVPlanes& part : parts_of(layer))
      for (uint32_t page = 0; page < num_pages; ++page) {
        const std::vector<Extent> extents = page_extents({&part, 1}, page).value();
        for (const Extent& e : extents)
          for (std::byte* at = e.data; at < e.data + e.bytes; ++at)
            ++owners[static_cast<size_t>(at - memory.data())];
      }
  return std::ranges::max(owners) > 1;
}

TEST(PageRuns, share_no_byte_wherever_they_lie) {
  Rng rng(test_seed());
  std::vector<std::byte> memory(1 << 14);
  std::byte* const middle = memory.data() + memory.size() / 2;
  std::map<bool, int> seen;
  for (int round = 0; round < 3000; ++round) {
    const auto pages = static_cast<uint32_t>(rng.int_between(1, 6));
    const int64_t page_bytes = 4 * rng.int_between(1, 3), steps = rng.int_between(1, 8);
    const bool strides_differ = rng.int_between(0, 3) == 0, is_ragged = rng.int_between(0, 3) == 0;
    const int64_t sign = rng.int_between(0, 1) == 0 ? 1 : -1;
    std::vector<KVPlanes> planes;
    for (int layer = rng.int_between(1, 4); layer > 0; --layer) {
      const auto place = [&] {
        const int64_t stride = sign * page_bytes * (strides_differ ? rng.int_between(1, 8) : steps);
        const int64_t offset = is_ragged ? rng.int_between(-40, 40) : 0;
        return view_at(middle + rng.int_between(-9, 9) * page_bytes + offset,
                       static_cast<int32_t>(page_bytes / 4), pages, stride);
      };
      planes.push_back({.key = place(), .value = {}});
      if (rng.int_between(0, 1) == 0) continue;
      planes.back().value = place();  // elsewhere, or within the keys
    }
    const Result<tier::PageRuns> runs = tier::PageRuns::create("test", planes, pages);
    if (!runs && runs.error().message().find("differ in their runs") != std::string_view::npos)
      continue;
    const bool shares = share(planes, pages, memory);
    ++seen[shares];
    EXPECT_EQ(!runs, shares) << "round " << round;
    if (runs) continue;
    EXPECT_NE(runs.error().message().find("share bytes"), std::string_view::npos);
  }
  EXPECT_GT(std::min(seen[true], seen[false]), 200);
}

/// Of one layer, in the order in which tiers keep its page 1.
std::vector<std::byte*> places(const KVPlanes& layer, uint32_t num_pages) {
  const tier::PageRuns runs = tier::PageRuns::create("test", {&layer, 1}, num_pages).value();
  std::vector<std::byte*> all;
  for (const Extent& run : runs.of(1))
    for (int64_t i = 0; i < run.bytes; ++i) all.push_back(run.data + i);
  return all;
}

ScaleView scales_at(std::byte* data) {
  return {.data = data,
          .dtype = DType::f32,
          .granularity = 4,
          .page_stride_bytes = 8,
          .slot_stride_bytes = 4,
          .head_stride_bytes = 4,
          .granule_stride_bytes = 4};
}

TEST(PageRuns, have_k_before_v_before_scales_wherever_these_were_allocated) {
  alignas(4) std::byte memory[4][64];
  std::vector<int> order = {0, 1, 2, 3};
  do {
    std::byte* const at[] = {memory[order[0]], memory[order[1]], memory[order[2]],
                             memory[order[3]]};
    KVPlanes layer{.key = view_at(at[0], 2, 4, 8), .value = view_at(at[1], 2, 4, 8)};
    layer.key.scales = scales_at(at[2]);
    layer.value.scales = scales_at(at[3]);
    std::vector<std::byte*> expected;
    for (std::byte* const part : at)
      for (int i = 0; i < 8; ++i) expected.push_back(part + 8 + i);
    EXPECT_EQ(places(layer, 4), expected);
  } while (std::ranges::next_permutation(order).found);
}

/// Rows of one head of 8 elements of u4, with a scale of f16 for 4 and zero points elsewhere.
PagedKVView packed_at(std::byte* values, std::byte* scales, const std::byte* zeros) {
  PagedKVView view = view_at(values, 2, 4, 8);
  view.dtype = DType::u4;
  view.head_size = 8;
  view.scales = {.data = scales,
                 .dtype = DType::f16,
                 .granularity = 4,
                 .page_stride_bytes = 8,
                 .slot_stride_bytes = 4,
                 .head_stride_bytes = 4,
                 .granule_stride_bytes = 2,
                 .zeros = Zeros::minimum,
                 .zero_offset_bytes = zeros - scales};
  return view;
}

TEST(PageRuns, have_zero_points_behind_scales_wherever_these_were_allocated) {
  alignas(4) std::byte memory[6][64];
  std::vector<int> order = {0, 1, 2, 3, 4, 5};
  do {
    std::byte* at[6];
    for (size_t i = 0; i < 6; ++i) at[i] = memory[order[i]];
    const KVPlanes layer{.key = packed_at(at[0], at[2], at[4]),
                         .value = packed_at(at[1], at[3], at[5])};
    std::vector<std::byte*> expected;  // K, V, the scales of K, of V, the zero points of K, of V
    for (std::byte* const part : at)
      for (int i = 0; i < 8; ++i) expected.push_back(part + 8 + i);
    EXPECT_EQ(places(layer, 4), expected);
  } while (std::ranges::next_permutation(order).found);
}

TEST(PageRuns, have_pairs_of_scales_and_zero_points_as_one) {
  alignas(4) std::byte memory[2][128];
  for (const Zeros zeros : {Zeros::patterns, Zeros::minimum}) {
    KVPlanes layer{.key = packed_at(memory[1], memory[0], memory[0] + 2), .value = {}};
    ScaleView& s = layer.key.scales;
    s.zeros = zeros;
    s.granule_stride_bytes = 4;
    s.head_stride_bytes = s.slot_stride_bytes = 8;
    s.page_stride_bytes = 16;
    const std::vector<Extent> runs = tier::PageRuns::create("test", {&layer, 1}, 4).value().of(3);
    EXPECT_EQ(runs, (std::vector<Extent>{{memory[1] + 24, 8}, {memory[0] + 48, 16}}));
    layer.key.num_pages = layer.key.page_size =
        1;  // each byte still, where pairs have no neighbours
    layer.key.head_size = 4;
    const std::vector<Extent> row = tier::PageRuns::create("test", {&layer, 1}, 1).value().of(0);
    EXPECT_EQ(row, (std::vector<Extent>{{memory[1], 2}, {memory[0], 4}}));
  }
}

TEST(PageRuns, of_packed_rows_are_at_odd_places) {
  alignas(4) std::byte memory[256];
  KVPlanes layer{.key = packed_at(memory + 1, memory + 3, memory + 2), .value = {}};
  PagedKVView& key = layer.key;
  key.head_size = 2;  // a byte of elements, a pattern in front of its e8m0: slots of three bytes
  key.scales.dtype = DType::f8_e8m0;
  key.scales.zeros = Zeros::patterns;
  key.slot_stride_bytes = key.scales.slot_stride_bytes = 3;
  key.page_stride_bytes = key.scales.page_stride_bytes = 7;
  const tier::PageRuns runs = tier::PageRuns::create("test", {&layer, 1}, 4).value();
  EXPECT_EQ(runs.page_bytes(), 6);
  EXPECT_EQ(runs.of(2), (std::vector<Extent>{{memory + 1 + 14, 6}}));
}

TEST(PageRuns, have_what_lies_side_by_side_in_its_order) {
  std::byte memory[64];
  for (const int first : {0, 1}) {  // K and V of a slot are neighbours, in one order or the other
    KVPlanes layer{.key = view_at(memory + 4 * first, 2, 4, 16),
                   .value = view_at(memory + 4 * (1 - first), 2, 4, 16)};
    layer.key.slot_stride_bytes = layer.value.slot_stride_bytes = 8;
    const std::vector<std::byte*> of_page = places(layer, 4);
    ASSERT_EQ(of_page.size(), 16U);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(of_page[static_cast<size_t>(i)], memory + 16 + i);
    EXPECT_EQ(tier::PageRuns::create("test", {&layer, 1}, 4).value().of(1).size(), 1U);
  }
}

TEST(PageRuns, of_a_pool_of_one_page_have_k_first_though_v_lies_right_before) {
  std::byte memory[16];
  const KVPlanes layer{.key = view_at(memory + 8, 2, 1, 8), .value = view_at(memory, 2, 1, 8)};
  const auto runs = tier::PageRuns::create("test", {&layer, 1}, 1).value().of(0);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].data, memory + 8);
}

TEST(PageRuns, of_many_pages_are_not_looked_at_page_by_page) {
  constexpr int64_t pages = 1LL << 31, layers = 50, page_bytes = 64;
  std::vector<KVPlanes> planes;  // their memory is never touched
  for (int64_t layer = 0; layer < layers; ++layer)
    planes.push_back({.key = view_at(reinterpret_cast<std::byte*>((1LL << 40) + layer * page_bytes),
                                     16, pages, layers * page_bytes),
                      .value = {}});
  EXPECT_TRUE(tier::PageRuns::create("test", planes, pages - 1));
}

}  // namespace
}  // namespace folio::test
