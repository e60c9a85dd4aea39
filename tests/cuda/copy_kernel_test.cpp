// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/copy_kernel_test.cpp: copies on a device leave the bytes that copies on the CPU
/// leave, in order, whether bytes move or values are converted.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <vector>

#include "attention/append_parts.h"
#include "attention/copy_pair.h"
#include "cuda/append_parts.h"
#include "cuda/copy/copy_lists.h"
#include "cuda/copy/kernels.h"
#include "folio/cache/copy.h"

namespace folio::test {
namespace {

/// Planes of both sides and a list; `from` is `to` where copies stay in one place.
template <class Entry>
struct Copies {
  static constexpr bool of_pages = std::is_same_v<Entry, PageCopy>;
  static constexpr CopyKind kind = of_pages ? CopyKind::page : CopyKind::slot;

  std::vector<const TestPlane*> from, to;
  std::vector<Entry> list;
  int launches = 0;

  [[nodiscard]] static std::vector<KVPlanes> layers_of(
      const std::vector<const TestPlane*>& planes) {
    std::vector<KVPlanes> layers;
    for (size_t i = 0; i < planes.size(); i += 2)
      layers.push_back(
          {planes[i]->view, i + 1 < planes.size() ? planes[i + 1]->view : PagedKVView{}});
    return layers;
  }
  [[nodiscard]] Status on_cpu() const {
    if constexpr (of_pages)
      return copy_pages(layers_of(from), layers_of(to), list, serial_executor());
    else
      return copy_slots(layers_of(from), layers_of(to), list, serial_executor());
  }
  [[nodiscard]] cuda::CopyListView view() const {
    cuda::CopyListView view{list.data(), static_cast<int64_t>(list.size()), of_pages, 1 << 30,
                            1 << 30};
    for (size_t i = 0; i < from.size(); ++i) {
      const auto limit = [](const PagedKVView& v) {
        return v.num_pages * (of_pages ? 1 : v.page_size == unbounded_page_size ? 1 : v.page_size);
      };
      view.from_limit = std::min(view.from_limit, limit(from[i]->view));
      view.to_limit = std::min(view.to_limit, limit(to[i]->view));
    }
    return view;
  }
  std::string run(const cuda::CopyLaunch& launch, const Emulation& how) {
    ++launches;
    const int64_t blocks = how.blocks > 0 ? how.blocks : launch.blocks(how.processors);
    emulator::Grid grid({.blocks = static_cast<int>(blocks),
                         .resident = how.resident,
                         .threads = 256,
                         .shared_bytes = 0,
                         .seed = how.seed});
    grid.add_input("copies", list.data(), static_cast<int64_t>(list.size() * sizeof(Entry)));
    const auto add = [&](const TestPlane& plane) {
      const PagedKVView& v = plane.view;
      grid.add_buffer("plane", v.data, extent_of(v).bytes, true);
      if (v.scales.data == nullptr) return;
      grid.add_buffer("scales", v.scales.data, extent_of_scales(v).bytes, true);
      if (v.scales.tensor_scale != nullptr) grid.add_input("factor", v.scales.tensor_scale, 4);
    };
    for (size_t i = 0; i < to.size(); ++i) {
      add(*to[i]);
      if (from[i] != to[i]) add(*from[i]);
    }
    return grid.run(
        [&](emulator::EmulatedThread& t) { cuda::CopyLists<Entry>::run(t, launch.call()); });
  }
  /// "" or what went wrong.
  std::string on_device(const Emulation& how) {
    cuda::CopyLaunch launch(view());
    for (size_t i = 0; i < from.size(); ++i) {
      const CopyRule rule = copy_rule(from[i]->view, to[i]->view, kind);
      if (launch.add(from[i]->view, to[i]->view, rule.moves, rule.scales_move)) continue;
      if (std::string fault = run(launch, how); !fault.empty()) return fault;
      launch = cuda::CopyLaunch(view());
      if (!launch.add(from[i]->view, to[i]->view, rule.moves, rule.scales_move)) return "no room";
    }
    return launch.is_empty() ? "" : run(launch, how);
  }
};

void randomise(const TestPlane& plane, Rng& rng) {
  std::vector<std::byte> bytes = plane.bytes();
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  TestPlane& same = const_cast<TestPlane&>(plane);
  same.set_bytes(bytes);
  const PagedKVView& v = plane.view;
  if (v.scales.data == nullptr || rng.chance(0.3)) return;
  for (int64_t page = 0; page < v.num_pages; ++page)
    for (int64_t slot = 0; slot < v.page_size; ++slot)
      for (int64_t h = 0; h < v.num_heads; ++h)
        for (int64_t d = 0; d < v.head_size; d += v.scales.granularity)
          reference::store(plane.scale(page, slot, h, d), v.scales.dtype,
                           static_cast<double>(rng.uniform(0.01f, 4.0f)));
}

/// Of shapes that engines have, and of any.
PlaneSpec spec_of(Rng& rng, int32_t page_size, int64_t num_pages) {
  PlaneSpec spec = random_spec(rng, page_size, num_pages);
  if (rng.chance(0.4)) {
    spec.num_heads = rng.int_between(1, 4);
    spec.head_size = rng.chance(0.5) ? 64 : 32;
    spec.gap = rng.chance(0.5) ? 0 : 16;
    if (spec.scales.dtype != DType::invalid) spec.scales.granularity = 32;
  }
  return spec;
}

/// A case: planes twice, so that the CPU and the device each have theirs.
template <class Entry>
struct Twin {
  Twin(Rng& rng, bool in_place, bool converts) {
    const int32_t sizes[] = {1, 3, 16, 64};
    const int32_t from_size = rng.pick(sizes),
                  to_size = Copies<Entry>::of_pages || in_place ? from_size : rng.pick(sizes);
    const int64_t num_pages = rng.between(1, 4);
    const int64_t planes = rng.between(1, 3);
    const PlaneSpec first = spec_of(rng, from_size, num_pages);
    for (int64_t i = 0; i < planes; ++i) {
      PlaneSpec spec = spec_of(rng, from_size, num_pages), other = spec;
      if (rng.chance(0.5)) spec = other = first;
      other.page_size = to_size;
      if (converts && rng.chance(0.7)) {
        other = spec_of(rng, to_size, num_pages + 1);
        other.num_heads = spec.num_heads;
        other.head_size = spec.head_size;
      }
      for (auto* side : {&cpu, &device}) {
        side->push_back(std::make_unique<TestPlane>(spec));
        if (!in_place) side->push_back(std::make_unique<TestPlane>(other));
      }
    }
    for (size_t i = 0; i < cpu.size(); ++i) {
      randomise(*cpu[i], rng);
      device[i]->set_bytes(cpu[i]->bytes());
    }
    for (auto* side : {&cpu, &device}) {
      Copies<Entry>& copies = side == &cpu ? on_cpu : on_device;
      for (size_t i = 0; i < side->size(); i += in_place ? 1 : 2) {
        copies.from.push_back((*side)[i].get());
        copies.to.push_back((*side)[i + (in_place ? 0 : 1)].get());
      }
    }
    const cuda::CopyListView view = on_cpu.view();
    const int64_t size = rng.between(0, 14);
    for (int64_t i = 0; i < size; ++i) {  // few pages: chains are common
      Entry entry;
      entry.from = static_cast<decltype(entry.from)>(rng.between(0, view.from_limit - 1));
      entry.to = static_cast<decltype(entry.to)>(rng.between(0, view.to_limit - 1));
      if constexpr (Copies<Entry>::of_pages) entry.tokens = rng.int_between(0, from_size);
      on_cpu.list.push_back(entry);
    }
    on_device.list = on_cpu.list;
  }
  std::string difference_of() const {
    for (size_t i = 0; i < cpu.size(); ++i) {
      forget_nan_payloads(*cpu[i]);
      forget_nan_payloads(*device[i]);
      const std::string d = difference(device[i]->bytes(), cpu[i]->bytes());
      if (!d.empty()) return "plane " + std::to_string(i) + ": " + d;
      if (!device[i]->slack_untouched()) return "writes behind a plane";
    }
    return {};
  }

