// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/four_rows.h: the rows of a tile, four at a time: where they lie, or
/// converted to bf16 in the first cache.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>

#include "cpu/amx/grouped/layout.h"
#include "cpu/convert/rows.h"
#include "folio/core/element.h"

namespace folio::inline v1::amx {

template <class I>
class FourRows {
 public:
  /// `row`: 64 rows of `columns` elements of type `stored`; given as `staged`: that, or bf16.
  FOLIO_ALWAYS_INLINE FourRows(const std::byte* const* row, DType stored, DType staged, int columns)
      : row_(row),
        convert_(stored == staged ? nullptr : Rows<I>::template row_to<bf16>(stored)),
        columns_(columns) {}
  FourRows(const FourRows&) = delete;  // it points into itself
  FourRows& operator=(const FourRows&) = delete;

  /// Rows [first, first + 4), until the next call.
  [[nodiscard]] FOLIO_ALWAYS_INLINE const std::byte* const* at(int first) {
    return convert_ == nullptr ? row_ + first : converted(first);
  }

 private:
  __attribute__((noinline)) const std::byte* const* converted(int first) {
    for (int i = 0; i < 4; ++i) {
      convert_(row_[first + i], reinterpret_cast<bf16*>(rows_[i]), columns_);
      at_[i] = rows_[i];
    }
    return at_;
  }

  const std::byte* const* row_;
  typename Rows<I>::template Row<bf16> convert_;
  int columns_;
  const std::byte* at_[4];
  alignas(64) std::byte rows_[4][grouped_depth_max * 2];  // of bf16
};

}  // namespace folio::inline v1::amx
