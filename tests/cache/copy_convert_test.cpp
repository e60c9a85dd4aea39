// SPDX-License-Identifier: Apache-2.0
/// tests/cache/copy_convert_test.cpp: copies across dtypes and scales, and copies of single slots.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <vector>

#include "attention/append_parts.h"
#include "folio/attention/append.h"
#include "folio/cache/copy.h"
#include "reference/blocks.h"
#include "support/allocations.h"

namespace folio::test {
namespace {

/// Blocks of finite elements.
void fill_blocks(const TestPlane& plane, Rng& rng) {
  const PagedKVView& v = plane.view;
  std::vector<float> row(static_cast<size_t>(v.head_size));
  for (int64_t slot = 0; slot < v.num_pages * v.page_size; ++slot) {
    for (int64_t h = 0; h < v.num_heads; ++h) {
      for (float& x : row) x = rng.uniform(-100.0f, 100.0f);
      reference::store_blocks(plane.element(slot / v.page_size, slot % v.page_size, h, 0), v.dtype,
                              row);
    }
  }
}

/// Finite elements, and scales between 0.01 and 4.
void fill(const TestPlane& plane, Rng& rng) {
  const PagedKVView& v = plane.view;
  if (detail::is_block(v.dtype)) return fill_blocks(plane, rng);
  for (int64_t page = 0; page < v.num_pages; ++page) {
    for (int64_t slot = 0; slot < v.page_size; ++slot) {
      for (int64_t h = 0; h < v.num_heads; ++h) {
        for (int64_t d = 0; d < v.head_size; ++d) {
          reference::store(plane.element(page, slot, h, d), v.dtype,
                           static_cast<double>(rng.uniform(-100.0f, 100.0f)));
          if (v.scales.data == nullptr) continue;
          reference::store(plane.scale(page, slot, h, d), v.scales.dtype,
                           static_cast<double>(rng.uniform(0.01f, 4.0f)));
        }
      }
    }
  }
}

/// What a reader sees of an element.
float value_of(const TestPlane& plane, int64_t page, int64_t slot, int64_t h, int64_t d) {
  const PagedKVView& v = plane.view;
  if (detail::is_block(v.dtype)) {
    double block[32];
    reference::load_block(plane.element(page, slot, h, d - d % 32), v.dtype, block);
    return static_cast<float>(block[d % 32]);
  }
  const auto stored = static_cast<float>(reference::load(plane.element(page, slot, h, d), v.dtype));
  if (v.scales.data == nullptr) return stored;
  const float tensor_scale = v.scales.tensor_scale != nullptr ? *v.scales.tensor_scale : 1.0f;
  return stored *
         (static_cast<float>(reference::load(plane.scale(page, slot, h, d), v.scales.dtype)) *
          tensor_scale);
}

/// One slot by definition: read as floats, appended as float32.
void convert_slot(const TestPlane& from, int64_t from_slot, const TestPlane& to, int64_t to_slot) {
  const PagedKVView& v = from.view;
  std::vector<float> rows(static_cast<size_t>(v.num_heads * v.head_size));
  for (int64_t h = 0; h < v.num_heads; ++h) {
    for (int64_t d = 0; d < v.head_size; ++d) {
      rows[static_cast<size_t>(h * v.head_size + d)] =
          value_of(from, from_slot / v.page_size, from_slot % v.page_size, h, d);
    }
  }
  AppendArgs args;
  args.k = dense_tensor<3>(rows.data(), DType::f32, {1, v.num_heads, v.head_size});
  args.key = to.view;
  args.slots = &to_slot;
  const Status status = append({}, args, serial_executor());
  ASSERT_TRUE(status.is_ok()) << status.message();
}

int64_t slots_of(const PlaneSpec& spec) { return spec.num_pages * int64_t{spec.page_size}; }

/// Up to `most` copies from any slot of one plane to any of the other.
std::vector<SlotCopy> random_copies(Rng& rng, const PlaneSpec& from, const PlaneSpec& to,
                                    int64_t least, int64_t most) {
  std::vector<SlotCopy> copies(static_cast<size_t>(rng.between(least, most)));
  for (SlotCopy& c : copies)
    c = {rng.between(0, slots_of(from) - 1), rng.between(0, slots_of(to) - 1)};
  return copies;
}

/// The list run by the library.
void copy_all(const TestPlane& source, const TestPlane& target, const std::vector<SlotCopy>& copies,
              const Executor& executor) {
  const KVPlanes from[] = {{source.view, {}}}, to[] = {{target.view, {}}};
  const Status status = copy_slots(from, to, copies, executor);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_TRUE(target.slack_untouched());
}

/// A plane of the same heads with another dtype, other scales and another order.
PlaneSpec other_spec(Rng& rng, const PlaneSpec& spec, int32_t page_size) {
  PlaneSpec other = random_spec(rng, page_size, spec.num_pages + 1);
  other.num_heads = spec.num_heads;
  other.head_size = spec.head_size;
  return other;
}

TEST(CopyConvert, pages_of_other_types_hold_the_values_as_append_writes_them) {
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const PlaneSpec spec = random_spec(rng, rng.int_between(1, 6), rng.between(1, 4));
    PlaneSpec other = other_spec(rng, spec, spec.page_size);
    if (other.dtype == spec.dtype)
      other.dtype = spec.dtype == DType::f32 ? DType::bf16 : DType::f32, other.scales = {};
    const TestPlane source(spec);
    TestPlane target(other), wanted(other);
    fill(source, rng);
    calibrate(target, rng);
    wanted.set_bytes(target.bytes());
    std::vector<PageCopy> copies(static_cast<size_t>(rng.between(1, 6)));
    for (PageCopy& c : copies) {
      c = {static_cast<uint32_t>(rng.between(0, spec.num_pages - 1)),
           static_cast<uint32_t>(rng.between(0, other.num_pages - 1)),
           rng.int_between(0, spec.page_size)};
      for (int64_t slot = 0; slot < c.tokens; ++slot) {
        convert_slot(source, c.from * int64_t{spec.page_size} + slot, wanted,
                     c.to * int64_t{spec.page_size} + slot);
      }
    }
    const KVPlanes from[] = {{source.view, {}}}, to[] = {{target.view, {}}};
    const Status status = copy_pages(from, to, copies, default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(difference(target.bytes(), wanted.bytes()), "")
        << name(spec.dtype) << " to " << name(other.dtype);
    EXPECT_TRUE(target.slack_untouched());
  }
}

TEST(CopyConvert, blocks_come_from_any_type_and_become_any_type) {
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    PlaneSpec spec = random_block_spec(rng, rng.int_between(1, 6), rng.between(1, 4));
    PlaneSpec other = rng.chance(0.3) ? random_block_spec(rng, spec.page_size, spec.num_pages + 1)
                                      : random_spec(rng, spec.page_size, spec.num_pages + 1);
    other.num_heads = spec.num_heads;
    other.head_size = spec.head_size;
    if (rng.chance(0.5)) std::swap(spec, other);
    const TestPlane source(spec);
    TestPlane target(other), wanted(other);
    fill(source, rng);
    calibrate(target, rng);
    wanted.set_bytes(target.bytes());
    const std::vector<SlotCopy> copies = random_copies(rng, spec, other, 1, 8);
    for (const SlotCopy& c : copies) {
      convert_slot(source, c.from, wanted, c.to);
      if (spec.dtype != other.dtype) continue;  // bytes move
      for (int64_t h = 0; h < spec.num_heads; ++h) {
        const int64_t p = spec.page_size;
        std::memcpy(wanted.element(c.to / p, c.to % p, h, 0),
                    source.element(c.from / p, c.from % p, h, 0),
                    static_cast<size_t>(row_bytes(spec.dtype, spec.head_size)));
      }
    }
    copy_all(source, target, copies, default_executor(2));
    EXPECT_EQ(difference(target.bytes(), wanted.bytes()), "")
        << name(spec.dtype) << " to " << name(other.dtype);
  }
}

TEST(CopyConvert, slots_move_between_pages_of_any_size_as_if_one_after_the_other) {
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const PlaneSpec spec = random_spec(rng, rng.int_between(1, 6), rng.between(1, 5));
    PlaneSpec other = other_spec(rng, spec, rng.int_between(1, 9));
    if (rng.chance(0.5)) {  // bytes move
      other.dtype = spec.dtype;
      other.scales = spec.scales;
    }
    const TestPlane source(spec);
    TestPlane target(other), expected(other);
    fill(source, rng);
    fill(target, rng);
    expected.set_bytes(target.bytes());
    const std::vector<SlotCopy> copies = random_copies(rng, spec, other, 1, 12);
    for (const SlotCopy& c : copies) convert_slot(source, c.from, expected, c.to);
    copy_all(source, target, copies, default_executor(2));
    // Where bytes moved, scales are those of the source and not made anew: values are compared.
    for (const SlotCopy& c : copies) {
      for (int64_t h = 0; h < spec.num_heads; ++h) {
        for (int64_t d = 0; d < spec.head_size; ++d) {
          const float a = value_of(target, c.to / other.page_size, c.to % other.page_size, h, d);
          const float e = value_of(expected, c.to / other.page_size, c.to % other.page_size, h, d);
          const float step = bit_width(spec.dtype) == 8 && bit_width(other.dtype) == 8
                                 ? std::fabs(e) / 4.0f + 2.0f
                                 : 0.0f;
          ASSERT_NEAR(a, e, step) << name(spec.dtype) << " to " << name(other.dtype);
        }
      }
    }
  }
}

