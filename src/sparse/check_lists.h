// SPDX-License-Identifier: Apache-2.0
/// src/sparse/check_lists.h: the border checks of matrices of scores, of lists and of what else
/// the calls of sparse attention have in common.
#pragma once

#include <cstdint>

#include "folio/cache/batch.h"
#include "folio/core/any_tensor.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

struct ExpectedMatrix {
  int64_t extent[2] = {};
  const char* from = "";
  DType dtype = DType::f32;
};

/// Errors: invalid_argument, "<function>: <name>...", for another dtype or shape, rows whose
///         elements do not follow one another, null data of a matrix that has rows, strides or data
///         that break the alignment of an element or reach beyond memory.
[[nodiscard]] Status check_matrix(const char* function, const char* name,
                                  const ConstTensor<2>& matrix,
                                  const ExpectedMatrix& expected) noexcept;

/// Rows of int32, each with a place of its own.
struct Lists {
  const char* name = "";
  const void* data = nullptr;
  int64_t tokens = 0;
  int64_t count = 0;  ///< entries of a row
  const char* stride_name = "stride";
  int64_t stride = 0;
};

/// Errors: invalid_argument, "<function>: <lists.name>..." or "<lists.stride_name>...".
[[nodiscard]] Status check_lists(const char* function, const Lists& lists) noexcept;

/// Errors: invalid_argument, "<function>: k...", outside [1, most]; `limit` names `most`.
[[nodiscard]] Status check_k(const char* function, int32_t k, int32_t most,
                             const char* limit) noexcept;

/// Pages whose slots are numbers of int32.
/// Errors: invalid_argument, "<function>: page_size..." or "num_pages..."
[[nodiscard]] Status check_slots(const char* function, int32_t page_size,
                                 int64_t num_pages) noexcept;

/// Offsets, lengths and table rows of a batch, from its arrays; lengths of 0 to `context_max`,
/// which `limit` names.
/// Errors: invalid_argument, "<function>: batch..."
[[nodiscard]] Status check_sequences(const char* function, const Batch& batch, int32_t context_max,
                                     const char* limit) noexcept;

}  // namespace folio::inline v1
