// SPDX-License-Identifier: Apache-2.0
/// tests/attention/operand_test.cpp: the five operands: concepts, page walks, rows and scales,
/// against each other.
#include "folio/attention/operand.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "folio/cache/static_view.h"
#include "folio/core/element.h"
#include "support/static_cache.h"

namespace folio::test {
namespace {

constexpr KVCacheStaticParams params{2, 12};
using Plain = PagedKVCacheCollection<DType::f32, params, 4>;
using Quantised = PagedKVCacheCollection<DType::i8, params, 4, DType::bf16, 5>;
using Continuous = ContinuousKVCacheCollection<DType::f32, params>;

static_assert(MHAOperand<KVCacheMHAOperand<Plain::CacheType>> &&
              MHAOperand<KVCacheMHAOperand<Quantised::CacheType>>);
static_assert(MHAOperand<KVCacheMHAOperand<Continuous::CacheType>> &&
              MHAOperand<KVCacheScalesMHAOperand<Quantised::CacheType>>);
static_assert(MHAOperand<TensorMHAOperand<DType::bf16>> &&
              MHAOperand<TensorMHAOperand<DType::i8, DType::f32, 32>>);
static_assert(MHAOperand<RaggedMHAOperand<DType::f16>> &&
              MHAOperand<RaggedMHAOperand<DType::i8, DType::f32, 32>>);
static_assert(MHAOperand<ViewMHAOperand<DType::f8_e5m2>> &&
              MHAOperand<ViewMHAOperand<DType::i8, DType::f8_e8m0>>);
static_assert(!MHAOperand<int> && !MHAOperand<Plain::CacheType>);
static_assert(ViewMHAOperand<DType::i8>::page_size == dynamic &&
              ViewMHAOperand<DType::i8>::quantization_granularity == 1);
static_assert(ViewMHAOperand<DType::i8, DType::f32>::quantization_granularity == dynamic);

/// What is stored for a key: unique over sequences, tokens, heads and dims.
float key_value(int64_t b, int64_t token, int64_t head, int64_t dim) {
  return static_cast<float>(((b * 64 + token) * 2 + head) * 12 + dim);
}

/// Reads `length` keys of a head run by run.
template <class Operand>
std::vector<float> walk(const Operand& operand, int64_t b, int64_t length, int64_t head) {
  std::vector<float> found;
  for (int64_t token = 0; token < length;) {
    const OperandRun run = operand.run(b, token, head);
    if (run.rows < 1) break;
    for (int64_t i = 0; i < run.rows && token < length; ++i, ++token) {
      float row[12] = {};
      if (run.data != nullptr) std::memcpy(row, run.data + i * run.slot_stride_bytes, sizeof row);
      found.insert(found.end(), row, row + 12);
    }
  }
  return found;
}

/// The same keys behind every kind of operand.
class Operands : public ::testing::Test {
 protected:
  static constexpr uint32_t lengths[2] = {11, 6};

  Operands() {
    for (uint32_t b = 0; b < 2; ++b) {
      for (int64_t token = 0; token < lengths[b]; ++token) {
        for (int64_t head = 0; head < 2; ++head) {
          Vec<float, 12> row;
          for (int d = 0; d < 12; ++d) row[d] = key_value(b, token, head, d);
          paged.key(1).store(b, head, token, 0, row);
          continuous.key(1).store(b, head, token, 0, row);
          std::memcpy(&dense[static_cast<size_t>(((b * 11 + token) * 2 + head) * 12)], row.lane,
                      sizeof row);
          std::memcpy(&ragged[static_cast<size_t>((((b == 0 ? 0 : 11) + token) * 2 + head) * 12)],
                      row.lane, sizeof row);
        }
      }
    }
  }

