// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/append_async_test.cpp: append, rotate and the copies on a device's streams: what
/// reaches the kernels, what graphs replay, what the border refuses.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/emulated_device.h"
#include "folio/attention/append.h"
#include "folio/attention/rotate.h"
#include "folio/cache/copy.h"
#include "folio/cache/planes.h"
#include "folio/core/element.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr Device gpu = EmulatedDevice::device();
constexpr int64_t tokens = 6, num_pages = 4;
constexpr int32_t heads = 2, head_size = 64, page_size = 16;

/// K, V and the planes of two layers, on the device; the CPU's planes beside them.
struct AppendAsync : ::testing::Test {
  AppendAsync() {
    Rng rng(test_seed());
    for (const std::span<uint16_t> source : {k, v})
      for (uint16_t& x : source) x = static_cast<uint16_t>(0x3f00 + rng.between(0, 255));
    for (float& x : angles) x = rng.uniform(-1.0f, 1.0f);
    for (float& x : weights) x = rng.uniform(0.5f, 2.0f);
    std::iota(slots.begin(), slots.end(), int64_t{3});
    std::iota(positions.begin(), positions.end(), 1);
    args.k = dense_tensor<3>(k.data(), DType::bf16, {tokens, heads, head_size});
    args.v = dense_tensor<3>(v.data(), DType::bf16, {tokens, heads, head_size});
    args.slots = slots.data();
    args.rope = &rope;
    args.k_norm = weights.data();
    args.key = planes(blocks, scales)[0].key;
    args.value = planes(blocks, scales)[0].value;
  }
  static KVShape shape() {
    KVShape shape;
    shape.num_layers = 2;
    shape.num_heads = heads;
    shape.head_size = head_size;
    shape.page_size = page_size;
    shape.dtype = DType::f8_e4m3;
    shape.scale_dtype = DType::f32;
    return shape;
  }
  static std::vector<KVPlanes> planes(std::span<std::byte> blocks, std::span<std::byte> scales) {
    return *make_planes(shape(), num_pages, {blocks.data(), static_cast<int64_t>(blocks.size())},
                        {scales.data(), static_cast<int64_t>(scales.size())});
  }
  std::span<std::byte> blocks_of(MemoryKind kind = MemoryKind::device) {
    return device.allocate<std::byte>(static_cast<size_t>(*page_bytes(shape()) * num_pages), kind);
  }
  std::span<std::byte> scales_of(MemoryKind kind = MemoryKind::device) {
    return device.allocate<std::byte>(static_cast<size_t>(*scale_page_bytes(shape()) * num_pages),
                                      kind);
  }
  /// The same on the CPU, into planes of its own.
  void append_on_cpu() {
    AppendArgs same = args;
    same.key = planes(cpu_blocks, cpu_scales)[0].key;
    same.value = planes(cpu_blocks, cpu_scales)[0].value;
    const Status status = append({}, same, serial_executor());
    ASSERT_TRUE(status.is_ok()) << status.message();
  }
  void expect_same_planes() {
    EXPECT_TRUE(std::ranges::equal(blocks, cpu_blocks));
    EXPECT_TRUE(std::ranges::equal(scales, cpu_scales));
  }
  /// The message of a call that is refused before anything is put on the stream.
  std::string refusal(const Status& status, Errc code = Errc::invalid_argument) {
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
    return std::string(status.message());
  }
  std::string refused(const std::function<void(AppendArgs&)>& spoil,
                      Errc code = Errc::invalid_argument) {
    AppendArgs bad = args;
    spoil(bad);
    return refusal(append_async({}, bad, gpu, stream), code);
  }

  EmulatedDevice device{{.order = WorkOrder::late, .seed = 5}};
  Stream stream = device.make_stream();
  std::span<uint16_t> k = device.allocate<uint16_t>(tokens * heads * head_size);
  std::span<uint16_t> v = device.allocate<uint16_t>(tokens * heads * head_size);
  std::span<float> angles = device.allocate<float>(32 * head_size);
  std::span<float> weights = device.allocate<float>(head_size);
  std::span<int64_t> slots = device.allocate<int64_t>(tokens);
  std::span<int32_t> positions = device.allocate<int32_t>(tokens);
  std::span<std::byte> blocks = blocks_of(), cpu_blocks = blocks_of();
  std::span<std::byte> scales = scales_of(), cpu_scales = scales_of();
  Rope rope{angles.data(), 32, head_size, false, 0, positions.data()};
  AppendArgs args;
};

