// SPDX-License-Identifier: Apache-2.0
/// tests/cache/page_walk_test.cpp: runs of rows in pages, as loaders see them.
#include "folio/cache/page_walk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/elements.h"
#include "support/guarded_memory.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

PagedKVView view_of_pages(int32_t page_size, int64_t num_pages) {
  PagedKVView view;
  view.data = reinterpret_cast<void*>(uintptr_t{1} << 20);  // never read
  view.dtype = DType::bf16;
  view.num_heads = 2;
  view.head_size = 8;
  view.page_size = page_size;
  view.num_pages = num_pages;
  view.head_stride_bytes = 16;
  view.slot_stride_bytes = 40;
  view.page_stride_bytes = 40ll * page_size + 8;
  return view;
}

TEST(PageWalk, every_token_of_every_run_is_where_the_definition_says) {
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    const PagedKVView view = view_of_pages(rng.int_between(1, 20), rng.between(1, 9));
    const int64_t tokens = rng.between(1, 60);
    const int64_t columns = (tokens + view.page_size - 1) / view.page_size;
    const GuardedMemory row(columns * 4, 4);  // one entry too many faults
    for (int64_t p = 0; p < columns; ++p) {
      const uint32_t unassigned[] = {static_cast<uint32_t>(view.num_pages), 0xffffffffu,
                                     0x80000000u};
      row.as<uint32_t>()[p] = rng.chance(0.3)
                                  ? rng.pick(unassigned)
                                  : static_cast<uint32_t>(rng.between(0, view.num_pages - 1));
    }
    const int64_t begin = rng.between(0, tokens - 1);
    int64_t token = begin;
    while (token < tokens) {
      const detail::PageRun run = detail::run_of(view, row.as<uint32_t>(), token, tokens);
      ASSERT_GE(run.rows, 1);
      ASSERT_LE(token + run.rows, tokens);
      EXPECT_EQ(token / view.page_size, (token + run.rows - 1) / view.page_size);
      for (int64_t i = 0; i < run.rows; ++i) {
        const int64_t page = row.as<uint32_t>()[(token + i) / view.page_size];
        const int64_t slot = (token + i) % view.page_size;
        if (page >= view.num_pages) {
          EXPECT_EQ(run.data, nullptr);
        } else {
          EXPECT_EQ(run.data + i * run.slot_stride_bytes, detail::row_of(view, page, slot, 0));
          EXPECT_EQ(run.page, page);
          EXPECT_EQ(run.slot + i, slot);
        }
      }
      token += run.rows;
    }
  }
}

TEST(PageWalk, only_the_entry_of_the_token_is_read) {
  const PagedKVView view = view_of_pages(4, 10);
  const GuardedMemory row(4, 4);
  *row.as<uint32_t>() = 3;
  // entries 0 .. 99 are inaccessible or garbage
  const uint32_t* behind_the_window = row.as<uint32_t>() - 100;
  const detail::PageRun run = detail::run_of(view, behind_the_window, 401, 404);
  EXPECT_EQ(run.data, detail::row_of(view, 3, 1, 0));
  EXPECT_EQ(run.rows, 3);
}

TEST(PageWalk, offsets_pass_two_to_the_thirty_two) {
  PagedKVView view = view_of_pages(16, 0xffffffff);
  view.page_stride_bytes = 1 << 20;
  const uint32_t row[] = {0xfffffffeu, 0x7fffffffu};
  EXPECT_EQ(detail::run_of(view, row, 0, 16).data - static_cast<std::byte*>(view.data),
            0xfffffffell << 20);
  EXPECT_EQ(detail::run_of(view, row, 17, 18).data - static_cast<std::byte*>(view.data),
            (0x7fffffffll << 20) + 40);
}

TEST(PageWalk, an_unbounded_page_ends_with_the_plane) {
  PagedKVView view = view_of_pages(unbounded_page_size, 10);
  view.page_stride_bytes = view.slot_stride_bytes;
  const uint32_t row[] = {7};
  const detail::PageRun inside = detail::run_of(view, row, 1, 9);
  EXPECT_EQ(inside.data, detail::row_of(view, 8, 0, 0));
  EXPECT_EQ(inside.rows, 2);
  const detail::PageRun outside = detail::run_of(view, row, 3, 9);
  EXPECT_EQ(outside.data, nullptr);
  EXPECT_EQ(outside.rows, 6);
  const uint32_t none[] = {10};
  EXPECT_EQ(detail::run_of(view, none, 0, 9).data, nullptr);
}

TEST(PageWalk, every_scale_of_every_type_is_widened_exactly) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3}) {
    const int64_t patterns = dtype == DType::f32 ? 1 << 16 : int64_t{1} << bit_width(dtype);
    for (int64_t i = 0; i < patterns; ++i) {
      const auto code = static_cast<uint32_t>(dtype == DType::f32 ? i * 65521 : i);
      std::byte stored[4];
      std::memcpy(stored, &code, 4);
      const double exact = reference::decode(dtype, code);
      const float scale = detail::load_scale(stored, dtype);
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(scale)) << name(dtype) << " " << code;
      } else {
        EXPECT_EQ(static_cast<double>(scale), exact) << name(dtype) << " " << code;
      }
    }
  }
}

TEST(PageWalk, scale_at_takes_the_granule_of_the_dimension_and_the_tensor_scale) {
  PlaneSpec spec;
  spec.dtype = DType::f8_e4m3;
  spec.head_size = 20;
  spec.gap = 1;
  spec.scales = {DType::f16, 8, true, true, true, true, false, 0.75f};
  const TestPlane plane(spec);
  for (int64_t page = 0; page < spec.num_pages; ++page) {
    for (int64_t slot = 0; slot < spec.page_size; ++slot) {
      for (int64_t head = 0; head < spec.num_heads; ++head) {
        for (int32_t d = 0; d < spec.head_size; ++d) {  // dims 16 .. 19 are the short last granule
          const double value = static_cast<double>(1 + d / 8 + 3 * (head + 2 * (slot + 4 * page)));
          reference::store(plane.scale(page, slot, head, d), DType::f16, value);
          EXPECT_EQ(detail::scale_at(plane.view.scales, page, slot, head, d),
                    static_cast<float>(value) * 0.75f);
        }
      }
    }
  }
  EXPECT_EQ(detail::scale_at(ScaleView{}, 1, 2, 3, 4), 1.0f) << "no scales";
}

TEST(PageWalk, strides_of_zero_broadcast_a_scale) {
  float scale = 3.0f;
  const ScaleView scales{&scale, DType::f32, 128, 0, 0, 0, 0, nullptr};
  EXPECT_EQ(detail::scale_at(scales, 1000, 15, 7, 300), 3.0f);
}

}  // namespace
}  // namespace folio::test