  std::vector<std::unique_ptr<TestPlane>> cpu, device;
  Copies<Entry> on_cpu, on_device;
};

template <class Entry>
void compare_with_the_cpu(int rounds) {
  Rng rng(test_seed());
  int done[2][2] = {};
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const bool in_place = rng.chance(0.4), converts = !in_place && rng.chance(0.6);
    Twin<Entry> twin(rng, in_place, converts);
    // what the border refuses, no kernel sees
    if (!twin.on_cpu.on_cpu().is_ok()) continue;
    Emulation how;
    how.processors = rng.int_between(1, 2);
    how.resident = rng.int_between(1, 3);
    how.seed = rng.next();
    ASSERT_EQ(twin.on_device.on_device(how), "");
    ASSERT_EQ(twin.difference_of(), "");
    ++done[in_place][converts];
  }
  EXPECT_GT(done[0][0], rounds / 10);
  EXPECT_GT(done[0][1], rounds / 10);
  EXPECT_GT(done[1][0], rounds / 10);
}

TEST(CopyKernel, pages_are_copied_as_on_the_cpu_one_after_the_other) {
  compare_with_the_cpu<PageCopy>(150);
}

TEST(CopyKernel, slots_are_copied_as_on_the_cpu_one_after_the_other) {
  compare_with_the_cpu<SlotCopy>(150);
}

TEST(CopyKernel, chains_of_any_distance_carry_the_first_page_to_the_last) {
  Rng rng(test_seed());
  for (const int64_t length : {2, 4, 5, 9}) {
    Copies<PageCopy> copies;
    const TestPlane plane({DType::bf16, 2, 64, 4, length + 1});
    randomise(plane, rng);
    const std::vector<std::byte> before = plane.bytes();
    for (int64_t i = 0; i < length; ++i)
      copies.list.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(i + 1), 4});
    copies.from = copies.to = {&plane};
    Emulation how;
    how.seed = rng.next();
    ASSERT_EQ(copies.on_device(how), "");
    const auto page = static_cast<size_t>(plane.view.page_stride_bytes);
    for (int64_t i = 0; i <= length; ++i)
      EXPECT_EQ(
          std::memcmp(plane.bytes().data() + static_cast<size_t>(i) * page, before.data(), page), 0)
          << i << " of " << length;
  }
}