TEST_F(AppendAsync, writes_what_append_writes_and_waits_for_nothing) {
  ASSERT_TRUE(append_async({}, args, gpu, stream).is_ok());
  device.synchronise(stream);
  device.forget_calls();
  const Status status = append_async({}, args, gpu, stream);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_TRUE(device.waits_and_allocations().empty());
  device.synchronise(stream);
  append_on_cpu();
  expect_same_planes();
}

TEST_F(AppendAsync, a_captured_step_appends_to_the_slots_of_its_replay) {
  ASSERT_TRUE(append_async({}, args, gpu, stream).is_ok());  // loads the kernels
  device.synchronise(stream);
  append_on_cpu();
  device.begin_capture(stream);
  ASSERT_TRUE(append_async({}, args, gpu, stream).is_ok());
  const EmulatedGraph graph = device.end_capture(stream);
  for (const int64_t first : {20, 40}) {
    std::iota(slots.begin(), slots.end(), first);
    slots[2] = -1;
    device.launch(graph, stream);
    device.synchronise(stream);
    append_on_cpu();
  }
  expect_same_planes();
}

TEST_F(AppendAsync, goes_through_the_table_of_a_batch) {
  const int32_t offsets[] = {0, 2, 2, 6}, contexts[] = {5, 1, 20};
  const uint32_t entries[] = {2, 9, 0, 9, 3, 1};
  Batch batch{3,
              device.copy_of<int32_t>(offsets).data(),
              device.copy_of<int32_t>(contexts).data(),
              {device.copy_of<uint32_t>(entries).data(), 2, nullptr}};
  args.slots = nullptr;
  rope.positions = nullptr;
  const Status status = append_async(batch, args, gpu, stream);
  ASSERT_TRUE(status.is_ok()) << status.message();
  device.synchronise(stream);
  AppendArgs same = args;
  same.key = planes(cpu_blocks, cpu_scales)[0].key;
  same.value = planes(cpu_blocks, cpu_scales)[0].value;
  ASSERT_TRUE(append(batch, same, serial_executor()).is_ok());
  expect_same_planes();
}

TEST_F(AppendAsync, no_tokens_touch_no_device) {
  args.k.extent[0] = args.v.extent[0] = 0;
  EXPECT_TRUE(append_async({}, args, gpu, stream).is_ok());
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
}

TEST_F(AppendAsync, the_cpu_has_no_streams) {
  EXPECT_EQ(refusal(append_async({}, args, {}, stream), Errc::unsupported),
            "append_async: the CPU has no streams, expected a call of append");
  EXPECT_EQ(refusal(rotate_async({}, {}, {}, stream), Errc::unsupported),
            "rotate_async: the CPU has no streams, expected a call of rotate");
  EXPECT_EQ(refusal(copy_pages_async({}, {}, {}, {}, stream), Errc::unsupported),
            "copy_pages_async: the CPU has no streams, expected a call of copy_pages");
  EXPECT_EQ(refusal(copy_slots_async({}, {}, {}, {}, stream), Errc::unsupported),
            "copy_slots_async: the CPU has no streams, expected a call of copy_slots");
  EXPECT_EQ(refusal(append_async({}, args, {static_cast<Device::Kind>(7), 0}, stream)),
            "append_async: device.kind is 7, expected cpu (0) or cuda (1)");
}

