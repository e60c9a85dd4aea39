// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/append_kernel_test.cpp: append on a device writes the bytes that append on the CPU
/// writes, whatever the types, scales, strides, pages and schedules.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <limits>
#include <map>
#include <numeric>

#include "attention/append_parts.h"
#include "cuda/append_parts.h"
#include "support/pairwise.h"

namespace folio::test {
namespace {

cuda::AppendCall call_of(const Batch& batch, const AppendArgs& args) {
  cuda::AppendCall call;
  call.planes[0].source = args.k;
  call.planes[0].target = args.key;
  call.num_planes = 1;
  if (args.v.data != nullptr) {
    call.planes[1].source = args.v;
    call.planes[1].target = args.value;
    call.num_planes = 2;
  }
  call.places = args.slots != nullptr ? cuda::Places::slots : cuda::Places::table;
  call.tokens = args.k.extent[0];
  call.slots = args.slots;
  const int64_t page_size = args.key.page_size == unbounded_page_size ? 1 : args.key.page_size;
  call.num_slots = args.key.num_pages * page_size;
  call.batch = batch;
  if (args.rope != nullptr) call.rope = *args.rope;
  call.norm = args.k_norm;
  call.norm_eps = args.norm_eps;
  return call;
}

/// What the covering design varies, by number.
enum Factor { source, dtype, form, scale, norm, rope, shape, pages, places, order, gap, factors };
constexpr int levels[factors] = {3, 6, 8, 5, 2, 4, 7, 4, 2, 2, 3};

struct Shape {
  int32_t heads, head_size;
};
constexpr Shape shapes[] = {{1, 128}, {5, 64}, {3, 128}, {2, 256}, {1, 576}, {9, 16}, {2, 42}};

ScaleSpec scales_of(int form, int scale, DType stored, int32_t head_size) {
  const DType dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3};
  ScaleSpec s;
  if (form == 0) return s;
  s.dtype = dtypes[scale];
  s.granularity = head_size;
  const bool computed = bit_width(stored) == 8 && form > 2;
  s.page = s.slot = computed;
  s.head = form != 1;
  if (form == 4) s.head = false;  // a token's heads share one
  if (form >= 5) {
    s.granularity = form == 5 ? 32 : form == 6 ? 24 : 16;
    s.granule = true;
    s.head = form != 7;
  }
  if (form == 2 || form == 5) s.tensor_scale = 0.37f;
  return s;
}

/// A rotation that vectors can be read for (1: half-split, 2: neighbours), or any (3).
struct Rotation {
  Rotation(Rng& rng, int level, int32_t head_size) {
    rope.rows = 64;
    rope.interleaved = level == 2 || (level == 3 && rng.chance(0.5));
    rope.dims = level == 1 ? head_size / 16 * 16 : level == 2 ? head_size / 8 * 8 : 0;
    if (level == 3) rope.dims = 2 * rng.int_between(1, head_size / 2);
    rope.first_dim = level == 3 ? rng.int_between(0, head_size - rope.dims) : 0;
    if (level == 1 && head_size > 512) rope.first_dim = 512, rope.dims = 64;  // as MLA has it
    table = GuardedMemory(rope.rows * rope.dims * 4, 4);
    for (int64_t i = 0; i < rope.rows * rope.dims; ++i)
      table.as<float>()[i] = rng.uniform(-1.5f, 1.5f);
    rope.cos_sin = table.as<float>();
    weights = GuardedMemory(head_size * int64_t{4}, 4);
    for (int32_t i = 0; i < head_size; ++i) weights.as<float>()[i] = rng.uniform(-2.0f, 2.0f);
  }
  Rope rope;
  GuardedMemory table, weights;
};

struct Case {
  explicit Case(const std::vector<int>& row, Rng& rng)
      : page_size(std::vector<int32_t>{1, 3, 16, 64}[static_cast<size_t>(row[pages])]),
        num_pages(page_size < 4 ? 40 : 6),
        step(rng, page_size, num_pages),
        rotation(rng, row[rope], shapes[row[shape]].head_size) {
    const DType sources[] = {DType::bf16, DType::f16, DType::f32};
    const DType dtypes[] = {DType::bf16,    DType::f16,     DType::f32,
                            DType::f8_e4m3, DType::f8_e5m2, DType::i8};
    const Shape s = shapes[row[shape]];
    for (int i = 0; i < 2; ++i) {
      PlaneSpec spec{dtypes[(row[dtype] + i) % 6], s.heads, s.head_size, page_size, num_pages};
      spec.order = row[order] == 0 ? StorageOrder::token_major : StorageOrder::head_major;
      const int64_t gaps[] = {0, 16, 1};
      spec.gap = gaps[row[gap]];
      spec.scales = scales_of((row[form] + 3 * i) % 8, row[scale], spec.dtype, s.head_size);
      for (auto* list : {&actual, &expected}) list->emplace_back(spec);
      calibrate(actual.back(), rng);
      expected.back().set_bytes(actual.back().bytes());
      given.emplace_back(sources[(row[source] + (i * row[gap]) % 2) % 3], step.tokens, s.heads,
                         s.head_size, gaps[row[gap]]);
      given.back().randomise(rng, rng.chance(0.5));
    }
    slots = step.slots(page_size, num_pages);
    args.k = given[0].tensor;
    args.v = given[1].tensor;
    if (row[places] == 0) args.slots = slots.data();
    if (row[norm] == 1) args.k_norm = rotation.weights.as<float>();
    if (row[rope] > 0) args.rope = &rotation.rope;
  }

