// SPDX-License-Identifier: Apache-2.0
/// tests/cache/cache_errors_test.cpp: mistakes in calls of the copies, of make_planes, page_extents
/// and the page table builder.
#include <gtest/gtest.h>

#include <vector>

#include "folio/cache/copy.h"
#include "folio/cache/page_extents.h"
#include "folio/cache/page_table_builder.h"
#include "folio/cache/planes.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

struct CopyCall {
  TestPlane source{scaled_spec()}, target{scaled_spec()};
  std::vector<KVPlanes> from{{source.view, source.view}}, to{{target.view, target.view}};
  std::vector<PageCopy> copies{{0, 1, 4}, {2, 3, 2}};
  Executor executor = serial_executor();

  float tensor_scale = 1.0f;

  CopyCall() { source.set_bytes(std::vector<std::byte>(source.bytes().size(), std::byte{7})); }
  Status run() { return copy_pages(from, to, copies, executor); }
  [[nodiscard]] std::vector<std::byte> written() const { return target.bytes(); }
};

struct CopySlotsCall : CopyCall {
  std::vector<SlotCopy> copies{{0, 7}, {19, 2}};

  Status run() { return copy_slots(from, to, copies, executor); }
};

struct PlanesCall {
  KVShape shape;
  int64_t num_pages = 2;
  GuardedMemory blocks{2 * 2 * 16 * 128, 4}, scales{2 * 2 * 16 * 4, 4};
  MemorySpan blocks_span = blocks.span(), scales_span = scales.span();

  PlanesCall() {
    shape.dtype = DType::i8;
    shape.scale_dtype = DType::f32;
  }
  Status run() {
    const auto planes = make_planes(shape, num_pages, blocks_span, scales_span);
    return planes.error();
  }
  [[nodiscard]] std::vector<std::byte> written() const { return {}; }
};

struct ExtentsCall {
  TestPlane plane{scaled_spec()};
  std::vector<KVPlanes> planes{{plane.view, {}}};
  uint32_t page = 4;

  Status run() {
    const auto extents = page_extents(planes, page);
    return extents.error();
  }
  [[nodiscard]] std::vector<std::byte> written() const { return plane.bytes(); }
};

struct TableCall {
  int64_t rows = 2, columns = 3, num_pages = 9;
  GuardedMemory memory{2 * 24 * 4, 32};
  MemorySpan span = memory.span();

  Status run() {
    const auto builder = PageTableBuilder::make(rows, columns, num_pages, span);
    return builder.error();
  }
  [[nodiscard]] std::vector<std::byte> written() const {
    return {memory.data(), memory.data() + memory.bytes()};
  }
};

