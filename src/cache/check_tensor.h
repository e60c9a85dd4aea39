// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_tensor.h: the border checks of tensors of activations, alone and beside one
/// another, and of memory that a caller lends.
#pragma once

#include <charconv>
#include <cstdint>

#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// The types that q, k, v and outputs may have.
constexpr bool is_activation_dtype(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

/// "parts[12].out": the name of an argument that lies in an array. Plain arithmetic, no allocation.
class ElementName {
 public:
  /// `array` and `member` together have at most 32 characters.
  ElementName(const char* array, uint64_t index, const char* member) noexcept {
    char* at = append(append(text_, array), "[");
    at = std::to_chars(at, text_ + sizeof text_, index).ptr;
    *append(append(at, "]."), member) = '\0';
  }
  operator const char*() const noexcept { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  static char* append(char* to, const char* text) noexcept {
    while (*text != '\0') *to++ = *text++;
    return to;
  }
  char text_[64];
};

/// What a tensor must be, and which argument says so. dtype invalid: any activation dtype.
struct ExpectedTensor {
  int64_t extent[3] = {};
  const char* from = "";
  DType dtype = DType::invalid;
};

/// Errors: invalid_argument, "<function>: <name>...", for another dtype or shape, elements that do
///         not follow one another, strides or a pointer that break the alignment of an element,
///         null data of a tensor that has tokens.
[[nodiscard]] Status check_tensor(const char* function, const char* name,
                                  const ConstTensor<3>& tensor,
                                  const ExpectedTensor& expected) noexcept;

/// Of a tensor that is written and has passed check_tensor: each token and head has a place of its
/// own. Errors: invalid_argument, "<function>: <name>.stride_bytes...", for a stride of 0 over
/// several.
[[nodiscard]] Status check_places(const char* function, const char* name,
                                  const ConstTensor<3>& tensor) noexcept;

/// The very same elements: memory, dtype and strides.
[[nodiscard]] bool is_same(const ConstTensor<3>& a, const ConstTensor<3>& b) noexcept;

/// Of two tensors of one shape that have tokens and have passed check_tensor, `out` check_places
/// too: what is written is the source itself, or shares no byte with it. `out` may lie between the
/// tokens or the heads of the source (slices of one fused row) where both have the same strides.
/// Errors: invalid_argument, "<function>: <name> lies in memory of <source_name>..."
[[nodiscard]] Status check_apart(const char* function, const char* name, const ConstTensor<3>& out,
                                 const char* source_name, const ConstTensor<3>& source) noexcept;

/// Errors: invalid_argument, "<function>: <name>...", for fewer than `bytes` bytes, for null where
///         there are to be any, or an address that is no multiple of `alignment`.
[[nodiscard]] Status check_memory(const char* function, const char* name, const MemorySpan& memory,
                                  int64_t bytes, int64_t alignment = 64) noexcept;

}  // namespace folio::inline v1
