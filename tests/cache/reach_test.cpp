// SPDX-License-Identifier: Apache-2.0
/// tests/cache/reach_test.cpp: strides whose products with indices no memory holds are refused, by
/// every function that takes a plane, a tensor, a table or a static cache's storage.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "cache/check_reach.h"
#include "folio/attention/append.h"
#include "folio/attention/merge.h"
#include "folio/attention/plan.h"
#include "folio/cache/check_static.h"
#include "folio/cache/copy.h"
#include "folio/cache/page_extents.h"
#include "folio/cache/planes.h"

namespace folio::test {
namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max();
constexpr int64_t least = std::numeric_limits<int64_t>::min();
constexpr int64_t memory = int64_t{1} << 56;

/// Five pages of nine slots of three heads of sixteen bytes, with four scales each.
PagedKVView view_at(void* data) {
  PagedKVView view{data, DType::i8, 3, 16, 9, 5, 432, 48, 16, {}};
  view.scales = {data, DType::f8_e8m0, 4, 108, 12, 4, 1, nullptr};
  return view;
}

struct Stride {
  const char* name;
  int64_t& (*of)(PagedKVView&);
  int64_t extent;
};

const Stride strides[] = {
    {"page_stride_bytes", [](PagedKVView& v) -> int64_t& { return v.page_stride_bytes; }, 5},
    {"slot_stride_bytes", [](PagedKVView& v) -> int64_t& { return v.slot_stride_bytes; }, 9},
    {"head_stride_bytes", [](PagedKVView& v) -> int64_t& { return v.head_stride_bytes; }, 3},
    {"scales.page_stride_bytes",
     [](PagedKVView& v) -> int64_t& { return v.scales.page_stride_bytes; }, 5},
    {"scales.slot_stride_bytes",
     [](PagedKVView& v) -> int64_t& { return v.scales.slot_stride_bytes; }, 9},
    {"scales.head_stride_bytes",
     [](PagedKVView& v) -> int64_t& { return v.scales.head_stride_bytes; }, 3},
    {"scales.granule_stride_bytes",
     [](PagedKVView& v) -> int64_t& { return v.scales.granule_stride_bytes; }, 4},
    {"scales.zero_offset_bytes",
     [](PagedKVView& v) -> int64_t& { return v.scales.zero_offset_bytes; }, 2},
};

void expect_refused(const Status& s, const std::string& words) {
  EXPECT_EQ(s.code(), Errc::invalid_argument) << words;
  EXPECT_NE(s.message().find(words), std::string_view::npos)
      << s.message() << "\nhas not: " << words;
}

TEST(Reach, each_stride_of_a_plane_has_a_largest_value) {
  for (const Stride& stride : strides) {
    const int64_t largest = memory / (stride.extent - 1);
    for (const int64_t value : {largest, -largest, int64_t{0}}) {
      PagedKVView view = view_at(nullptr);
      stride.of(view) = value;
      EXPECT_TRUE(check_reach("f", "key", view, 5).is_ok()) << stride.name << " " << value;
    }
    for (const int64_t value : {largest + 1, -largest - 1, most, least}) {
      PagedKVView view = view_at(nullptr);
      stride.of(view) = value;
      expect_refused(check_reach("f", "key", view, 5), std::string("f: key.") + stride.name);
    }
  }
}

TEST(Reach, rows_of_unbounded_pages_are_as_many_as_the_plane_has) {
  PagedKVView view = view_at(nullptr);
  view.page_size = unbounded_page_size;
  view.slot_stride_bytes = view.page_stride_bytes = memory / 4;
  EXPECT_TRUE(check_reach("f", "key", view, 5).is_ok());
  expect_refused(check_reach("f", "key", view, 6), "page_stride_bytes");
}

TEST(Reach, a_row_has_a_largest_number_of_elements) {
  PagedKVView view = view_at(nullptr);
  view.head_stride_bytes = 0;
  view.scales = {};
  view.num_heads = 1 << 30;
  view.head_size = 1 << 24;
  EXPECT_TRUE(check_reach("f", "key", view, 5).is_ok());
  ++view.head_size;
  expect_refused(check_reach("f", "key", view, 5), "head_size 16777217");
}

TEST(Reach, tensors_have_largest_strides_and_shapes) {
  AnyTensor<3> tensor{nullptr, DType::f32, {3, 5, 8}, {160, 32, 4}};
  EXPECT_TRUE(check_reach("f", "q", tensor).is_ok());
  tensor.stride_bytes[0] = -memory / 2;
  EXPECT_TRUE(check_reach("f", "q", tensor).is_ok());
  tensor.stride_bytes[0] = memory / 2 + 4;
  expect_refused(check_reach("f", "q", tensor), "q.stride_bytes[0]");
  tensor.stride_bytes[0] = 0;
  tensor.stride_bytes[1] = least;
  expect_refused(check_reach("f", "q", tensor), "q.stride_bytes[1]");
  tensor.stride_bytes[1] = 0;
  tensor.extent[1] = 1;
  tensor.extent[0] = int64_t{1} << 51;
  EXPECT_TRUE(check_reach("f", "q", tensor).is_ok());
  ++tensor.extent[0];
  expect_refused(check_reach("f", "q", tensor), "2^54 elements");
}

TEST(Reach, rows_of_a_table_begin_within_memory) {
  Batch batch;
  batch.size = 3;
  batch.table.row_stride = int64_t{1} << 53;
  EXPECT_TRUE(check_rows("f", batch).is_ok());
  for (const int64_t stride : {(int64_t{1} << 53) + 1, most, int64_t{-1}, least}) {
    batch.table.row_stride = stride;
    expect_refused(check_rows("f", batch), "row_stride is " + std::to_string(stride));
  }
  batch.size = 1;
  EXPECT_TRUE(check_rows("f", batch).is_ok()) << "one row has no stride";
  for (const int64_t start : {int64_t{-1}, (int64_t{1} << 54) + 1, most, least}) {
    const int64_t starts[] = {0, start};
    batch.size = 2;
    batch.table.row_starts = starts;
    expect_refused(check_rows("f", batch), "row_starts[1] is " + std::to_string(start));
  }
}

TEST(Reach, every_function_that_takes_a_plane_looks) {
  alignas(64) std::byte bytes[4096] = {};
  for (const Stride& stride : strides) {
    for (const int64_t value : {most, least, 2 * memory}) {
      PagedKVView view = view_at(bytes);
      stride.of(view) = value;
      const std::string words = stride.name;
      AttentionProblem problem;
      problem.key = problem.value = view;
      problem.q_heads = 3;
      expect_refused(Attention::create(problem, {}).error(), words);
      const KVPlanes planes[] = {{view, {}}};
      expect_refused(page_extents(planes, 0).error(), words);
      const PageCopy copies[] = {{0, 1, 1}};
      expect_refused(copy_pages(planes, planes, copies, serial_executor()), words);
      const int64_t slots[] = {0};
      AppendArgs args;
      args.k = dense_tensor<3>(bytes, DType::f32, {1, 3, 16});
      args.key = view;
      args.slots = slots;
      expect_refused(append({}, args, serial_executor()), words);
    }
  }
}

TEST(Reach, sizes_of_pages_have_a_largest_shape) {
  KVShape shape{.num_layers = 1 << 14,
                .num_heads = 1 << 14,
                .head_size = 1 << 15,
                .page_size = 1 << 15,
                .dtype = DType::i8};
  EXPECT_EQ(page_bytes(shape).value(), memory * 8) << "2^62 bits";
  ++shape.page_size;
  expect_refused(page_bytes(shape).error(), "2^62 bits");
  shape = {.num_layers = 1 << 14,
           .num_heads = 1 << 14,
           .head_size = 1 << 15,
           .page_size = 1 << 13,
           .dtype = DType::i8,
           .scale_dtype = DType::f32,
           .quantization_granularity = 1};
  EXPECT_EQ(scale_page_bytes(shape).value(), memory * 8);
  ++shape.num_heads;
  EXPECT_TRUE(page_bytes(shape).has_value());
  expect_refused(scale_page_bytes(shape).error(), "2^62 bits");
}

TEST(Reach, planes_have_a_largest_number_of_pages) {
  const KVShape blocks{.num_layers = 1,
                       .num_heads = 1 << 10,
                       .head_size = 1 << 10,
                       .page_size = 1 << 9,
                       .dtype = DType::i8};
  EXPECT_TRUE(make_planes(blocks, 1 << 29, {}).has_value());
  expect_refused(make_planes(blocks, (1 << 29) + 1, {}).error(), "2^62 bits");
  KVShape scaled = blocks;
  scaled.scale_dtype = DType::f32;
  scaled.quantization_granularity = 1;
  EXPECT_TRUE(make_planes(scaled, 1 << 27, {}).has_value());
  expect_refused(make_planes(scaled, (1 << 27) + 1, {}).error(), "4294967296 bytes");
}

constexpr detail::StaticGeometry geometry(int32_t num_heads, int32_t head_size) {
  return {"make", DType::bf16, {num_heads, head_size, true}, 16};
}

TEST(Reach, storage_of_a_static_cache_has_a_largest_row) {
  alignas(64) std::byte bytes[64] = {};
  // 2^31 - 16 rows of 2^24 elements are 2^56 bytes, nearly
  detail::StorageTensor storage{{bytes, most}, {}, (1 << 27) - 1, 1, 16};
  EXPECT_TRUE(detail::check_storage(geometry(1 << 12, 1 << 12), storage).is_ok());
  expect_refused(detail::check_storage(geometry(1 << 12, (1 << 12) + 1), storage), "2^56 bytes");
  expect_refused(detail::check_storage(geometry(1 << 30, 1 << 30), storage), "2^56 bytes");
  storage.num_pages = 1 << 27;
  expect_refused(detail::check_storage(geometry(1, 8), storage), "exceeds 2^31 - 1");
  storage.num_pages = most;
  expect_refused(detail::check_storage(geometry(1, 8), storage), "exceeds 2^31 - 1");
}

TEST(Reach, views_and_tables_of_a_static_cache_have_largest_strides) {
  alignas(64) std::byte bytes[64] = {};
  const int64_t row = int64_t{1} << 25;
  PagedKVView view{bytes, DType::bf16, 1 << 12, 1 << 12, 16, 2, row * 16, row, 1 << 13, {}};
  const auto check = [&] { return detail::check_view(geometry(1 << 12, 1 << 12), view); };
  EXPECT_TRUE(check().is_ok()) << check().message();
  view.page_stride_bytes = (row << 30) - row;
  EXPECT_TRUE(check().is_ok()) << check().message();
  view.page_stride_bytes = row << 30;
  expect_refused(check(), "exceeds 2^31 - 1");
  view.page_stride_bytes = (row << 30) + row;
  expect_refused(check(), "2^56");
  view.page_stride_bytes = most / row * row;
  expect_refused(check(), "2^56");
  view.num_heads = view.head_size = 1 << 30;
  expect_refused(detail::check_view(geometry(1 << 30, 1 << 30), view), "2^56");

  alignas(64) static const uint32_t entries[64] = {};
  CacheTables tables{entries, entries, int64_t{1} << 53, 24, 2, 1, 16};
  EXPECT_TRUE(detail::check_tables(geometry(1, 8), tables, 16).is_ok());
  tables.lut_stride += 8;
  expect_refused(detail::check_tables(geometry(1, 8), tables, 16), "lut_stride");
  tables.lut_stride = most / 8 * 8;
  expect_refused(detail::check_tables(geometry(1, 8), tables, 16), "lut_stride");
}

}  // namespace
}  // namespace folio::test
