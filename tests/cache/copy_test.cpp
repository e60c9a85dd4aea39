// SPDX-License-Identifier: Apache-2.0
/// tests/cache/copy_test.cpp: which bytes copy_pages moves, and what it refuses.
#include "folio/cache/copy.h"

#include <gtest/gtest.h>

#include <vector>

#include "folio/core/execution.h"
#include "support/allocations.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

void copy_bytes(const std::byte* from, std::byte* to, int bits) {
  std::memmove(to, from, static_cast<size_t>(bits / 8));
}

/// One copy by definition: element by element, scale by scale.
void copy_naively(const TestPlane& from, const TestPlane& to, const PageCopy& copy) {
  const PagedKVView& v = from.view;
  for (int64_t slot = 0; slot < copy.tokens; ++slot) {
    for (int64_t head = 0; head < v.num_heads; ++head) {
      for (int64_t d = 0; d < v.head_size; ++d) {
        copy_bytes(from.element(copy.from, slot, head, d), to.element(copy.to, slot, head, d),
                   bit_width(v.dtype));
        if (v.scales.data == nullptr || v.scales.page_stride_bytes == 0) continue;
        copy_bytes(from.scale(copy.from, slot, head, d), to.scale(copy.to, slot, head, d),
                   bit_width(v.scales.dtype));
      }
    }
  }
}

void randomise(TestPlane& plane, Rng& rng) {
  std::vector<std::byte> bytes = plane.bytes();
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  plane.set_bytes(bytes);
}

std::vector<PageCopy> random_copies(Rng& rng, const PlaneSpec& spec) {
  std::vector<PageCopy> copies(static_cast<size_t>(rng.between(0, 12)));
  // few pages: chains, swaps and copies of a page to itself are common
  for (PageCopy& c : copies) {
    c.from = static_cast<uint32_t>(rng.between(0, spec.num_pages - 1));
    c.to = static_cast<uint32_t>(rng.between(0, spec.num_pages - 1));
    c.tokens = rng.int_between(0, spec.page_size);
  }
  return copies;
}

PlaneSpec random_spec(Rng& rng) {
  const DType dtypes[] = {DType::f32, DType::bf16, DType::i8};
  const DType scale_dtypes[] = {DType::f32, DType::f16, DType::f8_e8m0};
  PlaneSpec spec;
  spec.dtype = rng.pick(dtypes);
  spec.num_heads = rng.int_between(1, 4);
  spec.head_size = rng.int_between(1, 20);
  spec.page_size = rng.int_between(1, 6);
  spec.num_pages = rng.between(1, 4);
  spec.order = rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major;
  spec.gap = rng.between(0, 2);
  if (rng.chance(0.7)) {
    spec.scales = {rng.pick(scale_dtypes), rng.int_between(1, 8), rng.chance(0.7), rng.chance(0.7),
                   rng.chance(0.7),        rng.chance(0.7),       rng.chance(0.3)};
  }
  return spec;
}

TEST(CopyPages, a_list_of_copies_acts_as_if_run_one_after_the_other) {
  Rng rng(test_seed());
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    const PlaneSpec spec = random_spec(rng);
    std::vector<TestPlane> planes, expected;
    for (int i = 0; i < 3; ++i) {
      planes.emplace_back(spec);
      expected.emplace_back(spec);
      randomise(planes.back(), rng);
      expected.back().set_bytes(planes.back().bytes());
    }
    const KVPlanes layers[] = {{planes[0].view, planes[1].view}, {planes[2].view, {}}};
    const std::vector<PageCopy> copies = random_copies(rng, spec);
    for (const PageCopy& copy : copies) {
      for (const TestPlane& plane : expected) copy_naively(plane, plane, copy);
    }
    const Status status = copy_pages(layers, layers, copies, default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (size_t i = 0; i < planes.size(); ++i) {
      EXPECT_EQ(planes[i].bytes(), expected[i].bytes()) << "gaps included";
      EXPECT_TRUE(planes[i].slack_untouched());
    }
  }
}

/// What folio/cache/page_table.h says of a list of any origin: here no other order gives the same.
TEST(CopyPages, a_copy_reads_what_one_before_it_wrote) {
  TestPlane plane({.num_pages = 4});
  Rng rng(test_seed());
  randomise(plane, rng);
  const auto page = [&](int64_t i) {
    const auto bytes = static_cast<size_t>(plane.view.page_stride_bytes);
    const std::vector<std::byte> all = plane.bytes();
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * plane.view.page_stride_bytes);
    return std::vector<std::byte>(first, first + static_cast<std::ptrdiff_t>(bytes));
  };
  const std::vector<std::byte> first = page(0);
  const KVPlanes layers[] = {{plane.view, {}}};
  const int32_t all = plane.view.page_size;
  const PageCopy chain[] = {{0, 1, all}, {1, 2, all}, {2, 3, all}};
  ASSERT_TRUE(copy_pages(layers, layers, chain, default_executor(2)).is_ok());
  for (int64_t i = 1; i < 4; ++i) EXPECT_EQ(page(i), first) << i;
}

