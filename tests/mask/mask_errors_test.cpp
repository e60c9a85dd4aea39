// SPDX-License-Identifier: Apache-2.0
/// tests/mask/mask_errors_test.cpp: masks that are broken are refused in a sentence that names the
/// argument, before any of their memory is read.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "folio/attention/mask_matrix.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

constexpr int64_t smallest = std::numeric_limits<int64_t>::min();
constexpr int64_t largest = std::numeric_limits<int64_t>::max();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Out of line: g++ 12 takes messages made of a name that it knows for out of bounds.
[[gnu::noinline]] const char* function_name() { return "MaskReader::read"; }

struct MatrixCall {
  std::vector<uint16_t> numbers = std::vector<uint16_t>(2 * 4 * 3 * 8, 0);
  MaskMatrix mask{dense_tensor<4, const uint16_t>(numbers.data(), DType::f16, {2, 4, 3, 8})};
  float slopes[4] = {1, 2, 3, 4};
  int64_t first_rows[2] = {0, 8};
  MaskOptions options{.first_rows = first_rows, .slopes = slopes, .q_heads = 4};

  [[nodiscard]] Status run() const { return MaskReader().read(mask, options).error(); }
  [[nodiscard]] static std::vector<std::byte> written() { return {}; }
};

struct BitsCall {
  uint8_t bytes[12] = {};
  MaskBits mask{bytes, 2, 3, 16, 6, 2};
  MaskOptions options = {};

  [[nodiscard]] Status run() const { return MaskReader().read(mask, options).error(); }
  [[nodiscard]] static std::vector<std::byte> written() { return {}; }
};

using Matrix = Broken<MatrixCall>;

TEST(MaskErrors, broken_matrices_are_refused) {
  std::vector<Matrix> table = {
      {"data", [](MatrixCall& c) { c.mask.values.data = nullptr; }, {"mask is null"}},
      {"data",
       [](MatrixCall& c) {
         c.mask.values.data = reinterpret_cast<const char*>(c.numbers.data()) + 1;
       },
       {"not aligned", "multiple of 2"}},
      {"keys", [](MatrixCall& c) { c.mask.values.stride_bytes[3] = 4; }, {"key stride", "4"}},
      {"keys", [](MatrixCall& c) { c.mask.values.stride_bytes[3] = 0; }, {"key stride", "0"}},
      {"keys",
       [](MatrixCall& c) { c.mask.values.extent[3] = int64_t{1} << 31; },
       {"2147483648 keys", "2^31"}},
      {"stream stride",
       [](MatrixCall& c) { c.mask.values.stride_bytes[0] = 7; },
       {"stream stride", "7"}},
      {"head stride",
       [](MatrixCall& c) { c.mask.values.stride_bytes[1] = -3; },
       {"head stride", "-3"}},
      {"query stride",
       [](MatrixCall& c) { c.mask.values.stride_bytes[2] = 1; },
       {"query stride", "multiple of 2"}},
      {"heads", [](MatrixCall& c) { c.mask.values.extent[1] = 3; }, {"3 heads", "1 or 4"}},
      {"heads", [](MatrixCall& c) { c.mask.values.extent[1] = 0; }, {"0 heads"}},
      {"heads",
       [](MatrixCall& c) {
         c.options.slopes = nullptr;
         c.options.q_heads = 0;
       },
       {"4 heads", "options.q_heads"}},
      {"q_heads", [](MatrixCall& c) { c.options.q_heads = -1; }, {"options.q_heads is -1"}},
      // and not so many slopes are read
      {"q_heads", [](MatrixCall& c) { c.options.q_heads = INT32_MAX; }, {"4 heads", "2147483647"}},
      {"q_heads",
       [](MatrixCall& c) {
         c.mask.values.extent[1] = 1;
         c.options.q_heads = 0;
       },
       {"options.q_heads is 0", "slopes"}},
      {"slopes", [](MatrixCall& c) { c.slopes[2] = not_a_number; }, {"slopes[2]"}},
      {"slopes",
       [](MatrixCall& c) { c.slopes[3] = std::numeric_limits<float>::infinity(); },
       {"slopes[3]"}},
      {"first_rows", [](MatrixCall& c) { c.first_rows[1] = -1; }, {"first_rows[1] is -1"}},
      {"first_rows", [](MatrixCall& c) { c.first_rows[1] = smallest; }, {"first_rows[1]"}},
      {"first_rows", [](MatrixCall& c) { c.first_rows[0] = largest; }, {"first_rows[0]"}},
      {"first_rows",
       [](MatrixCall& c) { c.first_rows[0] = (int64_t{1} << 32) - 8; },
       {"first_rows[0]", "4294967287"}},
      {"streams * queries",
       [](MatrixCall& c) {
         c.mask.values.extent[0] = 1 << 16;
         c.mask.values.extent[2] = 1 << 15;
       },
       {"65536 streams", "2^31"}},
      {"streams * queries",
       [](MatrixCall& c) { c.mask.values.extent[0] = c.mask.values.extent[2] = largest; },
       {"2^31"}},
      {"streams * keys",
       [](MatrixCall& c) {
         c.options.first_rows = nullptr;
         c.mask.values.stride_bytes[0] = 0;
         c.mask.values.extent[0] = int64_t{1} << 29;
       },
       {"536870912 streams of 8 keys", "2^32"}}};
  for (const DType dtype : {DType::invalid, DType::i8, DType::q8_0, static_cast<DType>(200)})
    table.push_back({"dtype", [dtype](MatrixCall& c) { c.mask.values.dtype = dtype; }, {"f16"}});
  for (const int i : {0, 2, 3})
    for (const int64_t extent : {int64_t{-1}, smallest})
      table.push_back(
          {"extent", [=](MatrixCall& c) { c.mask.values.extent[i] = extent; }, {"0 or more"}});
  for (const int i : {0, 1, 2})
    for (const int64_t stride : {smallest, largest - 1, int64_t{1} << 57})
      table.push_back(
          {"stride", [=](MatrixCall& c) { c.mask.values.stride_bytes[i] = stride; }, {"2^56"}});
  expect_refused(function_name(), table);
}