TEST_F(AppendAsync, arrays_elsewhere_are_refused_by_name) {
  static int64_t here[tokens] = {};
  const char* const expected = " is pageable host memory, expected memory of CUDA device 0";
  const auto with = [&](const char* name, const std::function<void(AppendArgs&)>& spoil) {
    EXPECT_EQ(refused(spoil), std::string("append_async: ") + name + expected);
  };
  with("k", [&](AppendArgs& a) { a.k.data = here; });
  with("v", [&](AppendArgs& a) { a.v.data = here; });
  with("slots", [&](AppendArgs& a) { a.slots = here; });
  with("k_norm", [&](AppendArgs& a) { a.k_norm = reinterpret_cast<const float*>(here); });
  with("key.data", [&](AppendArgs& a) { a.key.data = here; });
  with("key.scales.data", [&](AppendArgs& a) { a.key.scales.data = here; });
  with("value.scales.tensor_scale",
       [&](AppendArgs& a) { a.value.scales.tensor_scale = reinterpret_cast<const float*>(here); });
  Rope other = rope;
  other.cos_sin = reinterpret_cast<const float*>(here);
  with("rope.cos_sin", [&](AppendArgs& a) { a.rope = &other; });
  EXPECT_NE(append_async({}, args, {Device::Kind::cuda, 1}, stream).code(), Errc::ok);
  EXPECT_NE(append_async({}, args, {Device::Kind::cuda, -1}, stream).code(), Errc::ok);
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
}

TEST_F(AppendAsync, what_the_host_knows_is_refused_as_append_refuses_it) {
  EXPECT_EQ(refused([](AppendArgs& a) { a.k.extent[0] = -1; }),
            "append_async: k has -1 tokens, expected at least 0");
  EXPECT_EQ(refused([](AppendArgs& a) { a.value.page_size = 8; }),
            "append_async: value.page_size is 8, expected 16 (from key)");
  const std::function<void(AppendArgs&)> spoilt[] = {
      [](AppendArgs& a) { a.key.data = nullptr; },
      [](AppendArgs& a) { a.k.data = nullptr; },
      [](AppendArgs& a) { a.v.data = nullptr; },
      [](AppendArgs& a) { a.k.dtype = DType::i8; },
      [](AppendArgs& a) { a.k.extent[2] = 63; },
      [](AppendArgs& a) { a.k.stride_bytes[0] = int64_t{1} << 60; },
      [](AppendArgs& a) { a.key.num_heads = -2; },
      [](AppendArgs& a) { a.key.num_pages = int64_t{1} << 40; },
      [](AppendArgs& a) { a.key.slot_stride_bytes = 0; },
      [](AppendArgs& a) { a.key.dtype = DType::bf16; },
      [](AppendArgs& a) { a.norm_eps = -1.0f; },
      [](AppendArgs& a) { a.k_norm_shift = a.k_norm, a.k_norm = nullptr; },
      [](AppendArgs& a) { a.slots = nullptr; }};
  for (const auto& spoil : spoilt) EXPECT_EQ(refused(spoil).find("append_async: "), 0u);
  rope.dims = 3;
  EXPECT_EQ(refused([](AppendArgs&) {}),
            "append_async: rope.dims is 3, expected an even number of at least 2");
  rope.dims = head_size;
  rope.positions = nullptr;
  EXPECT_EQ(refused([](AppendArgs&) {}),
            "append_async: batch.query_offsets is null, expected an array");
}

TEST_F(AppendAsync, a_layer_norm_is_refused_by_name) {
  args.k_norm_shift = weights.data();
  const Status append_status = append_async({}, args, gpu, stream);
  EXPECT_EQ(append_status.code(), Errc::unsupported);
  EXPECT_EQ(append_status.message(),
            "append_async: k_norm_shift is given, expected none: only CPUs have LayerNorm");
  RotateArgs q{args.k, dense_tensor<3>(k.data(), DType::bf16, {tokens, heads, head_size}), &rope,
               weights.data()};
  q.q_norm_shift = weights.data();
  const Status rotate_status = rotate_async({}, q, gpu, stream);
  EXPECT_EQ(rotate_status.code(), Errc::unsupported);
  EXPECT_EQ(rotate_status.message(),
            "rotate_async: q_norm_shift is given, expected none: only CPUs have LayerNorm");
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
}

TEST_F(AppendAsync, a_failing_launch_comes_back_in_the_drivers_words) {
  ASSERT_TRUE(append_async({}, args, gpu, stream).is_ok());
  device.synchronise(stream);
  device.fail_call("cuLaunchKernel", 719);
  const Status status = append_async({}, args, gpu, stream);
  EXPECT_EQ(status.code(), Errc::device);
  EXPECT_EQ(status.message().find("append_async: "), 0u) << status.message();
}

