// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/byte_rows_test.cpp: rows of 8 bits that are looked up as bf16, as they are staged.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/byte_rows_entries.h"
#include "cpu/features.h"
#include "folio/core/element.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

float value_of(DType dtype, uint8_t bits) {
  if (dtype == DType::i8) return static_cast<float>(std::bit_cast<int8_t>(bits));
  return dtype == DType::f8_e4m3 ? to_float(f8_e4m3{bits}) : to_float(f8_e5m2{bits});
}

TEST(ByteRows, every_pattern_at_every_place_becomes_its_value_and_nothing_else_is_touched) {
  if (!machine_has(Capability::avx512_bf16))
    GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  Rng rng(test_seed());
  for (const DType dtype : {DType::i8, DType::f8_e4m3, DType::f8_e5m2}) {
    for (const int n : {1, 8, 31, 32, 33, 63, 64, 65, 120, 256, 576}) {
      const GuardedMemory from(n, 1), to(int64_t{n} * 2, 2);
      auto* const elements = reinterpret_cast<uint8_t*>(from.data());
      const int first = rng.int_between(0, 255);
      for (int i = 0; i < n; ++i) elements[i] = static_cast<uint8_t>(first + i);
      auto* const words = reinterpret_cast<uint16_t*>(to.data());
      bf16_row_of_bytes(dtype, elements, words, n);
      for (int i = 0; i < n; ++i) {
        const float exact = value_of(dtype, elements[i]);
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(to_float(bf16{words[i]}))) << name(dtype) << " " << i;
        } else {
          EXPECT_EQ(words[i], from_float<bf16>(exact).bits) << name(dtype) << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::test
