// SPDX-License-Identifier: Apache-2.0
/// tests/attention/append_errors_test.cpp: mistakes in calls of append and rotate.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "folio/attention/append.h"
#include "folio/attention/rotate.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

/// A call with sound arguments, to be broken one at a time.
struct AppendCall {
  TestPlane key{scaled_spec()}, value{scaled_spec()};
  std::vector<float> rows = std::vector<float>(3 * 2 * 16, 1.0f);
  std::vector<int32_t> offsets{0, 1, 3}, contexts{4, 2};
  std::vector<uint32_t> entries{3, 1};
  std::vector<int64_t> slots{0, 5, -1};
  float tensor_scale = 1.0f;
  Batch batch{2, offsets.data(), contexts.data(), {entries.data(), 1, nullptr}};
  AppendArgs args{dense_tensor<3>(rows.data(), DType::f32, {3, 2, 16}),
                  dense_tensor<3>(rows.data(), DType::f32, {3, 2, 16}), key.view, value.view};
  Executor executor = serial_executor();

  Status run() { return append(batch, args, executor); }
  [[nodiscard]] std::vector<std::byte> written() const {
    std::vector<std::byte> all = key.bytes(), more = value.bytes();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

/// The same call, with a table and weights.
struct RotatingAppendCall : AppendCall {
  std::vector<float> table = std::vector<float>(8 * 6, 0.5f),
                     weights = std::vector<float>(16, 1.0f);
  std::vector<int32_t> positions{7, 0, 3};
  Rope rope{table.data(), 8, 6, false, 10, nullptr};

  RotatingAppendCall() {
    args.rope = &rope;
    args.k_norm = weights.data();
  }
};

struct RotateCall {
  std::vector<float> rows = std::vector<float>(3 * 2 * 16, 1.0f),
                     table = std::vector<float>(8 * 6, 0.5f);
  std::vector<float> channel_scales = std::vector<float>(2 * 16, 0.5f);
  std::vector<float> weights = std::vector<float>(16, 1.0f),
                     result = std::vector<float>(3 * 2 * 16, 2.0f);
  std::vector<int32_t> offsets{0, 1, 3}, contexts{4, 2}, positions{7, 0, 3};
  Rope rope{table.data(), 8, 6, true, 10, nullptr};
  Batch batch{2, offsets.data(), contexts.data()};
  PagedKVView key{.num_heads = 2,
                  .head_size = 16,
                  .hadamard = {16, 3},
                  .has_channel_scales = true,
                  .channel_scales = channel_scales.data()};
  RotateArgs args{dense_tensor<3>(rows.data(), DType::f32, {3, 2, 16}),
                  dense_tensor<3>(result.data(), DType::f32, {3, 2, 16}),
                  &rope,
                  weights.data(),
                  1e-6f,
                  &key};
  Executor executor = serial_executor();

  Status run() { return rotate(batch, args, executor); }
  [[nodiscard]] std::vector<std::byte> written() const {
    std::vector<std::byte> all(rows.size() * 4 + result.size() * 4);
    std::memcpy(all.data(), rows.data(), rows.size() * 4);
    std::memcpy(all.data() + rows.size() * 4, result.data(), result.size() * 4);
    return all;
  }
};

TEST(AppendErrors, append_refuses_its_sources_and_targets) {
  using C = AppendCall;
  expect_refused<C>(
      "append",
      {{"executor", [](C& c) { c.executor.parallel_for = nullptr; }, {"executor", "parallel_for"}},
       {"executor", [](C& c) { c.executor.concurrency = nullptr; }, {"executor", "concurrency"}},
       {"k.data", [](C& c) { c.args.k.data = nullptr; }, {"k.data is null", "[3, 2, 16]"}},
       {"k.dtype", [](C& c) { c.args.k.dtype = DType::i8; }, {"k has dtype i8", "bf16"}},
       {"k heads",
        [](C& c) { c.args.k.extent[1] = 4; },
        {"k has shape [3, 4, 16]", "[3, 2, 16]", "from"}},
       {"k dims", [](C& c) { c.args.k.extent[2] = 8; }, {"k has shape [3, 2, 8]", "[3, 2, 16]"}},
       {"k tokens", [](C& c) { c.args.k.extent[0] = -1; }, {"k has -1 tokens"}},
       {"k dims not contiguous",
        [](C& c) { c.args.k.stride_bytes[2] = 8; },
        {"k.stride_bytes[2] is 8", "4"}},
       {"k stride",
        [](C& c) { c.args.k.stride_bytes[1] = 65; },
        {"k.stride_bytes[1] is 65", "4 bytes"}},
       {"v tokens", [](C& c) { c.args.v.extent[0] = 2; }, {"v has shape [2, 2, 16]", "[3, 2, 16]"}},
       {"v.data", [](C& c) { c.args.v.data = nullptr; }, {"v.data is null"}},
       {"value.data", [](C& c) { c.args.value.data = nullptr; }, {"value.data is null"}},
       {"value.page_size",
        [](C& c) { c.args.value.page_size = 2; },
        {"value.page_size is 2", "4 (from key)"}},
       {"key.data", [](C& c) { c.args.key.data = nullptr; }, {"key.data is null"}},
       {"key.dtype", [](C& c) { c.args.key.dtype = DType::f8_e8m0; }, {"key has dtype f8_e8m0"}},
       {"key.dtype",
        [](C& c) { c.args.key.dtype = DType::f4_e2m1, c.args.key.scales.data = nullptr; },
        {"key.scales.data is null", "f4_e2m1"}},
       {"key.num_heads",
        [](C& c) { c.args.key.num_heads = 0; },
        {"key.num_heads is 0", "at least 1"}},
       {"key.page_size", [](C& c) { c.args.key.page_size = -4; }, {"key.page_size is -4"}},
       {"key.num_pages",
        [](C& c) { c.args.key.num_pages = int64_t{1} << 32; },
        {"key.num_pages is 4294967296"}},
       {"key.head_stride",
        [](C& c) { c.args.key.head_stride_bytes = 0; },
        {"key.head_stride_bytes is 0"}},
       {"key.slot_stride",
        [](C& c) { c.args.key.slot_stride_bytes = 0; },
        {"key.slot_stride_bytes is 0"}},
       {"key.page_stride",
        [](C& c) { c.args.key.page_stride_bytes = 0; },
        {"key.page_stride_bytes is 0"}},
       {"key of unbounded pages that are not one run",
        [](C& c) { c.args.key.page_size = c.args.value.page_size = unbounded_page_size; },
        {"key.page_stride_bytes is 128, expected 32", "unbounded"}},
       {"key.slot_stride of f32",
        [](C& c) {
          c.args.key.dtype = DType::f32;
          c.args.key.slot_stride_bytes = 34;
        },
        {"key.slot_stride_bytes is 34", "4 bytes"}},
       {"value.data misaligned",
        [](C& c) {
          c.args.value = c.args.key;
          c.args.value.dtype = DType::bf16;
          c.args.value.data = static_cast<std::byte*>(c.args.value.data) + 1;
        },
        {"value.data is not aligned", "2 bytes"}}});
}

TEST(AppendErrors, append_refuses_scales_it_cannot_write) {
  using C = AppendCall;
  expect_refused<C>("append", {{"scales.dtype",
                                [](C& c) { c.args.key.scales.dtype = DType::i8; },
                                {"key.scales.dtype is i8", "f8_e8m0"}},
                               {"scales.granularity",
                                [](C& c) { c.args.key.scales.granularity = 0; },
                                {"key.scales.granularity is 0"}},
                               {"scales.head_stride",
                                [](C& c) { c.args.key.scales.head_stride_bytes = 6; },
                                {"scales.head_stride_bytes is 6", "4 bytes"}},
                               {"scales shared by pages",
                                [](C& c) { c.args.value.scales.page_stride_bytes = 0; },
                                {"value.scales.page_stride_bytes is 0"}},
                               {"computed scales of bf16",
                                [](C& c) { c.args.key.dtype = DType::bf16; },
                                {"key has dtype bf16", "computed"}},
                               {"tensor_scale",
                                [](C& c) {
                                  c.tensor_scale = 0.0f;
                                  c.args.key.scales.tensor_scale = &c.tensor_scale;
                                },
                                {"key.scales.tensor_scale is 0", "positive"}},
                               {"tensor_scale misaligned",
                                [](C& c) {
                                  c.args.key.scales.tensor_scale = reinterpret_cast<const float*>(
                                      reinterpret_cast<uintptr_t>(&c.tensor_scale) + 2);
                                },
                                {"key.scales.tensor_scale is not aligned", "4 bytes"}}});
}

TEST(AppendErrors, append_refuses_slots_and_batches_that_contradict) {
  using C = AppendCall;
  const auto with_slots = [](int64_t slot) {
    return [slot](C& c) {
      c.slots[2] = slot;
      c.args.slots = c.slots.data();
    };
  };
  expect_refused<C>(
      "append",
      {{"slots", with_slots(20), {"slots[2] is 20", "less than 20"}},
       {"slots", with_slots(int64_t{1} << 40), {"slots[2] is 1099511627776"}},
       {"slots of a smaller value",
        [&](C& c) {
          c.args.value.num_pages = 3;
          with_slots(12)(c);
        },
        {"slots[2] is 12", "less than 12 (3 pages of 4)"}},
       {"slots of a smaller key",
        [&](C& c) {
          c.args.key.num_pages = 2;
          with_slots(8)(c);
        },
        {"slots[2] is 8", "less than 8 (2 pages of 4)"}},
       {"batch.size", [](C& c) { c.batch.size = -1; }, {"batch.size is -1"}},
       {"batch.size",
        [](C& c) { c.batch.size = std::numeric_limits<int32_t>::max(); },
        {"batch.size is 2147483647", "at most 2^31 - 2"}},
       {"batch.query_offsets",
        [](C& c) { c.batch.query_offsets = nullptr; },
        {"batch.query_offsets is null"}},
       {"batch.context_lengths",
        [](C& c) { c.batch.context_lengths = nullptr; },
        {"batch.context_lengths is null"}},
       {"batch.table",
        [](C& c) { c.batch.table.entries = nullptr; },
        {"batch.table.entries is null"}},
       {"first offset", [](C& c) { c.offsets[0] = 1; }, {"batch.query_offsets[0] is 1", "0"}},
       {"descending offsets",
        [](C& c) { c.offsets[1] = 4; },
        {"batch.query_offsets[2] is 3", "at least 4"}},
       {"too few tokens",
        [](C& c) {
          c.offsets[2] = 4;
          c.contexts[1] = 9;
        },
        {"k has 3 tokens", "4"}},
       {"context below new tokens",
        [](C& c) { c.contexts[1] = 1; },
        {"batch.context_lengths[1] is 1", "2 new tokens"}}});
}

/// What append and rotate refuse alike.
template <class C>
std::vector<Broken<C>> broken_transforms() {
  return {{"cos_sin", [](C& c) { c.rope.cos_sin = nullptr; }, {"rope.cos_sin is null", "[8, 6]"}},
          {"cos_sin misaligned",
           [](C& c) {
             c.rope.cos_sin =
                 reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(c.table.data()) + 2);
           },
           {"rope.cos_sin is not aligned", "4 bytes"}},
          {"rows", [](C& c) { c.rope.rows = -1; }, {"rope.rows is -1, expected at least 0"}},
          {"dims odd", [](C& c) { c.rope.dims = 5; }, {"rope.dims is 5", "even"}},
          {"dims", [](C& c) { c.rope.dims = 0; }, {"rope.dims is 0", "at least 2"}},
          {"dims", [](C& c) { c.rope.dims = -6; }, {"rope.dims is -6"}},
          {"first_dim", [](C& c) { c.rope.first_dim = -1; }, {"rope.first_dim is -1"}},
          {"first_dim",
           [](C& c) { c.rope.first_dim = 12; },
           {"rope.first_dim + rope.dims is 18", "at most 16"}},
          {"first_dim", [](C& c) { c.rope.first_dim = 0x7fffffff; }, {"2147483653"}},
          {"table too short",
           [](C& c) { c.rope.rows = 3; },
           {"position[0] is 3", "0 to 2", "rope.rows is 3"}},
          {"empty table", [](C& c) { c.rope.rows = 0; }, {"position[0] is 3", "rope.rows is 0"}},
          {"position",
           [](C& c) {
             c.positions[2] = 8;
             c.rope.positions = c.positions.data();
           },
           {"rope.positions[2] is 8", "0 to 7"}},
          {"position",
           [](C& c) {
             c.positions[1] = -1;
             c.rope.positions = c.positions.data();
           },
           {"rope.positions[1] is -1"}},
          {"batch position",
           [](C& c) {
             c.positions[0] = -2;
             c.batch.query_positions = c.positions.data();
           },
           {"position[0] is -2"}},
          {"key position",
           [](C& c) {
             c.positions[1] = 7;
             c.batch.key_positions = c.positions.data();
           },
           {"position[0] is 10", "0 to 7"}},
          {"eps", [](C& c) { c.args.norm_eps = -1.0f; }, {"norm_eps is -1", "at least 0"}},
          {"eps",
           [](C& c) { c.args.norm_eps = std::numeric_limits<float>::quiet_NaN(); },
           {"norm_eps", "finite"}},
          {"eps",
           [](C& c) { c.args.norm_eps = std::numeric_limits<float>::infinity(); },
           {"norm_eps", "finite"}}};
}

TEST(AppendErrors, append_refuses_rotations_and_norms_that_do_not_fit) {
  using C = RotatingAppendCall;
  expect_refused<C>("append", broken_transforms<C>());
  expect_refused<C>("append", {{"k_norm misaligned",
                                [](C& c) {
                                  c.args.k_norm = reinterpret_cast<const float*>(
                                      reinterpret_cast<uintptr_t>(c.weights.data()) + 1);
                                },
                                {"k_norm is not aligned", "4 bytes"}},
                               {"k_norm_shift misaligned",
                                [](C& c) {
                                  c.args.k_norm_shift = reinterpret_cast<const float*>(
                                      reinterpret_cast<uintptr_t>(c.weights.data()) + 2);
                                },
                                {"k_norm_shift is not aligned", "4 bytes"}},
                               {"k_norm_shift alone",
                                [](C& c) {
                                  c.args.k_norm = nullptr;
                                  c.args.k_norm_shift = c.weights.data();
                                },
                                {"k_norm_shift is given", "none without k_norm"}},
                               {"k_norm_shift alone, nothing else done to K",
                                [](C& c) {
                                  c.args.rope = nullptr;
                                  c.args.k_norm = nullptr;
                                  c.args.k_norm_shift = c.weights.data();
                                },
                                {"k_norm_shift is given", "none without k_norm"}},
                               {"eps of a LayerNorm",
                                [](C& c) {
                                  c.args.k_norm_shift = c.weights.data();
                                  c.args.norm_eps = -1.0f;
                                },
                                {"norm_eps is -1"}},
                               {"slots without positions",
                                [](C& c) {
                                  c.args.slots = c.slots.data();
                                  c.batch = {};
                                },
                                {"batch.query_offsets is null"}},
                               {"slots without lengths",
                                [](C& c) {
                                  c.args.slots = c.slots.data();
                                  c.batch.context_lengths = nullptr;
                                },
                                {"batch.context_lengths is null", "rope has no positions"}},
                               {"slots and a batch of other tokens",
                                [](C& c) {
                                  c.args.slots = c.slots.data();
                                  c.offsets[2] = 2;
                                },
                                {"k has 3 tokens", "2"}},
                               {"head too large",
                                [](C& c) {
                                  c.args.key.scales = {};
                                  c.args.key.head_size = 4104;
                                  c.args.k.extent[2] = 4104;
                                },
                                {"key.head_size is 4104", "at most 4096"},
                                Errc::unsupported}});
}

TEST(AppendErrors, rotate_refuses_what_does_not_fit) {
  using C = RotateCall;
  expect_refused<C>("rotate", broken_transforms<C>());
  expect_refused<C>(
      "rotate",
      {{"executor", [](C& c) { c.executor = {}; }, {"executor"}},
       {"q.data", [](C& c) { c.args.q.data = nullptr; }, {"q.data is null"}},
       {"q.dtype", [](C& c) { c.args.q.dtype = DType::i8; }, {"q has dtype i8", "bf16"}},
       {"q tokens", [](C& c) { c.args.q.extent[0] = -1; }, {"q has -1 tokens"}},
       {"q heads", [](C& c) { c.args.q.extent[1] = 0; }, {"q has shape [3, 0, 16]"}},
       {"q stride", [](C& c) { c.args.q.stride_bytes[2] = 8; }, {"q.stride_bytes[2] is 8", "4"}},
       {"q stride", [](C& c) { c.args.q.stride_bytes[0] = 66; }, {"q.stride_bytes[0] is 66"}},
       {"q head too large",
        [](C& c) { c.args.q.extent[2] = 4097; },
        {"q.head_size is 4097", "4096"},
        Errc::unsupported},
       {"q_norm misaligned",
        [](C& c) {
          c.args.q_norm =
              reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(c.weights.data()) + 1);
        },
        {"q_norm is not aligned", "4 bytes"}},
       {"q_norm_shift misaligned",
        [](C& c) {
          c.args.q_norm_shift =
              reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(c.weights.data()) + 3);
        },
        {"q_norm_shift is not aligned", "4 bytes"}},
       {"q_norm_shift alone",
        [](C& c) {
          c.args.q_norm = nullptr;
          c.args.q_norm_shift = c.weights.data();
        },
        {"q_norm_shift is given", "none without q_norm"}},
       {"key.head_size",
        [](C& c) { c.key.head_size = 32; },
        {"key.head_size is 32", "16 (from q)"}},
       {"key.num_heads",
        [](C& c) { c.key.num_heads = 0; },
        {"key.num_heads is 0", "divisor of q's 2"}},
       {"key.num_heads", [](C& c) { c.key.num_heads = 4; }, {"key.num_heads is 4"}},
       {"key.hadamard",
        [](C& c) { c.key.hadamard.block = 32; },
        {"key.hadamard.block is 32", "head_size 16"}},
       {"key.channel_scales",
        [](C& c) { c.key.channel_scales = nullptr; },
        {"key.channel_scales are null", "has_channel_scales"}},
       {"key.channel_scales",
        [](C& c) { c.key.has_channel_scales = false; },
        {"key.channel_scales are given"}},
       {"key.channel_scales",
        [](C& c) { c.channel_scales[17] = -0.5f; },
        {"key.channel_scales[17] is -0.5", "positive"}},
       {"out.data", [](C& c) { c.args.out.data = nullptr; }, {"out.data is null", "[3, 2, 16]"}},
       {"out.dtype", [](C& c) { c.args.out.dtype = DType::f8_e4m3; }, {"out has dtype f8_e4m3"}},
       {"out shape",
        [](C& c) { c.args.out.extent[1] = 1; },
        {"out has shape [3, 1, 16]", "[3, 2, 16]", "from q"}},
       {"out stride",
        [](C& c) { c.args.out.stride_bytes[0] = 0; },
        {"out.stride_bytes[0] is 0 over 3"}},
       {"out in q, narrower",
        [](C& c) {
          c.args.out.data = c.rows.data();
          c.args.out.dtype = DType::bf16;
          c.args.out.stride_bytes[2] = 2;
        },
        {"out", "memory of q"}},
       {"out in q, a token further",
        [](C& c) {
          c.args.q.extent[0] = c.args.out.extent[0] = 2;
          c.args.out.data = c.rows.data() + 32;
          c.args.out.stride_bytes[0] = 64;
          c.offsets[2] = 2;
        },
        {"out", "memory of q"}},
       {"out in q, half a head further",
        [](C& c) {
          c.args.q.extent[2] = c.args.out.extent[2] = 8;
          c.args.out.data = c.rows.data() + 4;
          c.args.out.stride_bytes[0] = 128;
          c.args.out.stride_bytes[1] = 64;
          c.rope.first_dim = 0;
        },
        {"out", "memory of q"}},
       {"batch.size", [](C& c) { c.batch.size = -1; }, {"batch.size is -1"}},
       {"batch.query_offsets",
        [](C& c) { c.batch.query_offsets = nullptr; },
        {"batch.query_offsets is null"}},
       {"batch.context_lengths",
        [](C& c) { c.batch.context_lengths = nullptr; },
        {"batch.context_lengths is null"}},
       {"batch of other tokens", [](C& c) { c.offsets[2] = 4; }, {"q has 3 tokens", "4"}}});
}

}  // namespace
}  // namespace folio::test
