// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/head_loader.h: K and V of the head or tile that comes next, brought a piece at a
/// time while the one before it is computed.
///
/// Of two stages one is computed, the other is begun. What is brought follows from the view: rows
/// as they are stored where the products of few rows widen them, else words; without the scales
/// that multiply scores and weights. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/few_heads.h"
#include "cpu/avx512/row_loader.h"
#include "cpu/profile.h"
#include "cpu/skeleton/task_view.h"
#include "folio/core/element.h"

namespace folio::inline v1::avx512 {

template <class I>
class HeadLoader {
 public:
  HeadLoader(const skeleton::TaskView& view, const Scratch& scratch, bool is_few)
      : first_head_(view.task.head),
        has_values_(!view.problem.value_in_key),
        key_type_(is_few ? widened_type(view.args.key) : DType::invalid),
        value_type_(!has_values_ ? key_type_
                    : is_few     ? widened_type(view.args.value)
                                 : DType::invalid),
        keys_(plane(view.args.key), view.batch.table,
              {.read_as_vectors = has_values_ ? 0 : view.problem.v_head_size,
               .is_as_stored = key_type_ != DType::invalid},
              scratch.keys),
        values_(plane(has_values_ ? view.args.value : view.args.key), view.batch.table,
                {.read_as_vectors = view.problem.v_head_size,
                 .stride_max = value_stride_max(view.head_rows),
                 .is_as_stored = value_type_ != DType::invalid},
                scratch.values) {}

  /// Scales that a kernel of 16-bit operands can apply to scores and weights: they do not vary
  /// along the row.
  static bool is_per_row(const PagedKVView& view) {
    return I::per_word == 2 && view.scales.data != nullptr &&
           (view.scales.granularity >= view.head_size || view.scales.granule_stride_bytes == 0);
  }

  /// What the products widen; invalid: they read words.
  [[nodiscard]] DType key_type() const { return key_type_; }
  [[nodiscard]] DType value_type() const { return value_type_; }

  /// Head h of the task, into the stage that is not computed.
  void begin(const KeyTile& tile, int h) {
    is_loading_ = keys_.begin(tile, first_head_ + h, stage_ ^ 1);
    if (has_values_) is_loading_ |= values_.begin(tile, first_head_ + h, stage_ ^ 1);
    is_in_place_ = !is_loading_;
  }
  /// One piece of what was begun, of K and of V.
  void step(bool is_last = false) {
    if (!is_loading_) return;
    const bool more_keys = keys_.step(), waits = values_.is_copying() && !is_last,
               more_values = waits || (has_values_ && values_.step());
    is_loading_ = more_keys || more_values;
  }
  void finish() {
    while (is_loading_) step(true);
  }
  [[nodiscard]] bool is_loading() const { return is_loading_; }
  /// Whether nothing of what was begun is staged.
  [[nodiscard]] bool is_in_place() const { return is_in_place_; }

  /// What was begun and finished is computed from now on.
  void advance() { stage_ ^= 1; }
  [[nodiscard]] FewTile computed(const KeyTile& tile) const { return rows(tile, stage_); }
  [[nodiscard]] FewTile begun(const KeyTile& tile) const { return rows(tile, stage_ ^ 1); }
  /// The lines of what was begun; of V null where it is part of K.
  [[nodiscard]] const LineList* key_lines() { return &keys_.fetches(stage_ ^ 1); }
  [[nodiscard]] const LineList* value_lines() {
    return has_values_ ? &values_.fetches(stage_ ^ 1) : nullptr;
  }

 private:
  /// Without the scales that are not applied to elements.
  static PagedKVView plane(PagedKVView view) {
    if (is_per_row(view)) view.scales = {};
    return I::mutant == Mutant::dense_page_stride ? with_dense_pages(view) : view;
  }
  /// Rows of V further apart are worth a copy, where more than a block of rows reads them.
  static int32_t value_stride_max(int head_rows) {
    const bool is_worth = I::per_word == 2 && machine_profile().in_place.dense_values &&
                          head_rows > Layout<I::per_word>::row_block;
    return is_worth ? Tuning<I::per_word>::paired_stride_max : 0;
  }
  /// What the products of few rows widen themselves, from rows of whole 16 bytes; invalid: words.
  static DType widened_type(const PagedKVView& view) {
    const bool has_element_scales = view.scales.data != nullptr && !is_per_row(view);
    const bool is_whole = folio::row_bytes(view.dtype, view.head_size) % 16 == 0;
    if (has_element_scales || !is_whole) return DType::invalid;
    bool is_known = false;
    with_stored<I>(view.dtype, [&]<class Stored>(const Stored&) { is_known = Stored::is_widened; });
    return is_known ? view.dtype : DType::invalid;
  }
  [[nodiscard]] FewTile rows(const KeyTile& tile, int stage) const {
    const TileRows* const keys = keys_.groups(stage);
    return {tile, keys, has_values_ ? values_.groups(stage) : keys};
  }

  const int first_head_;
  const bool has_values_;
  const DType key_type_;
  const DType value_type_;
  Plane<I, true> keys_;
  Plane<I, false> values_;
  int stage_ = 1;
  bool is_loading_ = false;
  bool is_in_place_ = false;
};

}  // namespace folio::inline v1::avx512