  [[nodiscard]] AppendArgs args_of(const std::vector<TestPlane>& planes) const {
    AppendArgs result = args;
    result.key = planes[0].view;
    result.value = planes[1].view;
    return result;
  }
  /// "" or where the device's bytes and the CPU's differ.
  std::string run(const Emulation& how, std::vector<std::string>* kernels) {
    Emulation with = how;
    with.entries = step.table.data();
    with.num_entries = step.table.bytes() / 4;
    const AppendArgs device = args_of(actual), host = args_of(expected);
    const Status status = append(step.batch, host, serial_executor());
    if (!status.is_ok()) return std::string(status.message());
    const std::string fault = emulate(call_of(step.batch, device), with, kernels);
    if (!fault.empty()) return fault;
    for (size_t i = 0; i < 2; ++i) {
      forget_nan_payloads(actual[i]);
      forget_nan_payloads(expected[i]);
      const std::string d = difference(actual[i].bytes(), expected[i].bytes());
      if (!d.empty()) return (i == 0 ? "key: " : "value: ") + d;
      if (!actual[i].slack_untouched()) return "writes behind the plane";
    }
    return {};
  }

  int32_t page_size;
  int64_t num_pages;
  Step step;
  Rotation rotation;
  std::vector<TestPlane> actual, expected;
  std::vector<Source> given;
  std::vector<int64_t> slots;
  AppendArgs args;
};

TEST(AppendKernel, writes_the_bytes_of_the_cpu_for_every_pair_of_types_scales_shapes_and_places) {
  Rng rng(test_seed());
  std::map<std::string, int> used;
  for (int round = 0; round < 4; ++round) {
    const PairwiseDesign rows(levels, rng.next());
    for (const std::vector<int>& row : rows.rows()) {
      std::string name;
      for (const int level : row) name += std::to_string(level) + " ";
      SCOPED_TRACE(name);
      Case c(row, rng);
      if (c.step.tokens == 0) continue;
      Emulation how;
      how.processors = rng.int_between(1, 3);
      how.resident = rng.int_between(1, 3);
      how.seed = rng.next();
      std::vector<std::string> kernels;
      ASSERT_EQ(c.run(how, &kernels), "") << kernels.back();
      for (const std::string& kernel : kernels) ++used[kernel];
    }
  }
  const char* const all[] = {"append_64",
                             "append_128",
                             "append_256",
                             "append_64_general",
                             "append_128_general",
                             "append_256_general",
                             "append_elements",
                             "append_128_general_f32",
                             "append_256_general_f32"};
  for (const char* kernel : all) EXPECT_GT(used[kernel], 0) << kernel;
  for (const auto& [kernel, times] : used) RecordProperty(kernel, times);
}

/// A source and a plane of one geometry, slots in a row.
struct Simple {
  Simple(DType from, const PlaneSpec& spec, int64_t tokens)
      : given(from, tokens, spec.num_heads, spec.head_size, 0), actual(spec), expected(spec) {
    for (int64_t t = 0; t < tokens; ++t) slots.push_back(tokens - 1 - t);
    args.k = given.tensor;
    args.slots = slots.data();
  }
  /// "" or where the bytes differ; `cpu` where the CPU is not to be given what the device is.
  std::string run(const Emulation& how, const Batch& batch = {}, const AppendArgs* cpu = nullptr) {
    AppendArgs device = args, host = cpu != nullptr ? *cpu : args;
    device.key = actual.view;
    host.key = expected.view;
    const Status status = append(batch, host, serial_executor());
    if (!status.is_ok()) return std::string(status.message());
    kernels.clear();
    const std::string fault = emulate(call_of(batch, device), how, &kernels);
    if (!fault.empty()) return fault;
    forget_nan_payloads(actual);
    forget_nan_payloads(expected);
    return difference(actual.bytes(), expected.bytes());
  }