TEST(CopyPages, planes_of_different_strides_exchange_pages) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    PlaneSpec spec = random_spec(rng);
    spec.scales.page = true;  // a scale of all pages would be another one in each plane
    PlaneSpec other = spec;
    other.order = spec.order == StorageOrder::token_major ? StorageOrder::head_major
                                                          : StorageOrder::token_major;
    other.gap = rng.between(0, 3);
    other.num_pages = spec.num_pages + 2;
    TestPlane source(spec), target(other), expected(other);
    randomise(source, rng);
    const KVPlanes from[] = {{source.view, {}}};
    const KVPlanes to[] = {{target.view, {}}};
    const std::vector<PageCopy> copies = random_copies(rng, spec);
    for (const PageCopy& copy : copies) copy_naively(source, expected, copy);
    const Status status = copy_pages(from, to, copies, serial_executor());
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(target.bytes(), expected.bytes());
  }
}

TEST(CopyPages, a_scale_of_the_whole_tensor_stays) {
  PlaneSpec spec;
  spec.dtype = DType::i8;
  spec.scales = {DType::f32, 16, false, false, true, false, false};
  TestPlane plane(spec);
  Rng rng(test_seed());
  randomise(plane, rng);
  float before[2], after[2];
  std::memcpy(before, plane.view.scales.data, sizeof before);
  const KVPlanes layers[] = {{plane.view, {}}};
  const PageCopy copies[] = {{0, 1, 4}};
  ASSERT_TRUE(copy_pages(layers, layers, copies, serial_executor()).is_ok());
  std::memcpy(after, plane.view.scales.data, sizeof after);
  EXPECT_EQ(std::memcmp(before, after, sizeof before), 0);
}

TEST(CopyPages, nothing_is_written_when_one_copy_is_refused) {
  TestPlane plane({});
  Rng rng(test_seed());
  randomise(plane, rng);
  const std::vector<std::byte> before = plane.bytes();
  const KVPlanes layers[] = {{plane.view, {}}};
  for (const PageCopy& bad :
       {PageCopy{5, 0, 1}, PageCopy{0, 5, 1}, PageCopy{0, 1, 5}, PageCopy{0, 1, -1}}) {
    const PageCopy copies[] = {{0, 1, 4}, bad};
    EXPECT_EQ(copy_pages(layers, layers, copies, serial_executor()).code(), Errc::invalid_argument);
    EXPECT_EQ(plane.bytes(), before);
  }
}

TEST(CopyPages, nothing_to_copy_is_success) {
  TestPlane plane({});
  const KVPlanes layers[] = {{plane.view, {}}};
  EXPECT_TRUE(copy_pages(layers, layers, {}, serial_executor()).is_ok());
  const PageCopy copies[] = {{0, 1, 4}};
  EXPECT_TRUE(copy_pages({}, {}, copies, serial_executor()).is_ok());
}

TEST(CopySlots, scales_that_heads_share_move_in_order_whatever_runs_at_once) {
  PlaneSpec spec;
  spec.dtype = DType::i8;
  spec.num_heads = 4;
  spec.head_size = 64;
  spec.scales = {DType::f32, 64, true, true, false, false};
  TestPlane plane(spec), expected(spec);
  Rng rng(test_seed());
  randomise(plane, rng);
  expected.set_bytes(plane.bytes());
  // rounds that turn all slots by one place, by way of the last; enough of them for several tasks
  // per plane
  std::vector<SlotCopy> copies;
  for (int round = 0; round < 205; ++round) {
    copies.push_back({0, 19});
    for (int64_t slot = 1; slot < 20; ++slot) copies.push_back({slot, slot - 1});
  }
  for (const SlotCopy& c : copies) {
    for (int64_t head = 0; head < 4; ++head) {
      for (int64_t d = 0; d < 64; ++d)
        *expected.element(c.to / 4, c.to % 4, head, d) =
            *expected.element(c.from / 4, c.from % 4, head, d);
    }
    copy_bytes(expected.scale(c.from / 4, c.from % 4, 0, 0),
               expected.scale(c.to / 4, c.to % 4, 0, 0), 32);
  }
  Executor one_after_the_other = serial_executor();
  one_after_the_other.concurrency = [](void*) { return 8; };
  const KVPlanes layers[] = {{plane.view, {}}};
  ASSERT_EQ(copy_slots(layers, layers, copies, one_after_the_other).message(), "");
  EXPECT_EQ(plane.bytes(), expected.bytes());
}

TEST(CopyPages, copying_allocates_nothing) {
  TestPlane plane({});
  const KVPlanes layers[] = {{plane.view, plane.view}};
  const PageCopy copies[] = {{0, 1, 4}, {2, 3, 1}};
  const int64_t before = allocations();
  const Status status = copy_pages(layers, layers, copies, serial_executor());
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(status.is_ok());
}

}  // namespace
}  // namespace folio::test
