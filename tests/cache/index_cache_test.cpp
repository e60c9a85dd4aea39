// SPDX-License-Identifier: Apache-2.0
/// tests/cache/index_cache_test.cpp: an index cache is one more plane of the same pages: its
/// geometry, its keys as an indexer reads them, its bytes of a page, and copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "folio/attention/rotate.h"
#include "folio/cache/copy.h"
#include "folio/cache/page_extents.h"
#include "folio/core/element.h"
#include "support/indexed_layers.h"
#include "support/random.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using Main = IndexedLayers::Main;

constexpr int32_t page_size = 4;
constexpr int64_t num_pages = 6;
constexpr Main mains[] = {Main::kv, Main::latent};

/// vLLM's cache of DeepSeek V3.2's indexer: bytes [pages, page_size, 132], of a page first all
/// values, then all scales.
PagedKVView vllm_view(std::byte* block, int64_t pages, int32_t slots) {
  PagedKVView view{.data = block,
                   .dtype = DType::f8_e4m3,
                   .num_heads = 1,
                   .head_size = 128,
                   .page_size = slots,
                   .num_pages = pages,
                   .page_stride_bytes = int64_t{slots} * 132,
                   .slot_stride_bytes = 128,
                   .head_stride_bytes = 128};
  view.scales = {.data = block + int64_t{slots} * 128,
                 .dtype = DType::f32,
                 .granularity = 128,
                 .page_stride_bytes = int64_t{slots} * 132,
                 .slot_stride_bytes = 4,
                 .head_stride_bytes = 4,
                 .granule_stride_bytes = 4};
  return view;
}

TEST(IndexCache, takes_132_bytes_a_token_in_fp8_and_256_in_bf16) {
  const auto bytes_of = [](const IndexFormat& format) {
    const KVShape shape = index_shape(format, 64);
    return page_bytes(shape).value() + scale_page_bytes(shape).value();
  };
  EXPECT_EQ(bytes_of(index_formats[0]), 64 * 256);
  EXPECT_EQ(bytes_of(index_formats[1]), 64 * 132);
  EXPECT_EQ(bytes_of(index_formats[2]), 64 * 132);
  EXPECT_EQ(bytes_of(index_formats[3]), 64 * (128 + 16));
}

TEST(IndexCache, of_vLLMs_layout_is_made_by_make_planes_and_by_strides_alike) {
  for (const int32_t size : {1, 4, 64}) {
    OwnPlanes planes(index_shape(index_formats[1], size), num_pages);
    PagedKVView expected = vllm_view(planes.bytes().data(), num_pages, size);
    const PagedKVView& made = planes.planes()[0].key;
    EXPECT_EQ(made.scales, expected.scales) << size;
    EXPECT_EQ(made, expected) << size;
    EXPECT_EQ(planes.planes()[0].value.data, nullptr);
    EXPECT_EQ(std::ssize(planes.bytes()), num_pages * size * 132);
  }
}

/// What vLLM's kernel would have written for a key: fp8 of x / scale, and the scale, amax / 448.
void write_as_vllm(std::span<std::byte> cache, int64_t slot, std::span<const float> x) {
  std::byte* const page = cache.data() + slot / page_size * page_size * 132;
  float amax = 0.0f;
  for (const float value : x) amax = std::max(amax, std::fabs(value));
  // rounded up, as append says
  auto scale = static_cast<float>(static_cast<double>(amax) / 448.0);
  if (static_cast<double>(scale) < static_cast<double>(amax) / 448.0)
    scale = std::nextafter(scale, 1e30f);
  for (size_t d = 0; d < x.size(); ++d) {
    const auto stored = from_float<f8_e4m3>(x[d] / scale);
    std::memcpy(page + slot % page_size * 128 + static_cast<int64_t>(d), &stored, 1);
  }
  std::memcpy(page + page_size * 128 + slot % page_size * 4, &scale, 4);
}