TEST(CacheErrors, copy_pages_refuses_planes_that_differ_and_pages_that_are_not_there) {
  using C = CopyCall;
  expect_refused<C>(
      "copy_pages",
      {{"executor", [](C& c) { c.executor = {}; }, {"executor"}},
       {"layers", [](C& c) { c.to.clear(); }, {"to has 0 layers", "1"}},
       {"heads", [](C& c) { c.to[0].value.num_heads = 1; }, {"to[0].value.num_heads is 1", "2"}},
       {"head_size", [](C& c) { c.to[0].key.head_size = 8; }, {"to[0].key.head_size is 8", "16"}},
       {"page_size", [](C& c) { c.to[0].key.page_size = 2; }, {"to[0].key.page_size is 2", "4"}},
       {"value missing", [](C& c) { c.to[0].value.data = nullptr; }, {"to[0].value.data is null"}},
       {"key missing", [](C& c) { c.from[0].key.data = nullptr; }, {"from[0].key.data is null"}},
       {"dtype", [](C& c) { c.to[0].key.dtype = DType::f8_e8m0; }, {"to[0].key has dtype f8_e8m0"}},
       {"computed scales of bf16",
        [](C& c) { c.to[0].key.dtype = DType::bf16; },
        {"to[0].key has dtype bf16", "computed scales"}},
       {"granularity",
        [](C& c) { c.from[0].value.scales.granularity = 0; },
        {"from[0].value.scales.granularity is 0"}},
       {"tensor_scale",
        [](C& c) {
          c.tensor_scale = -1.0f;
          c.from[0].value.scales.tensor_scale = &c.tensor_scale;
        },
        {"from[0].value.scales.tensor_scale is -1", "positive"}},
       {"scales shared by pages",
        [](C& c) { c.to[0].key.scales.page_stride_bytes = 0; },
        {"to[0].key.scales.page_stride_bytes is 0"}},
       {"slots on one place, converted",
        [](C& c) {
          c.to[0].key.dtype = DType::i8;
          c.to[0].key.slot_stride_bytes = 0;
        },
        {"to[0].key.slot_stride_bytes is 0"}},
       {"slots on one place, moved",
        [](C& c) { c.to[0].key.slot_stride_bytes = 0; },
        {"to[0].key.slot_stride_bytes is 0 over 4 elements", "a place for each"}},
       {"heads on one place, moved",
        [](C& c) { c.to[0].value.head_stride_bytes = 0; },
        {"to[0].value.head_stride_bytes is 0 over 2 elements"}},
       {"pages on one place, within one plane",
        [](C& c) {
          c.to[0].key.page_stride_bytes = 0;
          c.from = c.to;
        },
        {"to[0].key.page_stride_bytes is 0 over 5 elements"}},
       {"unbounded",
        [](C& c) {
          for (PagedKVView* view : {&c.from[0].key, &c.to[0].key}) {
            view->page_size = unbounded_page_size;
            view->page_stride_bytes = view->slot_stride_bytes;
          }
        },
        {"from[0].key has unbounded pages", "a fixed size"}},
       {"unbounded, not one run",
        [](C& c) { c.from[0].key.page_size = unbounded_page_size; },
        {"from[0].key.page_stride_bytes is 128, expected 32", "row numbers"}},
       {"from page", [](C& c) { c.copies[1].from = 5; }, {"copies[1].from is 5", "less than 5"}},
       {"to page",
        [](C& c) { c.copies[1].to = 0xffffffff; },
        {"copies[1].to is 4294967295", "less than 5"}},
       {"tokens", [](C& c) { c.copies[0].tokens = 5; }, {"copies[0].tokens is 5", "0 to 4"}},
       {"tokens", [](C& c) { c.copies[0].tokens = -1; }, {"copies[0].tokens is -1"}},
       {"head too large to convert",
        [](C& c) {
          c.to[0].key.dtype = DType::i8;
          c.from[0].key.head_size = c.to[0].key.head_size = 4104;
        },
        {"key.head_size is 4104", "at most 4096"},
        Errc::unsupported}});
}

/// Layers whose planes have different numbers of pages, the smallest neither first nor last.
template <class C>
void with_layers(C& c) {
  c.from.assign(2, c.from[0]);
  c.to.assign(2, c.to[0]);
}

TEST(CacheErrors, the_plane_with_the_fewest_pages_bounds_the_copies) {
  expect_refused<CopyCall>("copy_pages", {{"to page",
                                           [](CopyCall& c) {
                                             with_layers(c);
                                             c.to[0].value.num_pages = 3;
                                           },
                                           {"copies[1].to is 3", "less than 3"}},
                                          {"to page",
                                           [](CopyCall& c) { c.to[0].key.num_pages = 3; },
                                           {"copies[1].to is 3", "less than 3"}},
                                          {"from page",
                                           [](CopyCall& c) {
                                             with_layers(c);
                                             c.from[1].key.num_pages = 2;
                                           },
                                           {"copies[1].from is 2", "less than 2"}}});
  expect_refused<CopySlotsCall>("copy_slots", {{"to slot",
                                                [](CopySlotsCall& c) {
                                                  with_layers(c);
                                                  c.to[0].value.num_pages = 1;
                                                },
                                                {"copies[0].to is 7", "less than 4"}},
                                               {"from slot",
                                                [](CopySlotsCall& c) {
                                                  with_layers(c);
                                                  c.from[1].key.num_pages = 4;
                                                },
                                                {"copies[1].from is 19", "less than 16"}}});
}