TEST(MaskErrors, broken_bits_are_refused) {
  std::vector<Broken<BitsCall>> table = {
      {"bits", [](BitsCall& c) { c.mask.bits = nullptr; }, {"is null"}},
      {"keys", [](BitsCall& c) { c.mask.keys = largest; }, {"keys", "2^31"}},
      {"queries", [](BitsCall& c) { c.mask.queries = largest; }, {"queries", "2^31"}}};
  for (const int64_t extent : {int64_t{-1}, smallest}) {
    table.push_back({"streams", [=](BitsCall& c) { c.mask.streams = extent; }, {"streams"}});
    table.push_back({"queries", [=](BitsCall& c) { c.mask.queries = extent; }, {"queries"}});
    table.push_back({"keys", [=](BitsCall& c) { c.mask.keys = extent; }, {"keys"}});
  }
  for (const int64_t stride : {smallest, largest}) {
    table.push_back(
        {"stream", [=](BitsCall& c) { c.mask.stream_stride_bytes = stride; }, {"stream stride"}});
    table.push_back(
        {"query", [=](BitsCall& c) { c.mask.query_stride_bytes = stride; }, {"query stride"}});
  }
  expect_refused(function_name(), table);
}

/// What is not used may be anything.
TEST(MaskErrors, strides_of_single_rows_are_not_looked_at) {
  const uint16_t numbers[8] = {};
  MaskMatrix mask{dense_tensor<4>(numbers, DType::f16, {1, 1, 1, 8})};
  for (int i = 0; i < 3; ++i) mask.values.stride_bytes[i] = smallest + i;
  EXPECT_TRUE(MaskReader().read(mask).has_value());
}

/// Without queries no memory is read, however many streams there are.
TEST(MaskErrors, masks_without_queries_cost_nothing) {
  const MaskBits mask{nullptr, largest, 0, 16, 0, 0};
  const Result<MaskedBatch> masked = MaskReader().read(mask);
  ASSERT_TRUE(masked.has_value()) << masked.error().message();
  EXPECT_EQ(masked->batch.size, 0);
}

/// All queries share one row, so that the matrix is small and what it stands for is not.
TEST(MaskErrors, masks_that_no_memory_holds_are_refused_and_the_reader_lives_on) {
  std::vector<uint8_t> row(size_t{1} << 28, 0x55);
  MaskBits mask{row.data(), 1, INT32_MAX, INT32_MAX, 0, 0};
  MaskReader reader;
  const Status status = reader.read(mask).error();
  EXPECT_EQ(status.code(), Errc::out_of_memory) << status.message();
  mask.queries = mask.keys = 3;
  EXPECT_TRUE(reader.read(mask).has_value());
}

}  // namespace
}  // namespace folio::test