TEST(IndexCache, append_writes_normalised_rotated_keys_where_vLLM_reads_them) {
  Rng rng(test_seed());
  const IndexTransform transform;
  for (const bool interleaved : {false, true}) {
    constexpr int32_t tokens = 13, context = 17;
    std::vector<float> k(tokens * 128), rotated(k.size());
    for (float& x : k) x = rng.uniform(-1.0f, 3.0f);
    // the last 13 of 17 tokens, over the pages of a table in any order
    const uint32_t entries[] = {5, 0, 3, 1, 4};
    const int32_t offsets[] = {0, tokens}, contexts[] = {context};
    const Batch batch{1, offsets, contexts, {entries, 5, nullptr}};
    const Rope rope = transform.rope(interleaved);
    OwnPlanes planes(index_shape(index_formats[1], page_size), num_pages);
    std::vector<std::byte> expected(planes.bytes().begin(), planes.bytes().end());
    const AppendArgs args{.k = dense_tensor<3>(k.data(), DType::f32, {tokens, 1, 128}),
                          .key = planes.planes()[0].key,
                          .rope = &rope,
                          .k_norm = transform.weights.data(),
                          .k_norm_shift = transform.shifts.data()};
    const Status status = append(batch, args, default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();

    const RotateArgs same{.q = args.k,
                          .out = dense_tensor<3>(rotated.data(), DType::f32, {tokens, 1, 128}),
                          .rope = &rope,
                          .q_norm = args.k_norm,
                          .q_norm_shift = args.k_norm_shift};
    ASSERT_TRUE(rotate(batch, same, serial_executor()).is_ok());
    for (int32_t t = 0; t < tokens; ++t) {
      const int32_t index = context - tokens + t;
      const int64_t slot = int64_t{entries[index / page_size]} * page_size + index % page_size;
      write_as_vllm(expected, slot, std::span(rotated).subspan(static_cast<size_t>(t) * 128, 128));
    }
    EXPECT_TRUE(std::ranges::equal(planes.bytes(), expected)) << interleaved;
  }
}

/// Addresses of all bytes that the slots of a page have, found one by one.
std::set<const std::byte*> addresses_of(std::span<const KVPlanes> planes, int64_t page) {
  std::set<const std::byte*> all;
  const auto add = [&all](const std::byte* first, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i) all.insert(first + i);
  };
  for (const KVPlanes& layer : planes) {
    for (const PagedKVView* view : {&layer.key, &layer.value}) {
      if (view->data == nullptr) continue;
      for (int64_t slot = 0; slot < view->page_size; ++slot) {
        for (int64_t head = 0; head < view->num_heads; ++head) {
          add(folio::detail::row_of(*view, page, slot, head),
              row_bytes(view->dtype, view->head_size));
          const ScaleView& s = view->scales;
          for (int64_t d = 0; s.data != nullptr && d < view->head_size; d += s.granularity)
            add(static_cast<const std::byte*>(s.data) +
                    folio::detail::scale_offset_bytes(s, page, slot, head, d / s.granularity),
                4);
        }
      }
    }
  }
  return all;
}

TEST(IndexCache, is_part_of_the_bytes_of_a_page) {
  for (const Main main : mains) {
    for (const IndexFormat& format : index_formats) {
      const IndexedLayers layers(main, format, page_size, num_pages);
      for (uint32_t page = 0; page < num_pages; ++page) {
        const auto extents = page_extents(layers.planes(), page);
        ASSERT_TRUE(extents) << extents.error().message();
        std::set<const std::byte*> named;
        for (const Extent& e : *extents)
          for (int64_t i = 0; i < e.bytes; ++i) ASSERT_TRUE(named.insert(e.data + i).second);
        EXPECT_EQ(named, addresses_of(layers.planes(), page)) << format.name << ", page " << page;
      }
    }
  }
}

TEST(IndexCache, whose_scales_lie_behind_the_values_is_one_run_of_a_page) {
  OwnPlanes planes(index_shape(index_formats[1], 64), num_pages);
  const std::vector<Extent> extents = page_extents(planes.planes(), 2).value();
  ASSERT_EQ(extents.size(), 1U);
  EXPECT_EQ(extents[0], (Extent{planes.bytes().data() + 2 * 64 * 132, 64 * 132}));
}

/// Slots as byte strings: what copies have to make of them.
using Slots = std::vector<std::vector<std::byte>>;

Slots slots_of(const IndexedLayers& layers) {
  Slots all;
  for (int64_t slot = 0; slot < num_pages * page_size; ++slot) all.push_back(layers.bytes_of(slot));
  return all;
}