TEST(CopySlots, a_list_within_one_plane_acts_as_if_run_one_after_the_other) {
  Rng rng(test_seed());
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    PlaneSpec spec = random_spec(rng, rng.int_between(1, 6), rng.between(1, 4));
    if (spec.scales.dtype != DType::invalid && rng.chance(0.7))
      spec.scales.page = spec.scales.slot = true;
    if (!spec.scales.slot) spec.scales = {};
    if (spec.scales.is_inline) spec.scales.head = spec.scales.granule = true;
    TestPlane plane(spec), expected(spec);
    fill(plane, rng);
    expected.set_bytes(plane.bytes());
    // few slots: chains and copies of a slot to itself are common
    const std::vector<SlotCopy> copies = random_copies(rng, spec, spec, 0, 14);
    for (const SlotCopy& c : copies) {
      for (int64_t h = 0; h < spec.num_heads; ++h) {
        for (int64_t d = 0; d < spec.head_size; ++d) {
          const int64_t p = spec.page_size;
          std::memmove(expected.element(c.to / p, c.to % p, h, d),
                       expected.element(c.from / p, c.from % p, h, d),
                       static_cast<size_t>(bit_width(spec.dtype) / 8));
          if (spec.scales.dtype == DType::invalid) continue;
          std::memmove(expected.scale(c.to / p, c.to % p, h, d),
                       expected.scale(c.from / p, c.from % p, h, d),
                       static_cast<size_t>(bit_width(spec.scales.dtype) / 8));
        }
      }
    }
    copy_all(plane, plane, copies, rng.chance(0.5) ? default_executor(2) : reversed_executor());
    EXPECT_EQ(difference(plane.bytes(), expected.bytes()), "") << name(spec.dtype);
  }
}