TEST(CopyKernel, the_last_of_several_copies_to_one_page_stays) {
  Rng rng(test_seed());
  Copies<PageCopy> copies;
  const PlaneSpec spec{DType::i8, 2, 64, 4, 12};
  const TestPlane from(spec), to(spec);
  randomise(from, rng);
  for (uint32_t i = 0; i < 11; ++i) copies.list.push_back({i, 3, 4});
  copies.from = {&from};
  copies.to = {&to};
  ASSERT_EQ(copies.on_device({}), "");
  const auto page = static_cast<size_t>(from.view.page_stride_bytes);
  EXPECT_EQ(std::memcmp(to.bytes().data() + 3 * page, from.bytes().data() + 10 * page, page), 0);
}

TEST(CopyKernel, entries_out_of_range_do_nothing) {
  Rng rng(test_seed());
  const PlaneSpec spec{DType::bf16, 2, 64, 4, 3};
  const TestPlane plane(spec);
  randomise(plane, rng);
  const std::vector<std::byte> before = plane.bytes();
  Copies<PageCopy> pages;
  pages.from = pages.to = {&plane};
  pages.list = {
      {3, 0, 4}, {0, 3, 4},  {0xffffffffu, 0, 4}, {0, 0x80000000u, 4},
      {0, 1, 5}, {0, 1, -1}, {0, 1, 0},           {1, 2, std::numeric_limits<int32_t>::min()}};
  EXPECT_EQ(pages.on_device({}), "");
  EXPECT_EQ(plane.bytes(), before);
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = ~least;
  Copies<SlotCopy> slots;
  slots.from = slots.to = {&plane};
  slots.list = {{12, 0}, {0, 12}, {-1, 0}, {0, -1}, {least, 0}, {0, most}, {int64_t{1} << 32, 1}};
  EXPECT_EQ(slots.on_device({}), "");
  EXPECT_EQ(plane.bytes(), before);
}

TEST(CopyKernel, equal_factors_of_tensors_in_two_places_move_bytes_and_others_convert) {
  Rng rng(test_seed());
  for (const float factor : {0.5f, 0.25f}) {
    PlaneSpec spec{DType::i8, 2, 32, 4, 3};
    spec.scales = {DType::f32, 32, true, true, true, false, false, 0.5f};
    const TestPlane from(spec), cpu(spec), device(spec);
    spec.scales.tensor_scale = factor;
    TestPlane to_cpu(spec), to_device(spec);
    randomise(from, rng);
    to_device.set_bytes(to_cpu.bytes());
    Copies<PageCopy> copies;
    copies.list = {{2, 0, 4}, {1, 2, 3}};
    copies.from = {&from};
    copies.to = {&to_cpu};
    ASSERT_TRUE(copies.on_cpu().is_ok());
    copies.to = {&to_device};
    ASSERT_EQ(copies.on_device({}), "");
    EXPECT_EQ(difference(to_device.bytes(), to_cpu.bytes()), "");
  }
}

