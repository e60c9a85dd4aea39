// SPDX-License-Identifier: Apache-2.0
/// tests/cache/apart_test.cpp: whether what is written shares bytes with what is read, against
/// every byte of small tensors.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "cache/check_tensor.h"
#include "support/random.h"

namespace folio::test {
namespace {

std::vector<const std::byte*> bytes_of(const ConstTensor<3>& tensor) {
  std::vector<const std::byte*> bytes;
  for (int64_t t = 0; t < tensor.extent[0]; ++t) {
    for (int64_t h = 0; h < tensor.extent[1]; ++h) {
      const auto* row = static_cast<const std::byte*>(tensor.data) + t * tensor.stride_bytes[0] +
                        h * tensor.stride_bytes[1];
      for (int64_t i = 0; i < tensor.extent[2] * tensor.stride_bytes[2]; ++i)
        bytes.push_back(row + i);
    }
  }
  return bytes;
}

bool share_bytes(const ConstTensor<3>& a, const ConstTensor<3>& b) {
  const std::vector<const std::byte*> bytes = bytes_of(a);
  const std::set<const std::byte*> of_a(bytes.begin(), bytes.end());
  for (const std::byte* byte : bytes_of(b)) {
    if (of_a.count(byte) != 0) return true;
  }
  return false;
}

/// Strides of either sign, never 0, with room for rows between rows or without.
ConstTensor<3> random_tensor(Rng& rng, std::byte* middle, const int64_t (&extent)[3]) {
  const DType dtype = rng.chance(0.5) ? DType::f32 : DType::bf16;
  const int64_t element = bit_width(dtype) / 8;
  const int64_t most = 4 * extent[1] * extent[2];
  const auto stride = [&] { return (rng.chance(0.8) ? 4 : -4) * rng.between(1, most); };
  return {middle + 4 * rng.between(-most, most),
          dtype,
          {extent[0], extent[1], extent[2]},
          {stride(), stride(), element}};
}

TEST(Apart, no_shared_byte_is_missed_and_slices_at_one_stride_are_told_apart) {
  std::vector<float> memory(8192);
  auto* middle = reinterpret_cast<std::byte*>(memory.data() + 4096);
  Rng rng(test_seed());
  int apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const int64_t extent[3] = {rng.between(1, 4), rng.between(1, 4), rng.between(1, 5)};
    const ConstTensor<3> source = random_tensor(rng, middle, extent);
    ConstTensor<3> out = random_tensor(rng, middle, extent);
    const bool has_same_strides = rng.chance(0.7);
    if (has_same_strides) {
      out.stride_bytes[0] = source.stride_bytes[0];
      out.stride_bytes[1] = source.stride_bytes[1];
    }
    const bool is_refused = !check_apart("f", "out", out, "q", source).is_ok();
    const bool is_wrong = share_bytes(source, out) && !is_same(source, out);
    if (has_same_strides) {
      ASSERT_EQ(is_refused, is_wrong) << "round " << round;
    } else {
      ASSERT_GE(is_refused, is_wrong) << "round " << round;
    }
    if (is_wrong) continue;
    ++apart;
  }
  EXPECT_GT(apart, 1000);
}

TEST(Apart, the_very_same_tensor_is_no_overlap_and_the_message_names_both) {
  std::vector<float> memory(64);
  const ConstTensor<3> q{memory.data(), DType::f32, {2, 2, 8}, {64, 32, 4}};
  EXPECT_TRUE(check_apart("f", "out", q, "q", q).is_ok());
  ConstTensor<3> out = q;
  out.dtype = DType::bf16;
  out.stride_bytes[2] = 2;
  EXPECT_EQ(check_apart("f", "out", out, "parts[3].out", q).message(),
            "f: out lies in memory of parts[3].out with another place, dtype or strides, expected "
            "parts[3].out itself or other memory");
}

}  // namespace
}  // namespace folio::test