  Source given;
  TestPlane actual, expected;
  std::vector<int64_t> slots;
  AppendArgs args;
  std::vector<std::string> kernels;
};

TEST(AppendKernel, squares_are_summed_in_sixteen_chains_to_the_last_bit) {
  Rng rng(test_seed());
  for (const int32_t head_size : {8, 64, 120, 128, 256, 264, 576, 39}) {
    SCOPED_TRACE(head_size);
    Simple s(DType::f32, {DType::f32, 3, head_size, 16, 2}, 20);
    s.given.randomise(rng, false);
    std::vector<float> weights(static_cast<size_t>(head_size), 1.0f);
    s.args.k_norm = weights.data();
    EXPECT_EQ(s.run({}), "");
    EXPECT_EQ(s.kernels[0] == "append_elements", head_size % 8 != 0);
  }
}

TEST(AppendKernel, quotients_are_rounded_once_whatever_the_scale) {
  Rng rng(test_seed());
  // of the smallest subnormal number, beyond the reach of reciprocals, zero, and not a number
  const float sizes[] = {1e-45f, 3e-39f, 1e-30f, 1e-6f, 1.0f, 1e25f, 3e38f, 0.0f};
  for (const DType dtype : {DType::i8, DType::f8_e4m3, DType::f8_e5m2}) {
    for (const bool computed : {true, false}) {
      for (const float size : sizes) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(size));
        ScaleSpec scales{DType::f32, 128, computed, computed, true, false};
        Simple s(DType::f32, {dtype, 2, 128, 16, 2, StorageOrder::token_major, 0, scales}, 20);
        for (int64_t t = 0; t < 20; ++t)
          for (int64_t h = 0; h < 2; ++h)
            for (int64_t d = 0; d < 128; ++d)
              s.given.set(
                  t, h, d,
                  t % 5 == 4 ? rng.uniform(-3e38f, 3e38f) : size * rng.uniform(-1.0f, 1.0f));
        for (const TestPlane* plane : {&s.actual, &s.expected}) {
          for (int64_t h = 0; h < 2 && !computed; ++h) {
            const float scale = h == 0 ? size : -size;
            std::memcpy(plane->scale(0, 0, h, 0), &scale, 4);
          }
        }
        EXPECT_EQ(s.run({}), "");
        EXPECT_EQ(s.kernels[0], "append_128_general_f32");
      }
    }
  }
}

TEST(AppendKernel, finds_the_sequence_of_a_token_among_many_empty_ones) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    constexpr int32_t sequences = 37;
    std::vector<int32_t> offsets{0}, contexts, starts;
    for (int32_t b = 0; b < sequences; ++b) {
      const int32_t fresh = rng.chance(0.5) ? 0 : rng.int_between(1, 3);
      offsets.push_back(offsets.back() + fresh);
      contexts.push_back(fresh + rng.int_between(0, 5));
      starts.push_back(rng.int_between(0, 5));
    }
    const int64_t tokens = offsets.back();
    std::vector<uint32_t> entries(sequences * 8);
    std::iota(entries.begin(), entries.end(), 0u);
    rng.shuffle(entries);
    std::vector<float> angles(64 * 128);
    for (float& x : angles) x = rng.uniform(-1.0f, 1.0f);
    const Rope rope{angles.data(), 64, 128, false, 0, nullptr};
    Simple s(DType::bf16, {DType::bf16, 1, 128, 1, sequences * 8}, tokens);
    s.given.randomise(rng, false);
    s.args.slots = nullptr;
    s.args.rope = &rope;
    Batch batch{sequences, offsets.data(), contexts.data(), {entries.data(), 8, nullptr}};
    if (round % 3 == 1) batch.query_positions = starts.data();
    if (round % 3 == 2) batch.key_positions = starts.data();
    Emulation how;
    how.entries = entries.data();
    how.num_entries = static_cast<int64_t>(entries.size());
    how.seed = rng.next();
    EXPECT_EQ(s.run(how, batch), "");
  }
}