  template <class Operand>
  void expect_keys(const Operand& operand) const {
    for (uint32_t b = 0; b < 2; ++b) {
      for (int64_t head = 0; head < 2; ++head) {
        const auto found = walk(operand, b, lengths[b], head);
        ASSERT_EQ(found.size(), lengths[b] * size_t{12}) << Operand::get_type_name();
        for (size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(found[i],
                    key_value(b, static_cast<int64_t>(i / 12), head, static_cast<int64_t>(i % 12)))
              << Operand::get_type_name();
        }
      }
    }
  }

  StaticCache<Plain> paged = [] {
    StaticCache<Plain> cache({.num_pages = 6, .num_layers = 2, .batch = 2, .max_cache_length = 12});
    cache.set_row(0, {4, 0, 5});
    cache.set_row(1, {1, 3});
    return cache;
  }();
  ContinuousCache<Continuous> continuous{
      {.num_pages = 2, .num_layers = 2, .batch = 2, .max_cache_length = 12, .max_length = 12}};
  std::vector<float> dense = std::vector<float>(2 * 11 * 24);
  std::vector<float> ragged = std::vector<float>(17 * 24);
  const uint32_t offsets[3] = {0, 11, 17};
  const int32_t contexts[2] = {11, 6};
};

TEST_F(Operands, every_kind_walks_to_the_same_keys) {
  expect_keys(KVCacheMHAOperand<Plain::CacheType>{paged.key(1)});
  expect_keys(KVCacheMHAOperand<Continuous::CacheType>{continuous.key(1)});
  expect_keys(TensorMHAOperand<DType::f32>{
      {dense.data(), row_major<IntTuple<-1, -1, -1, -1>>(2, 11, 2, 12)}, {}});
  expect_keys(RaggedMHAOperand<DType::f32>{
      {ragged.data(), row_major<IntTuple<-1, -1, -1>>(17, 2, 12)}, offsets, 11});
  expect_keys(
      ViewMHAOperand<DType::f32>{view_of(paged.key(1)), table_of(paged.key(1)), contexts, 11});
  expect_keys(ViewMHAOperand<DType::f32>{view_of(continuous.key(1)), table_of(continuous.key(1)),
                                         contexts, 11});
}

TEST_F(Operands, a_ragged_tensor_is_a_view_of_unbounded_pages) {
  const uint32_t first_rows[2] = {0, 11};
  const PagedKVView view{ragged.data(), DType::f32, 2, 12, unbounded_page_size, 17, 96, 96, 48, {}};
  const auto operand =
      view_operand<DType::f32>(view, {first_rows, 1, nullptr}, contexts, 11).value();
  expect_keys(operand);
  EXPECT_EQ(operand.num_kv_rows(), 17);
  EXPECT_EQ(operand.row_idx(1, 3), 14);
  EXPECT_EQ(operand.row_idx(1, 40), 17) << "out of bounds";
  EXPECT_EQ(operand.run(1, 2, 0).rows, 4) << "ends with the plane";
  EXPECT_EQ(operand.run(1, 6, 0).data, nullptr);
}

TEST_F(Operands, a_head_major_plane_is_walked_through_its_strides) {
  std::vector<float> pages(6 * 2 * 4 * 12);  // [page, head, slot, dim]
  const auto key = paged.key(1);
  for (int64_t page = 0; page < 6; ++page) {
    for (int64_t slot = 0; slot < 4; ++slot) {
      for (int64_t head = 0; head < 2; ++head) {
        std::memcpy(&pages[static_cast<size_t>(((page * 2 + head) * 4 + slot) * 12)],
                    key.blocks.pointer(page, slot, head, 0), 48);
      }
    }
  }
  const PagedKVView view{pages.data(), DType::f32, 2, 12, 4, 6, 384, 48, 192, {}};
  expect_keys(view_operand<DType::f32>(view, table_of(key), contexts, 11).value());
}

TEST_F(Operands, a_run_ends_with_its_page_and_is_null_without_one) {
  paged.table()[1] = 6;
  const KVCacheMHAOperand<Plain::CacheType> cache{paged.key(1)};
  const ViewMHAOperand<DType::f32> view{view_of(paged.key(1)), table_of(paged.key(1)), contexts,
                                        11};
  for (const int64_t token : {0, 1, 3, 4, 6, 8, 11}) {
    const OperandRun a = cache.run(0, token, 1), b = view.run(0, token, 1);
    EXPECT_EQ(a.rows, 4 - token % 4);
    EXPECT_EQ(b.rows, a.rows);
    EXPECT_EQ(b.data, a.data);
    EXPECT_EQ(a.data == nullptr, token / 4 == 1) << token;
    EXPECT_TRUE(a.data == nullptr || b.slot_stride_bytes == a.slot_stride_bytes);
  }
  EXPECT_EQ(cache.block_paged_ptr<4>(0, 4, 0), nullptr);
  EXPECT_EQ(view.row_idx(0, 5), view.num_kv_rows());
}

TEST_F(Operands, a_cache_operand_forwards_rows_and_lengths) {
  paged.lengths()[1] = 5;
  const auto key = paged.key(1);
  const KVCacheMHAOperand<Plain::CacheType> operand{key};
  EXPECT_EQ(operand.cache_length(1), 5);
  EXPECT_EQ(operand.max_context_length(), 12u);
  EXPECT_EQ(operand.num_kv_rows(), key.num_kv_rows());
  EXPECT_EQ(operand.row_idx(0, 9), key.row_idx(0, 9));
  EXPECT_EQ(operand.get_tma_row(9), key.get_tma_row(9));
  EXPECT_EQ((operand.populate<8, 8>(0, 0).rows[1]), (key.populate<8, 8>(0, 0).rows[1]));
  const void* row = operand.block_paged_ptr<4>(0, 4, 1);
  EXPECT_EQ(row, key.block_paged_ptr<4>(0, 4, 1));
  EXPECT_EQ(operand.scales_raw_ptr(), nullptr);
}

TEST_F(Operands, contiguous_operands_number_rows_through) {
  const TensorMHAOperand<DType::f32> tensor{
      {dense.data(), row_major<IntTuple<-1, -1, -1, -1>>(2, 11, 2, 12)}, {}};
  EXPECT_EQ(tensor.cache_length(1), 11);
  EXPECT_EQ(tensor.max_context_length(), 11u);
  EXPECT_EQ(tensor.num_kv_rows(), 22);
  EXPECT_EQ(tensor.row_idx(1, 3), 14);
  EXPECT_EQ(tensor.get_tma_row(-1), -1);
  EXPECT_EQ((tensor.populate<64, 1>(1, 3).rows[0]), 14u);
  EXPECT_EQ(*tensor.block_paged_ptr<8>(1, 3, 1, 2), key_value(1, 3, 1, 2));
  EXPECT_EQ(tensor.run(0, 11, 0).rows, 0);
  const RaggedMHAOperand<DType::f32> rows{
      {ragged.data(), row_major<IntTuple<-1, -1, -1>>(17, 2, 12)}, offsets, 11};
  EXPECT_EQ(rows.cache_length(1), 6);
  EXPECT_EQ(rows.max_context_length(), 11u);
  EXPECT_EQ(rows.num_kv_rows(), 17);
  EXPECT_EQ(rows.row_idx(1, 3), 14);
  EXPECT_EQ((rows.populate<64, 1, true, false>(1, 3).k_row(0)), 46u);
  EXPECT_EQ(*rows.block_paged_ptr<8>(1, 3, 1, 2), key_value(1, 3, 1, 2));
  EXPECT_EQ(rows.run(1, 6, 0).rows, 0) << "the sequence's rows, not the tensor's";
}

/// Scales of a quantised cache: 0.25, 0.5, ... of each token, head and granule.
class OperandScales : public ::testing::Test {
 protected:
  OperandScales() {
    cache.set_row(0, {2, 0});
    for (int token = 0; token < 8; ++token) {
      for (int head = 0; head < 2; ++head) {
        for (int g = 0; g < 3; ++g)
          cache.value().store_scale(0, head, token, g * 5, Vec<bf16, 1>{{scale(token, head, g)}});
      }
    }
  }
  static bf16 scale(int token, int head, int granule) {
    return from_float<bf16>(0.25f * static_cast<float>((token * 2 + head) * 3 + granule + 1));
  }
  StaticCache<Quantised> cache{{.num_pages = 3, .num_layers = 1, .max_cache_length = 8}};
};

TEST_F(OperandScales, all_quantised_operands_load_the_same_scales_token_before_head) {
  const auto plane = cache.value();
  const KVCacheMHAOperand<Quantised::CacheType> direct{plane};
  const int32_t contexts[1] = {8};
  const auto viewed =
      view_operand<DType::i8, DType::bf16>(view_of(plane), table_of(plane), contexts, 8).value();
  std::vector<bf16> packed;
  for (int token = 0; token < 8; ++token) {
    for (int head = 0; head < 2; ++head) {
      for (int g = 0; g < 3; ++g) packed.push_back(scale(token, head, g));
    }
  }
  const std::vector<int8_t> values(8 * 24);
  using Tensor = TensorMHAOperand<DType::i8, DType::bf16, 5>;
  const Tensor tensor{{values.data(), row_major<Tensor::shape>(1, 8, 2, 12)},
                      {packed.data(), row_major<Tensor::shape>(1, 8, 2, 3)}};
  for (int token = 0; token < 8; ++token) {
    for (int head = 0; head < 2; ++head) {
      const Vec<bf16, 2> expected{{scale(token, head, 1), scale(token, head, 2)}};
      EXPECT_EQ((direct.load_scale<2>(0, token, head, 9)), expected);
      EXPECT_EQ((viewed.load_scale<2>(0, token, head, 9)), expected);
      EXPECT_EQ((tensor.load_scale<2>(0, token, head, 9)), expected);
      EXPECT_EQ(*direct.scales_block_paged_ptr(0, token, head, 11), scale(token, head, 2));
      EXPECT_EQ(*viewed.scales_block_paged_ptr(0, token, head, 11), scale(token, head, 2));
    }
  }
  EXPECT_EQ(direct.scales_raw_ptr(), plane.scales_raw_ptr());
  EXPECT_EQ(viewed.scales_raw_ptr(), plane.scales_raw_ptr());
}

TEST_F(OperandScales, a_view_s_broadcast_scales_are_one_for_all) {
  float factor = 3.0f;
  PagedKVView view = view_of(cache.value());
  view.scales = {&factor, DType::f32, 12, 0, 0, 0, 0, nullptr};
  const auto operand =
      view_operand<DType::i8, DType::f32>(view, table_of(cache.value()), nullptr, 8).value();
  EXPECT_EQ((operand.load_scale<1>(0, 7, 1, 11)[0]), 3.0f);
  EXPECT_EQ((operand.load_scale<1>(0, 0, 0, 0)[0]), 3.0f);
}

TEST_F(OperandScales, scales_are_addressed_by_their_own_page_stride) {
  // Values and scales of different tensors: the value pages lie 16 rows apart, those of the scales
  // 7.
  using Cache = Quantised::CacheType;
  bf16 scales[2 * 42 + 24] = {};
  Cache plane = cache.value();
  plane.scales = {scales, Cache::scales_tt_layout(3, 42)};
  const KVCacheScalesMHAOperand<Cache> operand{plane};
  EXPECT_EQ(plane.row_stride(), 8);
  EXPECT_EQ(operand.num_kv_rows(), 2 * 7 + 4);
  EXPECT_EQ(operand.row_idx(0, 1), 2 * 7 + 1);
  EXPECT_EQ(operand.row_idx(0, 5), 1);
  EXPECT_EQ(operand.get_tma_row(2 * 4 + 3), 2 * 7 + 3);
  EXPECT_EQ(operand.get_tma_row(-1), -1);
  EXPECT_EQ(operand.get_tma_row(3 * 4), -1);
  EXPECT_EQ((operand.populate<8, 8>(0, 0).rows[0]), 14u);
  EXPECT_EQ(operand.block_paged_ptr<2>(0, 2, 1, 6), scales + 2 * 42 + 2 * 6 + 3 + 1);
  const OperandRun run = operand.run(0, 1, 1);
  EXPECT_EQ(run.rows, 3);
  EXPECT_EQ(run.slot_stride_bytes, 12);
  const void* expected = scales + 2 * 42 + 6 + 3;
  EXPECT_EQ(run.data, expected);
}

TEST_F(OperandScales, an_unassigned_page_has_no_scales) {
  cache.table()[1] = 0xffffffffu;
  const KVCacheScalesMHAOperand<Quantised::CacheType> scales{cache.value()};
  const KVCacheMHAOperand<Quantised::CacheType> direct{cache.value()};
  EXPECT_EQ(scales.run(0, 5, 0).data, nullptr);
  EXPECT_EQ(scales.row_idx(0, 5), scales.num_kv_rows());
  EXPECT_EQ(scales.block_paged_ptr<1>(0, 5, 0), nullptr);
  EXPECT_EQ((direct.load_scale<2>(0, 5, 0, 0)), (Vec<bf16, 2>{}));
  const auto viewed = view_operand<DType::i8, DType::bf16>(view_of(cache.value()),
                                                           table_of(cache.value()), nullptr, 8)
                          .value();
  EXPECT_EQ((viewed.load_scale<2>(0, 5, 0, 0)), (Vec<bf16, 2>{}));
}

TEST(ViewOperand, a_view_of_another_type_is_refused_with_a_reason) {
  bf16 storage[64] = {};
  float scale = 1.0f;
  const PagedKVView good{storage, DType::bf16, 1, 16, 4, 1, 128, 32, 32, {}};
  const auto message = [](const PagedKVView& view) {
    return std::string(view_operand<DType::bf16>(view, {}, nullptr, 0).error().message());
  };
  EXPECT_EQ(message(good), "");
  PagedKVView bad = good;
  bad.data = nullptr;
  EXPECT_EQ(message(bad), "view_operand: view.data is null");
  bad = good;
  bad.dtype = DType::f16;
  EXPECT_EQ(message(bad), "view_operand: view.dtype is f16, the operand's is bf16");
  bad = good;
  bad.scales.data = &scale;
  bad.scales.dtype = DType::f32;
  EXPECT_EQ(message(bad), "view_operand: the view's scales are f32, the operand's are invalid");
  bad = good;
  bad.slot_stride_bytes = 0;
  EXPECT_EQ(message(bad),
            "view_operand: view.slot_stride_bytes is 0, expected another number of bytes");
  bad = good;
  bad.page_size = 0;
  EXPECT_EQ(message(bad), "view_operand: view.page_size is 0, expected at least 1");
  bad = good;
  bad.hadamard.block = 16;
  EXPECT_EQ(message(bad),
            "view_operand: the view has a hadamard rotation, expected rows as they are: an operand "
            "says nothing of them");
  bad = good;
  bad.has_channel_scales = true;
  EXPECT_NE(message(bad).find("the view has channel_scales"), std::string::npos);
  bad = good;
  bad.scales = {&scale, DType::f32, 0, 0, 0, 0, 0, nullptr};
  EXPECT_NE(
      std::string((view_operand<DType::bf16, DType::f32>(bad, {}, nullptr, 0).error().message()))
          .find("granularity is 0"),
      std::string::npos);
}

}  // namespace
}  // namespace folio::test