TEST(CopyPages, cutting_a_plane_into_parts_does_not_show) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    PlaneSpec spec{
        DType::i8, 4,  64,
        32,        40, rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major};
    spec.scales = {DType::f32, 64, true, rng.chance(0.5), true, true};
    PlaneSpec wide = spec;
    wide.dtype = DType::bf16;
    wide.scales = {};
    const TestPlane source(spec);
    fill(source, rng);
    std::vector<PageCopy> copies;
    for (int i = 0; i < 60; ++i) {
      copies.push_back({static_cast<uint32_t>(rng.between(0, 39)),
                        static_cast<uint32_t>(rng.between(0, 39)), rng.int_between(1, 32)});
    }
    for (const bool converts : {false, true}) {
      TestPlane one(converts ? wide : spec), many(converts ? wide : spec);
      if (!converts) one.set_bytes(source.bytes()), many.set_bytes(source.bytes());
      const KVPlanes from[] = {{source.view, {}}}, to_one[] = {{one.view, {}}},
                     to_many[] = {{many.view, {}}};
      ASSERT_EQ(copy_pages(converts ? from : to_one, to_one, copies, serial_executor()).message(),
                "");
      ASSERT_EQ(
          copy_pages(converts ? from : to_many, to_many, copies, reversed_executor()).message(),
          "");
      EXPECT_EQ(difference(many.bytes(), one.bytes()), "");
    }
  }
}

