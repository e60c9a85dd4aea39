// SPDX-License-Identifier: Apache-2.0
/// src/mask/scan.h: rows of a mask's numbers to bits, built for each instruction set.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "folio/core/dtype.h"
#include "kernel/capability.h"

namespace folio::inline v1 {
namespace mask {

inline constexpr int64_t word_keys = 64;
[[nodiscard]] constexpr int64_t words_of(int64_t keys) {
  return keys / word_keys + (keys % word_keys != 0 ? 1 : 0);
}

/// Bit j % 64 of bits[j / 64] for each of `keys` numbers: it is not -inf; bits behind the last are
/// 0. Whether one of those is another number than 0 and -0.
using ScanRow = bool(const void* row, int64_t keys, uint64_t* bits) noexcept;

/// One build. Reads the numbers, aligned to their size, and nothing behind them.
struct Scanner {
  std::string_view name;
  Capabilities needs = {};
  ScanRow* f16 = nullptr;
  ScanRow* bf16 = nullptr;
  ScanRow* f32 = nullptr;

  /// Of f16, bf16 or f32.
  [[nodiscard]] ScanRow* of(DType dtype) const {
    return dtype == DType::f16 ? f16 : dtype == DType::bf16 ? bf16 : f32;
  }
};

/// Every build, best first.
[[nodiscard]] std::span<const Scanner* const> scanners() noexcept;
/// The best build that this machine runs.
[[nodiscard]] const Scanner& scanner() noexcept;

}  // namespace mask

namespace baseline {
extern const mask::Scanner mask_scanner;
}
namespace x86_64_v3 {
extern const mask::Scanner mask_scanner;
}
namespace x86_64_v4 {
extern const mask::Scanner mask_scanner;
}

}  // namespace folio::inline v1
