// SPDX-License-Identifier: Apache-2.0
/// bench/attention_memory.cpp: random elements and blocks, over and over.
#include "attention_memory.h"

#include <algorithm>
#include <memory>
#include <random>

#include "reference/elements.h"
#include "support/block_dtypes.h"

namespace folio::bench {

void repeat(const std::vector<std::byte>& part, std::byte* to, int64_t bytes) {
  const auto period = static_cast<int64_t>(part.size());
  for (int64_t at = 0; at < bytes; at += period)
    std::copy_n(part.begin(), std::min(period, bytes - at), to + at);
}

std::vector<std::byte> random_elements(DType dtype, double low, double high, uint64_t from) {
  constexpr size_t period = 32771;
  std::mt19937_64 random(from);
  std::uniform_real_distribution<double> uniform(low, high);
  if (folio::detail::is_packed(dtype)) {  // any patterns
    std::vector<std::byte> values(period);
    for (std::byte& b : values) b = static_cast<std::byte>(random());
    return values;
  }
  if (folio::detail::is_block(dtype)) {  // any patterns, of a scale
    const auto bytes = static_cast<size_t>(row_bytes(dtype, block_elements(dtype)));
    std::vector<std::byte> blocks(period * bytes);
    for (std::byte& b : blocks) b = static_cast<std::byte>(random());
    for (size_t i = 0; i < period; ++i) {
      std::byte* const block = blocks.data() + i * bytes;
      reference::store(block, DType::f16, uniform(random) / 128.0);
      if (test::has_minimum(dtype)) reference::store(block + 2, DType::f16, uniform(random));
    }
    return blocks;
  }
  std::vector<std::byte> values(period * static_cast<size_t>(element_bytes(dtype)));
  for (size_t i = 0; i < period; ++i)
    reference::store(values.data() + i * static_cast<size_t>(element_bytes(dtype)), dtype,
                     uniform(random));
  return values;
}

std::vector<std::byte> rows_with_scales(DType dtype, int64_t row_bytes, int64_t stride) {
  constexpr int64_t period = 509;
  const std::vector<std::byte> elements = random_elements(dtype, -largest(dtype), largest(dtype));
  std::mt19937_64 random(seed + 2);
  std::uniform_real_distribution<double> uniform(0.5 / largest(dtype), 1.5 / largest(dtype));
  std::vector<std::byte> rows(static_cast<size_t>(period * stride));
  for (int64_t i = 0; i < period; ++i) {
    const auto at =
        static_cast<size_t>(i * row_bytes) % (elements.size() - static_cast<size_t>(row_bytes));
    std::byte* const to = rows.data() + i * stride;
    std::copy_n(elements.data() + at, row_bytes, to);
    reference::store(to + row_bytes, DType::f32, uniform(random));
  }
  return rows;
}

const HugeMemory& kv_memory(int64_t bytes, DType dtype) {
  static std::unique_ptr<HugeMemory> memory;
  static DType held = DType::invalid;
  const bool grows = memory == nullptr || memory->bytes() < bytes;
  if (grows) {
    memory.reset();
    memory = std::make_unique<HugeMemory>(bytes);
  }
  if (grows || held != dtype)
    repeat(random_elements(dtype, -largest(dtype), largest(dtype)), memory->data(),
           memory->bytes());
  held = dtype;
  return *memory;
}

}  // namespace folio::bench