TEST_F(AppendAsync, rotate_async_has_the_bits_of_rotate_in_place_and_elsewhere) {
  const DType dtypes[] = {DType::bf16, DType::f16, DType::f32};
  for (const DType dtype : dtypes) {
    const std::span<float> out = device.allocate<float>(k.size()),
                           cpu = device.allocate<float>(k.size());
    RotateArgs q;
    q.q = args.k;
    q.rope = &rope;
    q.q_norm = weights.data();
    q.out = dense_tensor<3>(out.data(), dtype, {tokens, heads, head_size});
    ASSERT_TRUE(rotate_async({}, q, gpu, stream).is_ok());
    device.synchronise(stream);
    q.out.data = cpu.data();
    ASSERT_TRUE(rotate({}, q, serial_executor()).is_ok());
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(out), std::as_bytes(cpu))) << name(dtype);
  }
  for (const bool interleaved : {false, true}) {
    for (const int32_t dims : {64, 32, 6}) {
      rope.interleaved = interleaved;
      rope.dims = dims;
      const std::span<uint16_t> gpu_q = device.copy_of<uint16_t>(k),
                                cpu_q = device.copy_of<uint16_t>(k);
      RotateArgs q;
      q.rope = &rope;
      q.q_norm = dims == 32 ? nullptr : weights.data();
      q.out = dense_tensor<3>(gpu_q.data(), DType::bf16, {tokens, heads, head_size});
      q.q = q.out;
      const Status status = rotate_async({}, q, gpu, stream);
      ASSERT_TRUE(status.is_ok()) << status.message();
      device.synchronise(stream);
      q.out.data = cpu_q.data();
      q.q = q.out;
      ASSERT_TRUE(rotate({}, q, serial_executor()).is_ok());
      EXPECT_TRUE(std::ranges::equal(gpu_q, cpu_q)) << interleaved << " " << dims;
    }
  }
}

TEST_F(AppendAsync, rotate_async_has_the_bits_of_rotate_for_any_shape) {
  Rng rng(test_seed());
  const int32_t sizes[] = {16, 41, 64, 128, 256, 576};
  const DType dtypes[] = {DType::bf16, DType::f16, DType::f32};
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const int32_t size = rng.pick(sizes), q_heads = rng.int_between(1, 5);
    const DType from = rng.pick(dtypes), to = rng.pick(dtypes);
    const auto elements = static_cast<size_t>(tokens * q_heads * size);
    const std::span<float> given = device.allocate<float>(elements);
    for (size_t i = 0; i < elements; ++i) {
      const float x = rng.chance(0.02) ? 0.0f : rng.uniform(-4.0f, 4.0f);
      if (from == DType::f32) given[i] = x;
      const uint16_t half =
          from == DType::bf16 ? from_float<bf16>(x).bits : from_float<f16>(x).bits;
      if (from != DType::f32) reinterpret_cast<uint16_t*>(given.data())[i] = half;
    }
    const std::span<float> table = device.allocate<float>(static_cast<size_t>(32 * size));
    for (float& x : table) x = rng.uniform(-2.0f, 2.0f);
    Rope turn{table.data(),    32, 2 * rng.int_between(1, size / 2),
              rng.chance(0.5), 0,  positions.data()};
    if (rng.chance(0.6)) turn.dims = size / 16 * 16;
    if (rng.chance(0.5)) turn.first_dim = (size - turn.dims) / 8 * 8;
    RotateArgs q;
    if (rng.chance(0.8)) q.rope = &turn;
    if (rng.chance(0.5)) q.q_norm = table.data();
    const bool in_place = rng.chance(0.5);
    std::span<float> out[2];
    for (std::span<float>& memory : out) {
      const bool is_device = &memory == out;
      memory = device.copy_of<float>(given);
      q.out = dense_tensor<3>(memory.data(), in_place ? from : to, {tokens, q_heads, size});
      q.q = dense_tensor<3>(in_place ? memory.data() : given.data(), from, {tokens, q_heads, size});
      const Status status =
          is_device ? rotate_async({}, q, gpu, stream) : rotate({}, q, serial_executor());
      ASSERT_TRUE(status.is_ok()) << status.message();
      if (is_device) device.synchronise(stream);
    }
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(out[0]), std::as_bytes(out[1])))
        << size << " " << name(from) << " to " << name(to) << " in place " << in_place;
  }
}