TEST(IndexCache, goes_along_when_pages_and_slots_are_copied) {
  Rng rng(test_seed());
  for (const Main main : mains) {
    for (const IndexFormat& format : index_formats) {
      SCOPED_TRACE(format.name);
      IndexedLayers layers(main, format, page_size, num_pages);
      for (int32_t slot = 0; slot < num_pages * page_size; ++slot)
        layers.write(rng.int_between(0, 99), slot, slot);
      Slots expected = slots_of(layers);
      for (int round = 0; round < 6; ++round) {
        std::vector<PageCopy> pages;
        std::vector<SlotCopy> slots;
        const auto last = static_cast<int32_t>(num_pages) - 1;
        for (int i = 0; i < 3; ++i) {
          pages.push_back({static_cast<uint32_t>(rng.int_between(0, last)),
                           static_cast<uint32_t>(rng.int_between(0, last)),
                           rng.int_between(0, page_size)});
          slots.push_back({rng.between(0, num_pages * page_size - 1),
                           rng.between(0, num_pages * page_size - 1)});
        }
        ASSERT_EQ(
            copy_pages(layers.planes(), layers.planes(), pages, default_executor(2)).message(), "");
        ASSERT_EQ(
            copy_slots(layers.planes(), layers.planes(), slots, default_executor(2)).message(), "");
        for (const PageCopy& copy : pages)
          for (int64_t t = 0; t < copy.tokens; ++t)
            expected[static_cast<size_t>(copy.to * page_size + t)] =
                expected[static_cast<size_t>(copy.from * page_size + t)];
        for (const SlotCopy& copy : slots)
          expected[static_cast<size_t>(copy.to)] = expected[static_cast<size_t>(copy.from)];
        ASSERT_EQ(slots_of(layers), expected) << round;
      }
    }
  }
}

TEST(IndexCache, is_converted_where_another_pool_keeps_it_in_another_type) {
  IndexedLayers from(Main::latent, index_formats[0], page_size, num_pages);
  for (int32_t slot = 0; slot < num_pages * page_size; ++slot) from.write(slot, slot, slot);
  for (const IndexFormat& format : index_formats) {
    IndexedLayers to(Main::latent, format, page_size, num_pages);
    const PageCopy copies[] = {{2, 5, page_size}};
    ASSERT_EQ(copy_pages(from.planes(), to.planes(), copies, serial_executor()).message(), "");
    for (const size_t i : {size_t{1}, size_t{3}}) {
      const PagedKVView &there = from.planes()[i].key, &here = to.planes()[i].key;
      for (int64_t slot = 0; slot < page_size; ++slot) {
        for (int32_t d = 0; d < index_head_size; ++d) {
          bf16 expected;
          std::memcpy(&expected, folio::detail::row_of(there, 2, slot, 0) + 2 * d, 2);
          const float x = to_float(expected);
          float got = 0.0f;
          if (format.dtype == DType::bf16) {
            std::memcpy(&expected, folio::detail::row_of(here, 5, slot, 0) + 2 * d, 2);
            got = to_float(expected);
          } else {
            f8_e4m3 stored;
            std::memcpy(&stored, folio::detail::row_of(here, 5, slot, 0) + d, 1);
            got = to_float(stored) * folio::detail::scale_at(here.scales, 5, slot, 0, d);
          }
          // half a step of three bits, and of subnormal numbers of amax / 448
          const float amax = 8.0f;
          ASSERT_NEAR(got, x, std::fabs(x) / 16.0f + amax / 448.0f / 512.0f) << format.name;
        }
      }
    }
  }
}

TEST(IndexCache, of_another_geometry_is_refused_by_name) {
  const IndexedLayers from(Main::kv, index_formats[1], page_size, num_pages);
  std::vector<KVPlanes> to(from.planes().begin(), from.planes().end());
  const PageCopy copies[] = {{0, 1, page_size}};
  to[3].key.head_size = 64;
  const Status status = copy_pages(from.planes(), to, copies, serial_executor());
  EXPECT_EQ(status.code(), Errc::invalid_argument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("to[3].key.head_size is 64, expected 128"));
  // and a side without it
  to.pop_back();
  EXPECT_THAT(std::string(copy_pages(from.planes(), to, copies, serial_executor()).message()),
              HasSubstr("to has 3 layers, expected 4"));
  // its pages are as many as those of K and V
  to.assign(from.planes().begin(), from.planes().end());
  to[1].key.num_pages = 3;
  EXPECT_THAT(std::string(page_extents(to, 3).error().message()),
              HasSubstr("page is 3, expected less than 3"));
}

}  // namespace
}  // namespace folio::test
