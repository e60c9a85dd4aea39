// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_stage_test.cpp: staged tiles hold exactly the seen rows, converted exactly, and
/// zeros everywhere else.
///
/// Expected tiles are written element by element from the drawings in stage_keys.h and
/// stage_values.h.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "cpu/amx_stage_entries.h"
#include "cpu/features.h"
#include "folio/cache/page_walk.h"
#include "folio/core/element.h"
#include "support/random.h"

namespace folio::test {
namespace {

struct Shape {
  int head_size;
  int depth;
};
constexpr Shape shapes[] = {{8, 64},    {40, 64},   {64, 64},   {72, 96},   {96, 96},  {112, 128},
                            {128, 128}, {136, 192}, {192, 192}, {200, 256}, {256, 256}};
constexpr DType stored_types[] = {DType::bf16, DType::i8, DType::f8_e4m3, DType::f8_e5m2};
constexpr int pages = 40, slots = 8, heads = 3;

/// A plane of random bytes with odd strides and a tile over it: runs of random lengths with gaps,
/// rows seen or not.
struct Plane {
  Plane(Rng& rng, DType dtype, int head_size) {
    const int64_t element = bit_width(dtype) / 8;
    view.dtype = dtype;
    view.num_heads = heads;
    view.head_size = head_size;
    view.page_size = slots;
    view.num_pages = pages;
    view.head_stride_bytes = head_size * element + 2 * rng.between(0, 3);
    view.slot_stride_bytes = view.head_stride_bytes * heads + 2 * rng.between(0, 5);
    view.page_stride_bytes = view.slot_stride_bytes * slots + 2 * rng.between(0, 9);
    memory.resize(static_cast<size_t>(pages * view.page_stride_bytes));
    for (std::byte& b : memory) b = static_cast<std::byte>(rng.int_between(0, 255));
    view.data = memory.data();
  }

  void make_tile(Rng& rng, bool whole) {
    tile = {};
    for (int key = 0; key < tile_keys;) {
      const auto slot = static_cast<int>(rng.between(0, slots - 1));
      int rows = static_cast<int>(rng.between(1, slots - slot));
      if (rows > tile_keys - key) rows = tile_keys - key;
      if (whole || rng.between(0, 4) != 0)
        tile.run[tile.runs++] = {key, rows, rng.between(0, pages - 1), slot};
      key += rows;
    }
    for (int r = 0; r < tile.runs; ++r)
      for (int i = 0; i < tile.run[r].rows; ++i)
        if (whole || rng.between(0, 3) != 0) tile.seen |= uint64_t{1} << (tile.run[r].first + i);
  }

  /// The run and the row in it of a seen key; false: the key is dead.
  bool find(int key, TileRun& run, int& row) const {
    for (int r = 0; r < tile.runs; ++r) {
      run = tile.run[r];
      row = key - run.first;
      if (row >= 0 && row < run.rows) return (tile.seen >> key & 1) != 0;
    }
    return false;
  }

  /// The bf16 that the staged tile has for dimension d of a key.
  [[nodiscard]] float expected(int key, int head, int d) const {
    TileRun run;
    int row = 0;
    if (d >= view.head_size || !find(key, run, row)) return 0.0f;
    const std::byte* const from = detail::row_of(view, run.page, run.slot + row, head);
    switch (view.dtype) {
      case DType::bf16: {
        bf16 element;
        std::memcpy(&element, from + 2 * d, sizeof element);
        return to_float(element);
      }
      case DType::i8: return static_cast<float>(static_cast<int8_t>(from[d]));
      case DType::f8_e4m3: return to_float(f8_e4m3{static_cast<uint8_t>(from[d])});
      default: return to_float(f8_e5m2{static_cast<uint8_t>(from[d])});
    }
  }

