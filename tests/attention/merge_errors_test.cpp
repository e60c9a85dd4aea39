// SPDX-License-Identifier: Apache-2.0
/// tests/attention/merge_errors_test.cpp: mistakes in calls of merge.
#include <gtest/gtest.h>

#include <vector>

#include "folio/attention/merge.h"
#include "support/guarded_memory.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

struct MergeCall {
  std::vector<float> a = std::vector<float>(2 * 3 * 4, 1.0f), lse = std::vector<float>(6, 0.0f);
  GuardedMemory memory{2 * 3 * 4 * 4, 4};
  std::vector<Partial> parts = std::vector<Partial>(
      2, Partial{dense_tensor<3>(a.data(), DType::f32, {2, 3, 4}), lse.data()});
  AnyTensor<3> out = dense_tensor<3>(memory.data(), DType::f32, {2, 3, 4});
  Executor executor = serial_executor();

  Status run() { return merge(parts, out, nullptr, executor); }
  [[nodiscard]] std::vector<std::byte> written() const {
    return {memory.data(), memory.data() + memory.bytes()};
  }
};

TEST(MergeErrors, merge_refuses_parts_that_do_not_agree) {
  using C = MergeCall;
  expect_refused<C>(
      "merge",
      {{"executor", [](C& c) { c.executor = {}; }, {"executor"}},
       {"parts", [](C& c) { c.parts.clear(); }, {"parts has 0 entries", "at least 1"}},
       {"out.data", [](C& c) { c.out.data = nullptr; }, {"out.data is null"}},
       {"out.dtype", [](C& c) { c.out.dtype = DType::f8_e4m3; }, {"out has dtype f8_e4m3"}},
       {"out.extent", [](C& c) { c.out.extent[1] = 0; }, {"out has shape [2, 0, 4]"}},
       {"out stride",
        [](C& c) { c.out.stride_bytes[1] = 0; },
        {"out.stride_bytes[1] is 0 over 3 elements", "a place for each"}},
       {"part shape",
        [](C& c) { c.parts[1].out.extent[2] = 8; },
        {"parts[1].out has shape [2, 3, 8]", "[2, 3, 4]", "from out"}},
       {"part data", [](C& c) { c.parts[1].out.data = nullptr; }, {"parts[1].out.data is null"}},
       {"part dtype",
        [](C& c) { c.parts[0].out.dtype = DType::invalid; },
        {"parts[0].out has dtype invalid"}},
       {"part stride",
        [](C& c) { c.parts[0].out.stride_bytes[2] = 2; },
        {"parts[0].out.stride_bytes[2] is 2", "4"}},
       {"part stride",
        [](C& c) { c.parts[0].out.stride_bytes[0] = 50; },
        {"parts[0].out.stride_bytes[0] is 50"}},
       {"part lse", [](C& c) { c.parts[1].lse = nullptr; }, {"parts[1].lse is null", "[2, 3]"}},
       {"aliased with another dtype",
        [](C& c) {
          c.parts[1].out = c.out;
          c.parts[1].out.dtype = DType::bf16;
          c.parts[1].out.stride_bytes[2] = 2;
        },
        {"parts[1]", "memory"}},
       {"overlapping, a token further",
        [](C& c) {
          c.out.extent[0] = c.parts[0].out.extent[0] = c.parts[1].out.extent[0] = 1;
          c.parts[1].out.data = c.memory.data() + 2 * 4 * 4;
        },
        {"out lies in memory of parts[1].out", "other memory"}},
       {"overlapping, the other way round",
        [](C& c) {
          c.parts[0].out = c.out;
          c.parts[0].out.data = c.memory.data() + 5 * 4 * 4;
          c.parts[0].out.stride_bytes[0] = -c.out.stride_bytes[0];
        },
        {"out lies in memory of parts[0].out"}}});
}

TEST(MergeErrors, slices_of_one_buffer_are_other_memory) {
  // [tokens, heads, part, dims]: the output lies between the heads of the parts
  constexpr int64_t tokens = 3, heads = 4, dims = 8, slices = 3;
  std::vector<float> memory(tokens * heads * slices * dims, 1.0f), lse(tokens * heads, 0.0f);
  const auto slice = [&](int64_t first) {
    AnyTensor<3> tensor = dense_tensor<3>(memory.data() + first, DType::f32, {tokens, heads, dims});
    tensor.stride_bytes[0] = heads * slices * dims * 4;
    tensor.stride_bytes[1] = slices * dims * 4;
    return tensor;
  };
  const Partial parts[] = {{slice(0), lse.data()}, {slice(dims), lse.data()}};
  EXPECT_EQ(merge(parts, slice(2 * dims), nullptr, serial_executor()).message(), "");
  for (const int64_t first : {2 * dims - 1, dims + 1, dims / 2}) {
    const Status status = merge(parts, slice(first), nullptr, serial_executor());
    EXPECT_EQ(status.code(), Errc::invalid_argument) << first;
  }
}

}  // namespace
}  // namespace folio::test