TEST_F(AppendAsync, rotate_async_refuses_an_out_that_overlaps_and_skips_positions_out_of_range) {
  RotateArgs q;
  q.q = args.k;
  q.rope = &rope;
  q.out = dense_tensor<3>(k.data() + head_size, DType::bf16, {tokens - 1, heads, head_size});
  q.q.extent[0] = tokens - 1;
  EXPECT_EQ(refusal(rotate_async({}, q, gpu, stream)).find("rotate_async: out lies in memory of q"),
            0u);
  positions[1] = 32;
  positions[2] = -1;
  const std::span<uint16_t> out = device.allocate<uint16_t>(k.size());
  q.q = args.k;
  q.out = dense_tensor<3>(out.data(), DType::bf16, {tokens, heads, head_size});
  ASSERT_TRUE(rotate_async({}, q, gpu, stream).is_ok());
  device.synchronise(stream);
  const size_t row = heads * head_size;
  for (size_t t = 0; t < tokens; ++t) EXPECT_EQ(out[t * row] == 0xffff, t == 1 || t == 2) << t;
}

struct CopyAsync : AppendAsync {
  void fill() {
    Rng rng(test_seed());
    for (std::byte& b : blocks) b = static_cast<std::byte>(rng.next());
    for (std::byte& b : scales) b = static_cast<std::byte>(rng.next());
  }
  std::vector<KVPlanes> here = planes(blocks, scales);
};

TEST_F(CopyAsync, pages_swapped_out_to_pinned_memory_and_back_are_what_they_were) {
  fill();
  const std::vector<std::byte> before(blocks.begin(), blocks.end());
  const std::span<std::byte> host = blocks_of(MemoryKind::pinned),
                             host_scales = scales_of(MemoryKind::pinned);
  const std::vector<KVPlanes> there = planes(host, host_scales);
  const std::span<PageCopy> out = device.allocate<PageCopy>(num_pages),
                            in = device.allocate<PageCopy>(num_pages);
  for (uint32_t i = 0; i < out.size(); ++i) {
    const uint32_t other = static_cast<uint32_t>(out.size()) - 1 - i;
    out[i] = {i, other, page_size};
    in[i] = {other, i, page_size};
  }
  ASSERT_TRUE(copy_pages_async(here, there, out, gpu, stream).is_ok());
  device.synchronise(stream);
  EXPECT_FALSE(std::ranges::equal(host, before));
  std::ranges::fill(blocks, std::byte{0});
  device.forget_calls();
  const Status status = copy_pages_async(there, here, in, gpu, stream);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_TRUE(device.waits_and_allocations().empty());
  device.synchronise(stream);
  EXPECT_TRUE(std::ranges::equal(blocks, before));
}