TEST(CacheErrors, copy_slots_refuses_planes_that_differ_and_slots_that_are_not_there) {
  using C = CopySlotsCall;
  expect_refused<C>(
      "copy_slots",
      {{"executor", [](C& c) { c.executor.concurrency = nullptr; }, {"executor", "concurrency"}},
       {"layers", [](C& c) { c.from.clear(); }, {"to has 1 layers", "0"}},
       {"heads", [](C& c) { c.to[0].key.num_heads = 1; }, {"to[0].key.num_heads is 1", "2"}},
       {"head_size",
        [](C& c) { c.to[0].value.head_size = 8; },
        {"to[0].value.head_size is 8", "16"}},
       {"value missing",
        [](C& c) { c.from[0].value.data = nullptr; },
        {"from[0].value.data is null"}},
       {"page sizes of one side",
        [](C& c) { c.to[0].value.page_size = 2; },
        {"to[0].value.page_size is 2", "4"}},
       {"computed scales of f16",
        [](C& c) { c.to[0].value.dtype = DType::f16; },
        {"to[0].value has dtype f16", "computed"}},
       {"slots on one place, moved",
        [](C& c) { c.to[0].key.slot_stride_bytes = 0; },
        {"to[0].key.slot_stride_bytes is 0 over 4 elements", "a place for each"}},
       {"heads on one place, moved",
        [](C& c) { c.to[0].value.head_stride_bytes = 0; },
        {"to[0].value.head_stride_bytes is 0 over 2 elements"}},
       {"pages on one place, within one plane",
        [](C& c) {
          c.to[0].key.page_stride_bytes = 0;
          c.from = c.to;
        },
        {"to[0].key.page_stride_bytes is 0 over 5 elements"}},
       {"rows of unbounded pages that are not one run",
        [](C& c) { c.to[0].key.page_size = unbounded_page_size; },
        {"to[0].key.page_stride_bytes is 128, expected 32", "unbounded"}},
       {"from", [](C& c) { c.copies[1].from = 20; }, {"copies[1].from is 20", "less than 20"}},
       {"from", [](C& c) { c.copies[1].from = -1; }, {"copies[1].from is -1"}},
       {"to",
        [](C& c) { c.copies[0].to = int64_t{1} << 40; },
        {"copies[0].to is 1099511627776", "less than 20"}},
       {"to", [](C& c) { c.copies[0].to = -5; }, {"copies[0].to is -5"}}});
}

