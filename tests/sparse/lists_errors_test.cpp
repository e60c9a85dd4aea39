// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/lists_errors_test.cpp: broken calls of select_top and remap are refused by the name
/// of what is broken, and nothing is written.
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "folio/sparse/select.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

std::vector<std::byte> bytes_of(const std::vector<int32_t>& numbers) {
  const auto* const at = reinterpret_cast<const std::byte*>(numbers.data());
  return {at, at + numbers.size() * sizeof(int32_t)};
}

struct TopCall {
  std::vector<float> scores = std::vector<float>(20, 1.0f);
  std::vector<int32_t> lengths = {10, 7}, lists = std::vector<int32_t>(6, 99);
  GuardedMemory memory = GuardedMemory(select_top_bytes(3, 1), 64);
  TopArgs args = {};
  MemorySpan workspace = memory.span();
  Executor executor = serial_executor();

  TopCall() {
    args.scores = {scores.data(), DType::f32, {2, 10}, {40, 4}};
    args.lengths = lengths.data();
    args.k = 3;
    args.indices = lists.data();
    args.stride = 3;
  }
  Status run() { return select_top(args, workspace, executor); }
  [[nodiscard]] std::vector<std::byte> written() const { return bytes_of(lists); }
};

TEST(SelectTopErrors, name_what_is_broken) {
  using B = Broken<TopCall>;
  expect_refused<TopCall>(
      "select_top",
      {
          B{"k 0", [](TopCall& c) { c.args.k = 0; }, {"k is 0", "1 to 4096"}},
          B{"k negative", [](TopCall& c) { c.args.k = -1; }, {"k is -1"}},
          B{"k too large",
            [](TopCall& c) { c.args.k = 4097; },
            {"k is 4097", "1 to 4096 (top_max)"}},
          B{"stride", [](TopCall& c) { c.args.stride = 2; }, {"stride is 2", "at least 3"}},
          B{"stride negative", [](TopCall& c) { c.args.stride = -3; }, {"stride is -3"}},
          B{"stride huge",
            [](TopCall& c) { c.args.stride = std::numeric_limits<int64_t>::max(); },
            {"stride", "2^56"}},
          B{"indices null", [](TopCall& c) { c.args.indices = nullptr; }, {"indices is null"}},
          B{"indices misaligned",
            [](TopCall& c) {
              c.args.indices = reinterpret_cast<int32_t*>(
                  reinterpret_cast<std::byte*>(c.lists.data()) + 2);  // never written
            },
            {"indices is not aligned"}},
          B{"scores null", [](TopCall& c) { c.args.scores.data = nullptr; }, {"scores.data"}},
          B{"scores dtype",
            [](TopCall& c) { c.args.scores.dtype = DType::bf16; },
            {"scores has dtype bf16", "f32"}},
          B{"tokens negative",
            [](TopCall& c) { c.args.scores.extent[0] = -1; },
            {"scores has shape [-1, 10]"}},
          B{"keys negative",
            [](TopCall& c) { c.args.scores.extent[1] = -1; },
            {"scores has shape [2, -1]"}},
          B{"keys beyond int32",
            [](TopCall& c) { c.args.scores.extent[1] = int64_t{1} << 31; },
            {"2^31 - 1"}},
          B{"scores apart",
            [](TopCall& c) { c.args.scores.stride_bytes[1] = 8; },
            {"stride_bytes[1] is 8"}},
          B{"scores stride misaligned",
            [](TopCall& c) { c.args.scores.stride_bytes[0] = 42; },
            {"stride_bytes[0] is 42"}},
          B{"scores stride huge",
            [](TopCall& c) { c.args.scores.stride_bytes[0] = int64_t{1} << 60; },
            {"scores", "2^56"}},
          B{"scores misaligned",
            [](TopCall& c) {
              c.args.scores.data = reinterpret_cast<std::byte*>(c.scores.data()) + 1;
            },
            {"scores.data is not aligned"}},
          B{"length", [](TopCall& c) { c.lengths[1] = 11; }, {"lengths[1] is 11", "0 to 10"}},
          B{"length negative", [](TopCall& c) { c.lengths[0] = -1; }, {"lengths[0] is -1"}},
          B{"workspace small", [](TopCall& c) { --c.workspace.bytes; }, {"workspace"}},
          B{"workspace null", [](TopCall& c) { c.workspace.data = nullptr; }, {"workspace"}},
          B{"workspace misaligned",
            [](TopCall& c) { c.workspace.data = static_cast<std::byte*>(c.workspace.data) + 8; },
            {"workspace"}},
          B{"executor", [](TopCall& c) { c.executor = {}; }, {"executor"}},
      });
}

