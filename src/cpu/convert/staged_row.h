// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/staged_row.h: one row of a tile to its stage: copied, converted, scaled, and
/// zero where there is nothing.
///
/// What engines do whose stages hold rows in one type, whatever is stored. ISA-safe: templates on a
/// tag type.
#pragma once

#include "cpu/convert/row_factors.h"
#include "cpu/convert/rows.h"
#include "cpu/convert/scaled_rows.h"
#include "cpu/skeleton/mutant.h"
#include "folio/attention/kv_buffer/source.h"
#include "folio/core/element.h"

namespace folio::inline v1 {

/// `To`: float, or bf16.
template <class I, class To>
class StagedRow {
 public:
  static constexpr DType staged = dtype_of<To>;

  FOLIO_ALWAYS_INLINE explicit StagedRow(DType stored)
      : stored_(stored),
        convert_(Rows<I>::template row_to<To>(stored)),
        convert_scaled_{ScaledRows<I>::template row_to<To>(stored, false),
                        ScaledRows<I>::template row_to<To>(stored, true)} {}

  /// Whether rows may stay where they are as far as their type says.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_stored() const { return stored_ == staged; }

  /// Row `key` of the source, and zeros from its last column on up to `count`.
  template <class Shape>
  __attribute__((noinline)) void bring(const KVSource<Shape>& source, int key, int count,
                                       To* to) const {
    const std::byte* const from = source.row(key);
    int done = 0;
    if (from != nullptr) {
      done = source.columns;
      if (source.has_scales()) {
        scaled(source, key, from, to);
      } else if (is_stored()) {
        __builtin_memcpy(static_cast<void*>(to), from, static_cast<size_t>(done) * sizeof(To));
      } else {
        convert_(from, to, done);
      }
    }
    __builtin_memset(static_cast<void*>(to + done), 0,
                     static_cast<size_t>(count - done) * sizeof(To));
  }

 private:
  template <class Shape>
  FOLIO_ALWAYS_INLINE void scaled(const KVSource<Shape>& source, int key, const std::byte* from,
                                  To* to) const {
    const ScaleView& view = *source.scale_view;
    const int first = Shape::head_dim_offset + source.first_column;
    int granule = 0, phase = 0;
    if (first != 0) {
      granule = first / view.granularity;
      phase = first % view.granularity;
    }
    if (I::mutant == Mutant::scale_index_by_ceil) ++granule;
    RowFactors<I, Shape::smem_cols> factors;
    factors.read(view, source.tile->scales(key) + granule * view.granule_stride_bytes, phase,
                 source.columns);
    convert_scaled_[factors.is_by_element()](from, factors.each(), to, source.columns);
  }

  DType stored_;
  typename Rows<I>::template Row<To> convert_;
  typename ScaledRows<I>::template Row<To> convert_scaled_[2];  // by register, by element
};

}  // namespace folio::inline v1