TEST(AppendKernel, tokens_without_a_place_are_skipped_and_no_offset_leads_astray) {
  Rng rng(test_seed());
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  Simple s(DType::bf16, {DType::bf16, 2, 64, 16, 2}, 9);
  s.given.randomise(rng, false);
  std::vector<float> angles(8 * 64, 0.5f);
  const int32_t positions[] = {0, 7, 8, -1, 3, std::numeric_limits<int32_t>::min(), 1, 2, 3};
  const Rope rope{angles.data(), 8, 64, false, 0, positions};
  s.args.rope = &rope;
  const std::vector<int64_t> given{0, 1, 2, 3, -1, 4, 32, least, 31};  // of slots 0 to 31
  // what the CPU gets of these: it refuses slots and positions that are out of range
  const std::vector<int64_t> valid{0, 1, -1, -1, -1, -1, -1, -1, 31};
  AppendArgs cpu = s.args;
  cpu.slots = valid.data();
  s.args.slots = given.data();
  EXPECT_EQ(s.run({}, {}, &cpu), "");

  const int32_t contexts[] = {9, 9, 9, 9};
  const uint32_t entries[] = {0, 1, 0, 1};
  const int32_t lists[][5] = {{0, 9, 3, 7, 9},      {0, 0, 0, 0, 0},   {9, 9, 9, 9, 9},
                              {-5, -4, -3, -2, -1}, {0, 20, -7, 2, 1}, {3, 2, 1, 0, 0}};
  for (const auto& offsets : lists) {
    AppendArgs args = s.args;
    args.slots = nullptr;
    args.rope = nullptr;
    args.key = s.actual.view;
    Emulation how;
    how.entries = entries;
    how.num_entries = 4;
    EXPECT_EQ(emulate(call_of({4, offsets, contexts, {entries, 1, nullptr}}, args), how), "");
  }
  EXPECT_TRUE(s.actual.slack_untouched());
}

TEST(AppendKernel, no_schedule_and_no_number_of_blocks_shows) {
  Rng rng(test_seed());
  const ScaleSpec scales{DType::f32, 32, true, true, true, true};
  std::vector<float> weights(128, 1.5f), angles(32 * 128);
  for (float& x : angles) x = rng.uniform(-1.0f, 1.0f);
  std::vector<int32_t> positions(24);
  std::iota(positions.begin(), positions.end(), 0);
  const Rope rope{angles.data(), 32, 128, false, 0, positions.data()};
  for (const int64_t blocks : {1, 2, 5, 24}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      Simple s(DType::bf16, {DType::f8_e4m3, 4, 128, 16, 2, StorageOrder::head_major, 0, scales},
               24);
      Rng same(7);
      s.given.randomise(same, false);
      s.args.k_norm = weights.data();
      s.args.rope = &rope;
      Emulation how;
      how.blocks = blocks;
      how.seed = seed;
      how.resident = static_cast<int>(seed);
      how.processors = static_cast<int32_t>(seed) * 7;
      EXPECT_EQ(s.run(how), "") << blocks << " blocks, seed " << seed;
    }
  }
}

TEST(AppendKernel, pages_lie_gigabytes_apart) {
  constexpr int64_t stride = (int64_t{1} << 32) + 4096;
  constexpr int64_t bytes = 3 * stride;
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  Rng rng(test_seed());
  for (const int32_t head_size : {128, 41}) {
    const Source given(DType::bf16, 3, 2, head_size, 0);
    given.randomise(rng, false);
    const int64_t slots[] = {0, 16, 40};
    AppendArgs args;
    args.k = given.tensor;
    args.slots = slots;
    args.key = {map, DType::bf16, 2, head_size, 16, 3, stride, 512, 256};
    cuda::AppendCall call = call_of({}, args);
    const cuda::AppendLaunches launches = cuda::append_launches(call, 1);
    emulator::Grid grid({.blocks = 1, .threads = 256});
    grid.add_input("source", given.tensor.data, extent_of(given.tensor).bytes);
    grid.add_input("slots", slots, sizeof slots);
    for (int64_t page = 0; page < 3; ++page)
      grid.add_buffer("page", static_cast<std::byte*>(map) + page * stride, 16 * 512, true);
    ASSERT_EQ(run_instance(launches.launch[0].kernel, grid, launches.launch[0].call), "");
    for (int64_t t = 0; t < 3; ++t) {
      const auto* row =
          static_cast<const std::byte*>(map) + slots[t] / 16 * stride + slots[t] % 16 * 512;
      EXPECT_EQ(std::memcmp(row,
                            static_cast<const std::byte*>(given.tensor.data) +
                                t * given.tensor.stride_bytes[0],
                            static_cast<size_t>(head_size) * 2),
                0)
          << t;
    }
  }
  munmap(map, bytes);
}

}  // namespace
}  // namespace folio::test