TEST(CopyKernel, more_planes_or_forms_than_one_argument_holds_take_several_launches) {
  Rng rng(test_seed());
  for (const bool of_one_form : {true, false}) {
    std::vector<std::unique_ptr<TestPlane>> planes;
    Copies<PageCopy> copies;
    std::vector<std::vector<std::byte>> expected;
    const int count = of_one_form ? 2 * cuda::CopyCall::planes_max + 1 : 9;
    for (int i = 0; i < count; ++i) {
      planes.push_back(std::make_unique<TestPlane>(
          PlaneSpec{DType::bf16, 1, of_one_form ? 16 : 8 * (i + 1), 2, 2}));
      randomise(*planes.back(), rng);
      std::vector<std::byte> bytes = planes.back()->bytes();
      std::copy_n(bytes.begin(), bytes.size() / 2,
                  bytes.begin() + static_cast<int64_t>(bytes.size() / 2));
      expected.push_back(bytes);
      copies.from.push_back(planes.back().get());
    }
    copies.to = copies.from;
    copies.list = {{0, 1, 2}};
    ASSERT_EQ(copies.on_device({}), "");
    EXPECT_EQ(copies.launches, 3);
    for (size_t i = 0; i < planes.size(); ++i) EXPECT_EQ(planes[i]->bytes(), expected[i]) << i;
  }
}

/// One of a plane's numbers is `odd` bytes more than a multiple of 16.
TEST(CopyKernel, accesses_are_as_wide_as_all_numbers_of_a_plane_allow) {
  alignas(16) static std::byte memory[2048];
  for (const int64_t odd : {0, 1, 2, 4, 8}) {
    for (size_t which = 0; which < 5; ++which) {
      int64_t numbers[] = {0, 16, 32, 128, 512};  // address, head size, strides
      numbers[which] += odd;
      const auto [address, head_size, head, slot, page] = numbers;
      PagedKVView view{memory + address, DType::i8, 2, 16, 3, 2, page, slot, head};
      view.head_size = static_cast<int32_t>(head_size);
      for (size_t i = 0; i < sizeof memory; ++i)
        memory[i] = static_cast<std::byte>(i * 7 + i / 256);
      const PageCopy copies[] = {{0, 1, 3}};
      cuda::CopyLaunch launch(cuda::CopyListView{copies, 1, true, 2, 2});
      ASSERT_TRUE(launch.add(view, view, true, false));
      EXPECT_EQ(launch.call().planes[0].width, odd == 0 ? 16 : std::min<int64_t>(odd, 4));
      emulator::Grid grid({.blocks = 1, .threads = 256});
      grid.add_buffer("plane", view.data, extent_of(view).bytes, true);
      grid.add_input("list", copies, sizeof copies);
      ASSERT_EQ(grid.run([&](emulator::EmulatedThread& t) {
        cuda::CopyLists<PageCopy>::run(t, launch.call());
      }),
                "")
          << which << " is odd by " << odd;
      for (int64_t row = 0; row < 6; ++row) {
        const std::byte* const from = memory + address + row / 2 * slot + row % 2 * head;
        EXPECT_EQ(std::memcmp(from + page, from, static_cast<size_t>(head_size)), 0);
      }
    }
  }
}

TEST(CopyKernel, pages_lie_gigabytes_apart) {
  constexpr int64_t stride = (int64_t{1} << 32) + 4096, bytes = 4 * stride;
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  auto* const plane = static_cast<unsigned char*>(map);
  for (int64_t i = 0; i < 2048; ++i) plane[i] = static_cast<unsigned char>(i * 7 + i / 256);
  const PagedKVView view{map, DType::bf16, 2, 64, 8, 4, stride, 256, 128};
  const PageCopy pages[] = {{0, 3, 8}, {3, 1, 8}};
  const SlotCopy slots[] = {{9, 16}};  // slot 1 of page 1 to slot 0 of page 2
  const cuda::CopyListView lists[] = {{pages, 2, true, 4, 4}, {slots, 1, false, 32, 32}};
  for (const cuda::CopyListView& list : lists) {
    cuda::CopyLaunch launch(list);
    ASSERT_TRUE(launch.add(view, view, true, false));
    emulator::Grid grid({.blocks = 1, .threads = 256});
    for (int64_t page = 0; page < 4; ++page)
      grid.add_buffer("page", plane + page * stride, 2048, true);
    grid.add_input("list", list.copies, 48);
    ASSERT_EQ(grid.run([&](emulator::EmulatedThread& t) {
      if (list.of_pages)
        cuda::CopyLists<PageCopy>::run(t, launch.call());
      else
        cuda::CopyLists<SlotCopy>::run(t, launch.call());
    }),
              "");
  }
  EXPECT_EQ(std::memcmp(plane + 3 * stride, plane, 2048), 0);
  EXPECT_EQ(std::memcmp(plane + stride, plane, 2048), 0);
  EXPECT_EQ(std::memcmp(plane + 2 * stride, plane + 256, 256), 0);
  munmap(map, bytes);
}

}  // namespace
}  // namespace folio::test
