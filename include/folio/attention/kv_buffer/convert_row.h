// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/convert_row.h: one row of stored elements to staged ones, in plain
/// C++.
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer/source.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::kv_buffer {

/// How a loader brings rows into a stage whose elements are not the stored ones, or not where they
/// are stored.
struct ConvertRow {
  /// Columns [first, first + count) of row `key` to `to`: times their scale in float32, rounded to
  /// nearest even, zero where there is nothing. Elements of the same type without scales keep their
  /// bits.
  template <class Shape>
  FOLIO_HOST_DEVICE static void run(const KVSource<Shape>& source, int key, int first, int count,
                                    typename Shape::smem_type* to) {
    using Operand = typename Shape::operand_type;
    using stored = element_t<Operand::dtype>;
    using staged = typename Shape::smem_type;
    const std::byte* row = source.row(key);
    for (int i = 0; i < count; ++i) {
      to[i] = staged{};
      if (row == nullptr || first + i >= source.columns) continue;
      stored element;
      __builtin_memcpy(&element, row + int64_t{first + i} * int64_t{sizeof(stored)},
                       sizeof(stored));
      if constexpr (Operand::dtype == Shape::smem_dtype) {
        if (!source.has_scales()) {
          to[i] = element;
          continue;
        }
      }
      to[i] = from_float<staged>(to_float(element) * source.scale(key, first + i));
    }
  }
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::ConvertRow;
}  // namespace folio::inline v1