  PagedKVView view;
  KeyTile tile;
  std::vector<std::byte> memory;
};

struct alignas(64) Staged {
  std::byte bytes[64 * 256 * 2];
  [[nodiscard]] float at(int64_t offset) const {
    bf16 element;
    std::memcpy(&element, bytes + offset, sizeof element);
    return to_float(element);
  }
};

int64_t key_offset(int key, int d, int depth) {
  return (key / 16) * (depth / 32) * 1024 + (d / 32) * 1024 + (d % 32) / 2 * 64 + key % 16 * 4 +
         d % 2 * 2;
}
int64_t value_offset(int key, int column) {
  return column / 16 * 2048 + key / 32 * 1024 + key % 32 / 2 * 64 + column % 16 * 4 + key % 2 * 2;
}

/// Same value, sign of zero included; NaN for NaN.
bool is_same(float a, float b) {
  return (a != a && b != b) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

class AmxStage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine_has(Capability::avx512_bf16))
      GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  }
  void expect_staged(const Plane& plane, Operand operand, int depth) {
    for (int head = 0; head < heads; ++head) {
      std::memset(staged_.bytes, 0xff, sizeof staged_.bytes);
      ASSERT_TRUE(stage_tile(operand, plane.view, plane.tile, head, depth, staged_.bytes));
      for (int key = 0; key < tile_keys; ++key)
        for (int d = 0; d < depth; ++d) {
          const int64_t at = operand == Operand::key ? key_offset(key, d, depth)
                                                     : value_offset(key, column_of_dim(d));
          ASSERT_TRUE(is_same(staged_.at(at), plane.expected(key, head, d)))
              << name(plane.view.dtype) << " head size " << plane.view.head_size << " key " << key
              << " dim " << d << ": " << staged_.at(at) << ", expected "
              << plane.expected(key, head, d);
        }
    }
  }
  Staged staged_;
};

TEST_F(AmxStage, any_rows_of_any_stored_type_are_exact_and_dead_rows_are_zero) {
  Rng rng(test_seed() + 11);
  for (const DType dtype : stored_types)
    for (const Shape shape : shapes)
      for (int whole = 0; whole < 2; ++whole) {
        Plane plane(rng, dtype, shape.head_size);
        plane.make_tile(rng, whole == 1);
        for (const Operand operand : {Operand::key, Operand::value})
          ASSERT_NO_FATAL_FAILURE(expect_staged(plane, operand, shape.depth));
      }
}

TEST_F(AmxStage, nothing_behind_a_row_is_read) {
  Rng rng(test_seed() + 12);
  for (const DType dtype : stored_types) {
    Plane plane(rng, dtype, 72);
    plane.make_tile(rng, true);
    std::vector<std::byte> exact(
        static_cast<size_t>(detail::row_offset_bytes(plane.view, pages - 1, slots - 1, heads - 1)) +
        static_cast<size_t>(72 * bit_width(dtype) / 8));
    // ends with the last row: asan sees a byte more
    std::memcpy(exact.data(), plane.memory.data(), exact.size());
    plane.view.data = exact.data();
    plane.tile.run[plane.tile.runs - 1].page = pages - 1;
    plane.tile.run[plane.tile.runs - 1].slot = slots - plane.tile.run[plane.tile.runs - 1].rows;
    ASSERT_NO_FATAL_FAILURE(expect_staged(plane, Operand::key, 96));
    ASSERT_NO_FATAL_FAILURE(expect_staged(plane, Operand::value, 96));
  }
}

TEST_F(AmxStage, scales_of_any_type_and_stride_are_exact_and_those_of_dead_rows_are_zero) {
  Rng rng(test_seed() + 14);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3})
    for (int form = 0; form < 4; ++form) {  // per tensor, head, page, token and head
      Plane plane(rng, DType::i8, 64);
      plane.make_tile(rng, form == 0);
      const int64_t element = bit_width(dtype) / 8;
      ScaleView& scales = plane.view.scales;
      scales.dtype = dtype;
      scales.granularity = 64;
      scales.head_stride_bytes = form == 1 || form == 3 ? element : 0;
      scales.slot_stride_bytes = form == 3 ? element * heads : 0;
      scales.page_stride_bytes = form >= 2 ? element * heads * slots : 0;
      std::vector<std::byte> memory(static_cast<size_t>(element * heads * slots * pages));
      for (std::byte& b : memory) b = static_cast<std::byte>(rng.int_between(0, 255));
      scales.data = memory.data();
      const float tensor_scale = 0.75f;
      if (form % 2 == 1) scales.tensor_scale = &tensor_scale;
      for (int head = 0; head < heads; ++head) {
        alignas(64) float gathered[tile_keys];
        gather_scales(plane.view, plane.tile, head, gathered);
        for (int key = 0; key < tile_keys; ++key) {
          TileRun run;
          int row = 0;
          const float expected =
              plane.find(key, run, row) ? PageCursor::scale(plane.view, run, row, head, 0) : 0.0f;
          ASSERT_TRUE(is_same(gathered[key], expected))
              << name(dtype) << " form " << form << " key " << key << ": " << gathered[key]
              << ", expected " << expected;
        }
      }
    }
}

}  // namespace
}  // namespace folio::test