TEST(CacheErrors, make_planes_refuses_impossible_shapes_and_memory) {
  using C = PlanesCall;
  expect_refused<C>(
      "make_planes",
      {{"num_layers",
        [](C& c) { c.shape.num_layers = 0; },
        {"shape.num_layers is 0", "at least 1"}},
       {"num_heads", [](C& c) { c.shape.num_heads = -1; }, {"shape.num_heads is -1"}},
       {"head_size", [](C& c) { c.shape.head_size = 0; }, {"shape.head_size is 0"}},
       {"page_size", [](C& c) { c.shape.page_size = 0; }, {"shape.page_size is 0"}},
       {"dtype", [](C& c) { c.shape.dtype = DType::f8_e8m0; }, {"shape.dtype is f8_e8m0"}},
       {"scale_dtype", [](C& c) { c.shape.scale_dtype = DType::i8; }, {"shape.scale_dtype is i8"}},
       {"granularity",
        [](C& c) { c.shape.quantization_granularity = -1; },
        {"shape.quantization_granularity is -1"}},
       {"num_pages", [](C& c) { c.num_pages = -1; }, {"num_pages is -1"}},
       {"num_pages",
        [](C& c) { c.num_pages = int64_t{1} << 32; },
        {"num_pages is 4294967296", "uint32"}},
       {"page stride shorter than a page",
        [](C& c) { c.shape.page_stride_bytes = 4095; },
        {"shape.page_stride_bytes is 4095", "a page's 4096 bytes"}},
       {"page stride", [](C& c) { c.shape.page_stride_bytes = -1; }, {"page_stride_bytes is -1"}},
       {"page stride misaligned",
        [](C& c) {
          c.shape.dtype = DType::f16;
          c.shape.page_stride_bytes = 8193;
        },
        {"shape.page_stride_bytes is 8193", "a multiple of 2 bytes"}},
       {"page stride of unbounded pages",
        [](C& c) {
          c.shape.page_size = unbounded_page_size;
          c.shape.page_stride_bytes = 8192;
        },
        {"shape.page_stride_bytes is 8192", "0 (pages are unbounded)"}},
       {"page stride, blocks too small",
        [](C& c) { c.shape.page_stride_bytes = 4097; },
        {"blocks has 8192 bytes", "8193"}},
       {"page stride beyond 2^62 bits",
        [](C& c) { c.shape.page_stride_bytes = int64_t{1} << 59; },
        {"2 pages of 576460752303423488 bytes are more than 2^62 bits"}},
       {"scale page stride shorter than a page",
        [](C& c) { c.shape.scale_page_stride_bytes = 124; },
        {"shape.scale_page_stride_bytes is 124", "a page's 128 bytes"}},
       {"scale page stride misaligned",
        [](C& c) { c.shape.scale_page_stride_bytes = 130; },
        {"shape.scale_page_stride_bytes is 130", "a multiple of 4 bytes"}},
       {"scale page stride, scales too small",
        [](C& c) { c.shape.scale_page_stride_bytes = 132; },
        {"scales has 256 bytes", "260"}},
       {"scale page stride without scales",
        [](C& c) {
          c.shape.scale_dtype = DType::invalid;
          c.scales_span = {};
          c.shape.scale_page_stride_bytes = 128;
        },
        {"shape.scale_page_stride_bytes is 128", "0 (shape.scale_dtype is invalid)"}},
       {"blocks too small", [](C& c) { --c.blocks_span.bytes; }, {"blocks has 8191 bytes", "8192"}},
       {"scales too small",
        [](C& c) { c.scales_span.bytes -= 4; },
        {"scales has 252 bytes", "256"}},
       {"scales missing", [](C& c) { c.scales_span = {}; }, {"scales are null", "256 bytes"}},
       {"scales unasked for",
        [](C& c) { c.shape.scale_dtype = DType::invalid; },
        {"scales are given", "none"}},
       {"scales misaligned",
        [](C& c) { c.scales_span.data = static_cast<std::byte*>(c.scales_span.data) + 2; },
        {"scales is not aligned", "4 bytes"}},
       {"more than 2^62 bits",
        [](C& c) { c.shape.num_layers = c.shape.num_heads = c.shape.head_size = 1 << 30; },
        {"2^62 bits"},
        Errc::invalid_argument}});
}

TEST(CacheErrors, page_extents_and_tables_refuse_what_is_out_of_range) {
  expect_refused<ExtentsCall>(
      "page_extents",
      {{"page", [](ExtentsCall& c) { c.page = 5; }, {"page is 5", "less than 5"}},
       {"key.data", [](ExtentsCall& c) { c.planes[0].key.data = nullptr; }, {"key.data is null"}},
       {"value",
        [](ExtentsCall& c) { c.planes[0].value = c.plane.view, c.planes[0].value.num_pages = 4; },
        {"page is 4", "less than 4 (value"}}});
  using C = TableCall;
  expect_refused<C>(
      "PageTableBuilder",
      {{"rows", [](C& c) { c.rows = -1; }, {"rows is -1"}},
       {"columns", [](C& c) { c.columns = -1; }, {"columns is -1"}},
       {"columns", [](C& c) { c.columns = int64_t{1} << 61; }, {"2^62 bytes"}},
       {"num_pages", [](C& c) { c.num_pages = int64_t{1} << 32; }, {"num_pages is 4294967296"}},
       {"memory too small", [](C& c) { --c.span.bytes; }, {"memory has 191 bytes", "192"}},
       {"memory null", [](C& c) { c.span.data = nullptr; }, {"memory has 0 bytes", "192"}},
       {"memory misaligned",
        [](C& c) {
          c.rows = 1;
          c.span.data = static_cast<std::byte*>(c.span.data) + 16;
        },
        {"memory is not aligned", "32 bytes"}}});
}

}  // namespace
}  // namespace folio::test
