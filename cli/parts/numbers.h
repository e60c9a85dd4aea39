// SPDX-License-Identifier: Apache-2.0
/// cli/parts/numbers.h: shares and sizes of figures.
#pragma once

#include <cstdint>

namespace folio::cli {

inline constexpr double bytes_per_mib = 1024.0 * 1024.0, bytes_per_gib = 1024.0 * bytes_per_mib;

/// GiB of `count` things of so many bytes each.
constexpr double gib_of(int64_t count, int64_t bytes = 1) {
  return static_cast<double>(count) * static_cast<double>(bytes) / bytes_per_gib;
}

/// 0 without a whole.
constexpr double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }
constexpr double ratio(int64_t part, int64_t whole) {
  return ratio(static_cast<double>(part), static_cast<double>(whole));
}

}  // namespace folio::cli
