// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_alignment.h: addresses and strides that are multiples of what an element, or a
/// kernel, needs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "folio/core/dtype.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Multiples of `bytes`: the size of an element, or else what `reason` says.
struct Alignment {
  int64_t bytes = 1;
  DType element = DType::invalid;
  std::string_view reason = {};
};

/// An element's own size; a byte for what is smaller; that of their numbers for blocks.
constexpr Alignment natural_alignment(DType element) {
  if (detail::is_block(element)) element = DType::f16;
  return {bit_width(element) < 8 ? 1 : bit_width(element) / 8, element, {}};
}

struct Stride {
  const char* name;
  int64_t bytes;
};

[[nodiscard]] bool is_aligned(const void* data, int64_t bytes) noexcept;

/// `member` follows the name of the argument: ".data", or "" for a pointer. Null is aligned.
/// Errors: invalid_argument, "<function>: <name><member> is not aligned..."
[[nodiscard]] Status check_aligned(const char* function, const char* name, const char* member,
                                   const void* data, const Alignment& alignment) noexcept;

/// Errors: invalid_argument, "<function>: <name>.<stride>..."
[[nodiscard]] Status check_strides(const char* function, const char* name,
                                   std::span<const Stride> strides,
                                   const Alignment& alignment) noexcept;

}  // namespace folio::inline v1