TEST_F(CopyAsync, slots_are_gathered_into_rows_and_scattered_back) {
  fill();
  const std::vector<std::byte> before(blocks.begin(), blocks.end());
  const std::span<std::byte> memory = device.allocate<std::byte>(8 * heads * head_size);
  const std::span<float> factors = device.allocate<float>(8 * heads);
  KVPlanes rows = {here[1].key, {}}, from = {here[1].key, {}};
  rows.key.data = memory.data();
  rows.key.page_size = unbounded_page_size;
  rows.key.num_pages = 8;
  rows.key.slot_stride_bytes = rows.key.page_stride_bytes = heads * head_size;
  rows.key.scales.data = factors.data();
  rows.key.scales.page_stride_bytes = rows.key.scales.slot_stride_bytes = heads * 4;
  rows.key.scales.head_stride_bytes = 4;
  const SlotCopy slots_of_pages[] = {{40, 0}, {3, 1}, {17, 7}};
  const std::span<SlotCopy> gather = device.copy_of<SlotCopy>(slots_of_pages),
                            scatter = device.copy_of<SlotCopy>(slots_of_pages);
  for (SlotCopy& c : scatter) std::swap(c.from, c.to);
  Status status = copy_slots_async({&from, 1}, {&rows, 1}, gather, gpu, stream);
  ASSERT_TRUE(status.is_ok()) << status.message();
  device.synchronise(stream);
  const auto* const slot = static_cast<const std::byte*>(from.key.data) +
                           2 * from.key.page_stride_bytes + 8 * from.key.slot_stride_bytes;
  EXPECT_EQ(std::memcmp(memory.data(), slot, heads * head_size), 0);
  for (const SlotCopy& c : gather)
    std::memset(static_cast<std::byte*>(from.key.data) + c.from / 16 * from.key.page_stride_bytes +
                    c.from % 16 * from.key.slot_stride_bytes,
                0, heads * head_size);
  EXPECT_FALSE(std::ranges::equal(blocks, before));
  status = copy_slots_async({&rows, 1}, {&from, 1}, scatter, gpu, stream);
  ASSERT_TRUE(status.is_ok()) << status.message();
  device.synchronise(stream);
  EXPECT_TRUE(std::ranges::equal(blocks, before));
}

TEST_F(CopyAsync, what_the_host_knows_is_refused_and_named) {
  const std::span<PageCopy> list = device.allocate<PageCopy>(2);
  const auto copied = [&](std::span<const KVPlanes> from, std::span<const KVPlanes> to) {
    return refusal(copy_pages_async(from, to, list, gpu, stream));
  };
  EXPECT_EQ(copied(here, {here.data(), 1}), "copy_pages_async: to has 1 layers, expected 2 (from)");
  std::vector<KVPlanes> bad = here;
  bad[1].value.num_heads = 1;
  EXPECT_EQ(copied(here, bad),
            "copy_pages_async: to[1].value.num_heads is 1, expected 2 (from from[1].value)");
  bad = here;
  bad[0].key.page_size = 8;
  EXPECT_EQ(copied(here, bad),
            "copy_pages_async: to[0].key.page_size is 8, expected 16 (from from[0].key)");
  bad = here;
  bad[0].key.page_stride_bytes = 0;
  EXPECT_EQ(copied(here, bad).find("copy_pages_async: to[0].key"), 0u);
  static std::byte elsewhere[64];
  bad = here;
  bad[1].key.data = elsewhere;
  EXPECT_EQ(copied(bad, here),
            "copy_pages_async: from[1].key.data is pageable host memory, expected memory of CUDA "
            "device 0 or pinned host memory");
  PageCopy pageable[1] = {};
  EXPECT_EQ(refusal(copy_pages_async(here, here, pageable, gpu, stream)),
            "copy_pages_async: copies is pageable host memory, expected memory of CUDA device 0 or "
            "pinned host memory");
  EXPECT_EQ(
      refusal(copy_pages_async(here, here, {static_cast<PageCopy*>(nullptr), 3}, gpu, stream)),
      "copy_pages_async: copies is null, expected 3 of them");
  EXPECT_TRUE(copy_pages_async(here, here, {}, gpu, stream).is_ok());
  EXPECT_TRUE(copy_pages_async({}, {}, list, gpu, stream).is_ok());
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
}

TEST_F(CopyAsync, factors_of_tensors_in_two_places_are_read_by_the_device) {
  fill();
  const std::span<float> factors = device.allocate<float>(2);
  factors[0] = factors[1] = 0.5f;
  KVPlanes from = {here[0].key, {}}, to = {here[1].key, {}};
  from.key.scales.tensor_scale = &factors[0];
  to.key.scales.tensor_scale = &factors[1];
  const PageCopy one[] = {{0, 2, page_size}};
  ASSERT_TRUE(
      copy_pages_async({&from, 1}, {&to, 1}, device.copy_of<PageCopy>(one), gpu, stream).is_ok());
  device.synchronise(stream);
  EXPECT_EQ(std::memcmp(static_cast<std::byte*>(to.key.data) + 2 * to.key.page_stride_bytes,
                        from.key.data, heads * head_size),
            0);
}

}  // namespace
}  // namespace folio::test