TEST(CopyPages, planes_with_different_scales_of_the_whole_tensor_keep_their_values) {
  PlaneSpec spec;
  spec.dtype = DType::i8;
  spec.scales = {DType::f32, 16, false, false, false, false};
  const TestPlane source(spec), target(spec);
  reference::store(source.view.scales.data, DType::f32, 0.5);
  reference::store(target.view.scales.data, DType::f32, 0.25);
  reference::store(source.element(2, 1, 0, 3), DType::i8, 42.0);
  const KVPlanes from[] = {{source.view, {}}}, to[] = {{target.view, {}}};
  const PageCopy copies[] = {{2, 0, 4}};
  ASSERT_TRUE(copy_pages(from, to, copies, serial_executor()).is_ok());
  EXPECT_EQ(value_of(source, 2, 1, 0, 3), 21.0f);
  EXPECT_EQ(value_of(target, 0, 1, 0, 3), 21.0f);
  EXPECT_EQ(reference::load(target.element(0, 1, 0, 3), DType::i8), 84.0);
}

TEST(CopyConvert, a_NaN_stays_one_in_fp8_and_becomes_0_in_i8) {
  PlaneSpec wide, narrow;
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    narrow.dtype = dtype;
    const TestPlane source(wide), target(narrow);  // all NaN
    const KVPlanes from[] = {{source.view, {}}}, to[] = {{target.view, {}}};
    const PageCopy copies[] = {{0, 1, 4}};
    ASSERT_TRUE(copy_pages(from, to, copies, serial_executor()).is_ok());
    const double stored = reference::load(target.element(1, 3, 1, 15), dtype);
    if (dtype == DType::i8) {
      EXPECT_EQ(stored, 0.0);
    } else {
      EXPECT_TRUE(std::isnan(stored));
    }
  }
}

TEST(CopySlots, rows_of_planes_without_pages_are_slots) {
  TestPlane rows({DType::f32, 2, 8, 1, 20}), paged({DType::bf16, 2, 8, 4, 5});
  rows.view.page_size = unbounded_page_size;
  rows.view.slot_stride_bytes = rows.view.page_stride_bytes;
  for (int64_t d = 0; d < 8; ++d)
    reference::store(rows.element(17, 0, 1, d), DType::f32, static_cast<double>(d));
  const KVPlanes from[] = {{rows.view, {}}}, to[] = {{paged.view, {}}};
  const SlotCopy copies[] = {{17, 9}};
  ASSERT_EQ(copy_slots(from, to, copies, serial_executor()).message(), "");
  for (int64_t d = 0; d < 8; ++d)
    EXPECT_EQ(reference::load(paged.element(2, 1, 1, d), DType::bf16), static_cast<double>(d));
}

TEST(CopySlots, slots_are_reached_beyond_2_to_the_32_bytes) {
  constexpr int64_t row = 64 * 4, page = 16 * row, num_pages = (int64_t{9} << 30) / page;
  void* map = mmap(nullptr, num_pages * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) GTEST_SKIP() << "no 9 GiB of address space here";
  const PagedKVView view{map, DType::f32, 1, 64, 16, num_pages, page, row, row};
  const KVPlanes layers[] = {{view, {}}};
  const int64_t far = num_pages * 16 - 3;
  auto* first = static_cast<float*>(map) + 5 * 64;
  *first = 42.0f;
  const SlotCopy copies[] = {{5, far}, {far, far - 1}, {far - 1, 0}};
  ASSERT_EQ(copy_slots(layers, layers, copies, serial_executor()).message(), "");
  EXPECT_EQ(static_cast<float*>(map)[far * 64], 42.0f);
  EXPECT_EQ(static_cast<float*>(map)[0], 42.0f);
  munmap(map, num_pages * page);
}

TEST(CopySlots, copying_allocates_nothing) {
  const TestPlane plane({});
  PlaneSpec spec;
  spec.dtype = DType::f8_e5m2;
  spec.scales = {DType::f32, 8, true, true, true, true};
  const TestPlane other(spec);
  const KVPlanes from[] = {{plane.view, plane.view}}, to[] = {{other.view, other.view}};
  const SlotCopy copies[] = {{0, 1}, {7, 3}};
  const int64_t before = allocations();
  const Status moved = copy_slots(from, from, copies, serial_executor());
  const Status converted = copy_slots(from, to, copies, serial_executor());
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(moved.is_ok());
  EXPECT_TRUE(converted.is_ok());
}

}  // namespace
}  // namespace folio::test