TEST(SelectTopErrors, an_executor_that_leaves_out_tasks_is_told) {
  TopCall call;
  call.memory = GuardedMemory(select_top_bytes(3, 2), 64);
  call.workspace = call.memory.span();
  call.executor.concurrency = [](void*) { return 2; };
  call.executor.parallel_for = [](void*, int64_t, void (*)(void*, int64_t) noexcept, void*) {};
  EXPECT_EQ(call.run().code(), Errc::internal);
}

TEST(SelectTopErrors, rows_of_nothing_need_no_memory) {
  TopCall call;
  call.args.scores = {nullptr, DType::f32, {0, 10}, {40, 4}};
  call.args.lengths = nullptr;
  call.args.indices = nullptr;
  call.workspace = {};
  EXPECT_TRUE(call.run().is_ok());
}

struct RemapCall {
  std::vector<int32_t> offsets = {0, 1, 3}, lengths = {20, 40}, indices, slots;
  std::vector<uint32_t> entries = {1, 2, 0, 3, 4, 1};
  Batch batch = {};
  RemapArgs args = {};
  Executor executor = serial_executor();

  RemapCall() : indices(9, 19), slots(9, 99) {
    batch.size = 2;
    batch.query_offsets = offsets.data();
    batch.context_lengths = lengths.data();
    batch.table.entries = entries.data();
    batch.table.row_stride = 3;
    args = {indices.data(), 3, 3, 16, 5, slots.data(), 3};
  }
  Status run() { return remap(batch, args, executor); }
  [[nodiscard]] std::vector<std::byte> written() const { return bytes_of(slots); }
};

TEST(RemapErrors, name_what_is_broken) {
  using B = Broken<RemapCall>;
  expect_refused<RemapCall>(
      "remap",
      {
          B{"key behind the context",
            [](RemapCall& c) { c.indices[2] = 20; },
            {"indices[0][2] is 20", "below 20", "context_lengths[0]"}},
          B{"key below -1",
            [](RemapCall& c) { c.indices[8] = -2; },
            {"indices[2][2] is -2", "-1 (none)"}},
          B{"count negative", [](RemapCall& c) { c.args.count = -1; }, {"count is -1"}},
          B{"stride", [](RemapCall& c) { c.args.stride = 2; }, {"stride is 2", "at least 3"}},
          B{"slots_stride",
            [](RemapCall& c) { c.args.slots_stride = 2; },
            {"slots_stride is 2", "at least 3"}},
          B{"indices null", [](RemapCall& c) { c.args.indices = nullptr; }, {"indices is null"}},
          B{"slots null", [](RemapCall& c) { c.args.slots = nullptr; }, {"slots is null"}},
          B{"page_size", [](RemapCall& c) { c.args.page_size = 0; }, {"page_size is 0"}},
          B{"num_pages negative", [](RemapCall& c) { c.args.num_pages = -1; }, {"num_pages is -1"}},
          B{"slots beyond int32",
            [](RemapCall& c) { c.args.num_pages = (int64_t{1} << 27) + 1; },
            {"num_pages is 134217729", "134217728", "int32"}},
          B{"batch size", [](RemapCall& c) { c.batch.size = -1; }, {"batch.size is -1"}},
          B{"offsets null",
            [](RemapCall& c) { c.batch.query_offsets = nullptr; },
            {"batch.query_offsets is null"}},
          B{"offsets descend", [](RemapCall& c) { c.offsets[1] = 4; }, {"batch.query_offsets[2]"}},
          B{"lengths null",
            [](RemapCall& c) { c.batch.context_lengths = nullptr; },
            {"batch.context_lengths is null"}},
          B{"length negative",
            [](RemapCall& c) { c.lengths[1] = -1; },
            {"batch.context_lengths[1] is -1"}},
          B{"table null",
            [](RemapCall& c) { c.batch.table.entries = nullptr; },
            {"batch.table.entries is null"}},
          B{"table stride",
            [](RemapCall& c) { c.batch.table.row_stride = -1; },
            {"batch.table.row_stride is -1"}},
          B{"executor", [](RemapCall& c) { c.executor = {}; }, {"executor"}},
      });
}

TEST(RemapErrors, batches_of_nothing_need_no_arrays) {
  RemapCall call;
  call.batch = {};
  call.args = {nullptr, 3, 3, 16, 5, nullptr, 3};
  EXPECT_TRUE(call.run().is_ok());
}

}  // namespace
}  // namespace folio::test
