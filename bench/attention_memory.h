// SPDX-License-Identifier: Apache-2.0
/// bench/attention_memory.h: random q, K and V of the attention benches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "folio/core/dtype.h"
#include "roofs.h"

namespace folio::bench {

inline constexpr uint64_t seed = 20240607;

inline int element_bytes(DType dtype) { return bit_width(dtype) / 8; }
inline bool is_scaled(DType dtype) {
  return bit_width(dtype) == 8 || folio::detail::is_packed(dtype);
}
/// What the elements of K and V go up to.
inline double largest(DType dtype) {
  switch (dtype) {
    case DType::i8: return 127.0;
    case DType::f8_e4m3: return 448.0;
    case DType::f4_e2m1: return 6.0;
    default: return folio::detail::is_packed(dtype) ? 8.0 : 1.0;
  }
}

/// Writes `part` over and over. Filling gigabytes must not take longer than measuring, so values
/// repeat, with a prime period.
void repeat(const std::vector<std::byte>& part, std::byte* to, int64_t bytes);

/// A period of elements, of packed bytes of any patterns, or of blocks of any whose scales are of
/// that range.
std::vector<std::byte> random_elements(DType dtype, double low, double high, uint64_t from = seed);

/// A period of rows of 8-bit elements, `stride` bytes apart, each with its scale in f32 behind it.
std::vector<std::byte> rows_with_scales(DType dtype, int64_t row_bytes, int64_t stride);

/// Memory full of random K and V, the same for all workloads, filled again only if they change type
/// or need more. It lives as long as the process, since touching a gigabyte takes longer than most
/// cases.
const HugeMemory& kv_memory(int64_t bytes, DType dtype);

}  // namespace folio::bench
