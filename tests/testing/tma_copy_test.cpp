// SPDX-License-Identifier: Apache-2.0
/// tests/testing/tma_copy_test.cpp: emulated boxes and gathers against a copy of single elements,
/// and what is refused.
#include "folio/testing/tma_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "support/random.h"

namespace folio::test {
namespace {

using emulator::GlobalMemory;
using emulator::SharedMemory;
using ::testing::HasSubstr;

// no host address: whoever mixes the two up crashes
constexpr uint64_t device_base = 0x7f0000000000u;
constexpr std::array all_swizzles{tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64,
                                  tma::Swizzle::b128};

/// A device allocation with random contents.
class Allocation {
 public:
  Allocation(int64_t bytes, Rng& rng) : bytes_(static_cast<size_t>(bytes)) {
    for (std::byte& b : bytes_) b = static_cast<std::byte>(rng.next());
  }
  [[nodiscard]] GlobalMemory memory(const char* label = "tensor") {
    return {bytes_.data(), static_cast<int64_t>(bytes_.size()), device_base, label};
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// One element of a box: which, whether in bounds, where in the allocation and where in shared
/// memory.
struct Element {
  bool in_bounds = true;
  int64_t global = 0;
  int64_t shared = 0;
};

/// Every element of a box, one at a time: nothing here is shared with the emulator but the swizzle,
/// which tests/tma checks.
std::vector<Element> elements_of(const tma::TensorMap& map, int64_t to,
                                 std::span<const int32_t> coordinates) {
  const int64_t size = element_bytes(map.dtype);
  int64_t extent[5] = {map.box[0], 1, 1, 1, 1};
  int64_t total = map.box[0];
  for (int i = 1; i < map.rank; ++i) {
    extent[i] = (map.box[i] + map.element_stride[i] - 1) / map.element_stride[i];
    total *= extent[i];
  }
  std::vector<Element> elements;
  for (int64_t n = 0; n < total; ++n) {
    Element e;
    int64_t rest = n;
    auto address = static_cast<int64_t>(map.base - device_base);
    for (int i = 0; i < map.rank; ++i) {
      const int64_t step = i == 0 ? 1 : map.element_stride[i];
      const int64_t at = coordinates[static_cast<size_t>(i)] + rest % extent[i] * step;
      rest /= extent[i];
      if (at < 0 || at >= map.dim[i]) e.in_bounds = false;
      address += at * (i == 0 ? size : map.stride_bytes[i]);
    }
    e.global = address;
    e.shared = swizzle(map.swizzle, to + n * size);
    elements.push_back(e);
  }
  return elements;
}

/// A random map whose tensor lies in the allocation from its start.
tma::TensorMap random_map(Rng& rng, int rank, tma::Swizzle mode, int64_t& bytes) {
  constexpr std::array types{tma::DataType::u8, tma::DataType::bf16, tma::DataType::f32,
                             tma::DataType::i64};
  tma::TensorMap map;
  map.base = device_base;
  map.rank = rank;
  map.dtype = rng.pick(types);
  map.swizzle = mode;
  const int64_t size = element_bytes(map.dtype);
  const int32_t span = mode == tma::Swizzle::none ? 64 : swizzle_bytes(mode);
  map.box[0] = 16 * rng.int_between(1, span / 16) / static_cast<int32_t>(size);
  map.dim[0] = rng.between(1, 2 * map.box[0]);
  int64_t pitch = (map.dim[0] * size + 15) / 16 * 16;
  bytes = pitch;
  for (int i = 1; i < rank; ++i) {
    map.dim[i] = rng.between(1, 5);
    map.box[i] = rng.int_between(1, 6);
    map.element_stride[i] = rng.chance(0.3) ? rng.int_between(2, 3) : 1;
    map.stride_bytes[i] = pitch + (rng.chance(0.3) ? 16 * rng.between(0, 3) : 0);
    pitch = map.stride_bytes[i] * map.dim[i];
    bytes = pitch;
  }
  if (is_floating(map.dtype) && rng.chance(0.3)) map.oob_fill = tma::OobFill::nan;
  return map;
}

std::vector<int32_t> random_coordinates(Rng& rng, const tma::TensorMap& map) {
  std::vector<int32_t> coordinates;
  for (int i = 0; i < map.rank; ++i)
    coordinates.push_back(rng.int_between(-map.box[i], map.dim[i] + 1));
  return coordinates;
}

template <class Check>
void for_random_boxes(Check&& check) {
  Rng rng(test_seed());
  for (int rank = 1; rank <= 5; ++rank) {
    for (const tma::Swizzle mode : all_swizzles) {
      for (int i = 0; i < 30; ++i) {
        int64_t bytes = 0;
        const tma::TensorMap map = random_map(rng, rank, mode, bytes);
        ASSERT_TRUE(map.check().is_ok()) << map.check().message();
        Allocation allocation(bytes, rng);
        const std::vector<int32_t> coordinates = random_coordinates(rng, map);
        const int64_t to = 128 * rng.between(0, 7);
        SharedMemory shared(to + map.transaction_bytes() + 1024, 0x5a);
        check(rng, map, allocation, coordinates, shared, to);
      }
    }
  }
}

TEST(TmaCopy, loads_bring_each_element_and_fill_the_rest) {
  for_random_boxes([](Rng&, const tma::TensorMap& map, Allocation& allocation,
                      const std::vector<int32_t>& coordinates, SharedMemory& shared, int64_t to) {
    const Result<int64_t> bytes = tma_load(map, allocation.memory(), shared, to, coordinates);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message();
    const std::vector<Element> elements = elements_of(map, to, coordinates);
    const int64_t size = element_bytes(map.dtype);
    ASSERT_EQ(*bytes, static_cast<int64_t>(elements.size()) * size);
    std::vector<std::byte> expected(static_cast<size_t>(shared.size()), std::byte{0x5a});
    for (const Element& e : elements) {
      for (int64_t b = 0; b < size; ++b) {
        const std::byte fill{map.oob_fill == tma::OobFill::nan ? uint8_t{0xff} : uint8_t{0}};
        expected[static_cast<size_t>(e.shared + b)] =
            e.in_bounds ? allocation.bytes()[static_cast<size_t>(e.global + b)] : fill;
      }
    }
    EXPECT_EQ(std::memcmp(expected.data(), shared.at(0), expected.size()), 0);
  });
}

TEST(TmaCopy, stores_write_each_element_that_is_in_bounds_and_nothing_else) {
  for_random_boxes([](Rng& rng, const tma::TensorMap& map, Allocation& allocation,
                      const std::vector<int32_t>& coordinates, SharedMemory& shared, int64_t to) {
    for (int64_t i = 0; i < shared.size(); ++i) shared.store(i, static_cast<uint8_t>(rng.next()));
    std::vector<std::byte> expected = allocation.bytes();
    for (const Element& e : elements_of(map, to, coordinates)) {
      if (e.in_bounds)
        std::memcpy(&expected[static_cast<size_t>(e.global)], shared.at(e.shared),
                    static_cast<size_t>(element_bytes(map.dtype)));
    }
    const Result<int64_t> bytes = tma_store(map, allocation.memory(), shared, to, coordinates);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message();
    EXPECT_EQ(expected, allocation.bytes());
  });
}

tma::TensorMap matrix(int64_t rows, int64_t columns, int32_t box_columns,
                      tma::Swizzle mode = tma::Swizzle::b128) {
  tma::TensorMap map;
  map.base = device_base;
  map.rank = 2;
  map.dtype = tma::DataType::bf16;
  map.swizzle = mode;
  map.dim[0] = columns;
  map.dim[1] = rows;
  map.stride_bytes[1] = columns * 2;
  map.box[0] = box_columns;
  return map;
}

TEST(TmaCopy, gather4_brings_four_rows_and_scatter4_takes_them_back) {
  Rng rng(test_seed());
  Allocation allocation(100 * 128, rng);
  tma::TensorMap map = matrix(100, 64, 64);
  map.use = tma::Use::gather4;
  SharedMemory shared(1024);
  const std::array<int32_t, 4> rows{5, 99, -1, 100};
  const Result<int64_t> bytes = tma_gather4(map, allocation.memory(), shared, 512, 8, rows);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message();
  EXPECT_EQ(*bytes, 4 * 128);
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 64; ++c) {
      uint16_t expected = 0;
      const int32_t row = rows[static_cast<size_t>(r)];
      if (r < 2 && c + 8 < 64)
        std::memcpy(&expected, &allocation.bytes()[static_cast<size_t>(row * 128 + (c + 8) * 2)],
                    2);
      ASSERT_EQ(shared.load<uint16_t>(swizzle(map.swizzle, 512 + r * 128 + c * 2)), expected)
          << r << ", " << c;
    }
  }
  const std::vector<std::byte> before = allocation.bytes();
  for (std::byte& b : allocation.bytes()) b = std::byte{0};
  ASSERT_TRUE(tma_scatter4(map, allocation.memory(), shared, 512, 8, rows).has_value());
  for (int64_t row = 0; row < 100; ++row) {
    for (int64_t b = 0; b < 128; ++b) {
      const bool written = (row == 5 || row == 99) && b >= 16;
      const auto at = static_cast<size_t>(row * 128 + b);
      ASSERT_EQ(allocation.bytes()[at], written ? before[at] : std::byte{0}) << row << ", " << b;
    }
  }
}

TEST(TmaCopy, rows_of_a_tile_may_come_one_by_one) {
  Rng rng(test_seed());
  Allocation allocation(64 * 128, rng);
  for (const int32_t rows : {1, 2, 4, 8, 32}) {
    tma::TensorMap map = matrix(64, 64, 64);
    SharedMemory whole(64 * 128), parts(64 * 128);
    map.box[1] = 64;
    ASSERT_TRUE(tma_load<2>(map, allocation.memory(), whole, 0, {{0, 0}}).has_value());
    map.box[1] = rows;
    for (int32_t r = 0; r < 64; r += rows)
      ASSERT_TRUE(tma_load<2>(map, allocation.memory(), parts, r * 128, {{0, r}}).has_value());
    EXPECT_EQ(std::memcmp(whole.at(0), parts.at(0), 64 * 128), 0) << rows;
  }
}

TEST(TmaCopy, touching_memory_outside_the_allocation_is_an_error_that_names_it) {
  Rng rng(test_seed());
  Allocation allocation(10 * 128, rng);
  SharedMemory shared(4096);
  tma::TensorMap map = matrix(12, 64, 64);  // claims two rows too many
  map.box[1] = 4;
  EXPECT_TRUE(tma_load<2>(map, allocation.memory(), shared, 0, {{0, 6}}).has_value());
  std::string message(
      tma_load<2>(map, allocation.memory("pool"), shared, 0, {{32, 8}}).error().message());
  EXPECT_EQ(message,
            "tma_load: element (32, 10, 0, 0, 0) of the tensor, fastest first, begins bytes [1344, "
            "1408) of pool, which has 1280");
  message = tma_store<2>(map, allocation.memory(), shared, 0, {{0, 9}}).error().message();
  EXPECT_THAT(message, HasSubstr("tma_store: element (0, 10, 0, 0, 0)"));
  // The front: a ragged map whose base lies in front of the allocation is fine until it is asked
  // for rows there.
  map = matrix(4, 64, 64);
  map.rank = 3;
  map.base -= 4 * 128;
  map.box[1] = 4;
  map.dim[2] = 11;
  map.stride_bytes[2] = 128;
  // rows 0 to 2
  EXPECT_TRUE(tma_load<3>(map, allocation.memory(), shared, 0, {{0, 1, 3}}).has_value());
  message = tma_load<3>(map, allocation.memory(), shared, 0, {{0, 0, 3}}).error().message();
  EXPECT_THAT(message, HasSubstr("element (0, 0, 3, 0, 0)"));
  EXPECT_THAT(message, HasSubstr("bytes [-128, 0) of tensor"));
}

TEST(TmaCopy, addresses_wrap_modulo_two_to_the_64) {
  // A clamp at both ends without memory in front: the second extra dimension takes back what the
  // row offset of 2^30 adds.
  Rng rng(test_seed());
  constexpr int64_t pitch = 128, far = int64_t{1} << 30, top = 0x7fff0000;
  Allocation allocation(50 * pitch, rng);
  tma::TensorMap map = matrix(far, 64, 64);
  map.rank = 4;
  map.box[1] = 16;
  map.dim[2] = map.dim[3] = top;
  map.stride_bytes[2] = pitch;
  map.stride_bytes[3] = (int64_t{1} << 34) - pitch;
  SharedMemory shared(16 * pitch);
  for (const int32_t start : {0, 3, 33}) {
    for (int32_t valid = 1; valid <= 16; ++valid) {
      map.stride_bytes[3] = (int64_t{1} << 34) - pitch;  // 2^30 of them are -2^30 rows, modulo 2^64
      const Result<int64_t> bytes = tma_load<4>(
          map, allocation.memory(), shared, 0,
          {{0, static_cast<int32_t>(far) - valid, start + valid, static_cast<int32_t>(far)}});
      ASSERT_TRUE(bytes.has_value()) << bytes.error().message();
      for (int32_t row = 0; row < 16; ++row) {
        std::array<std::byte, 128> expected{};
        if (row < valid)
          std::memcpy(expected.data(),
                      &allocation.bytes()[static_cast<size_t>((start + row) * pitch)], 128);
        std::array<std::byte, 128> got;
        for (int32_t b = 0; b < 128; ++b)
          got[static_cast<size_t>(b)] = *shared.at(swizzle(map.swizzle, row * pitch + b));
        ASSERT_EQ(got, expected) << start << ", " << valid << ", " << row;
      }
    }
  }
}

TEST(TmaCopy, what_makes_no_sense_is_refused) {
  Rng rng(test_seed());
  Allocation allocation(64 * 128, rng);
  SharedMemory shared(1024);
  const tma::TensorMap map = matrix(64, 64, 64);
  const auto message = [&](const tma::TensorMap& m, int64_t to, std::vector<int32_t> coordinates) {
    return std::string(tma_load(m, allocation.memory(), shared, to, coordinates).error().message());
  };
  EXPECT_EQ(message(map, 0, {0, 0}), "");
  EXPECT_THAT(message(map, 64, {0, 0}), HasSubstr("shared address 64, expected a multiple of 128"));
  EXPECT_THAT(message(map, 1024, {0, 0}), HasSubstr("leave shared memory of 1024 bytes"));
  EXPECT_THAT(message(map, -128, {0, 0}), HasSubstr("leave shared memory"));
  EXPECT_THAT(message(map, 0, {0, 0, 0}), HasSubstr("3 coordinates for a map of rank 2"));
  tma::TensorMap bad = map;
  bad.box[0] = 128;
  EXPECT_THAT(message(bad, 0, {0, 0}), HasSubstr("tma_load: "));
  bad = map;
  bad.use = tma::Use::gather4;
  EXPECT_THAT(message(bad, 0, {0, 0}), HasSubstr("the map is made for gather4"));
  EXPECT_THAT(
      std::string(
          tma_gather4(map, allocation.memory(), shared, 0, 0, {0, 1, 2, 3}).error().message()),
      HasSubstr("the map is made for tiles"));
  bad = map;
  bad.rank = 3;
  bad.interleave = tma::Interleave::b16;
  bad.swizzle = tma::Swizzle::none;
  EXPECT_EQ(tma_load<3>(bad, allocation.memory(), shared, 0, {}).error().code(), Errc::unsupported);
}

}  // namespace
}  // namespace folio::test
