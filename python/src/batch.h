// SPDX-License-Identifier: Apache-2.0
/// python/src/batch.h: `Batch`: who is in the step, with references to what it borrows.
#pragma once

#include <algorithm>
#include <vector>

#include "array.h"
#include "folio/cache/batch.h"
#include "table.h"

namespace folio::python {

/// Thread safety: immutable once made.
class BatchHolder {
 public:
  struct Arrays {
    nb::object query_offsets, context_lengths, table, row_starts, query_positions, key_positions,
        visible, tree, selected, alibi_positions;
  };
  explicit BatchHolder(const Arrays& arrays);
  BatchHolder(const BatchHolder&) = delete;
  BatchHolder& operator=(const BatchHolder&) = delete;

  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] int64_t tokens() const { return offsets_.back(); }
  [[nodiscard]] int32_t max_context() const { return max_context_; }
  /// Keys of the longest row that attention may have to walk: a context or a list.
  [[nodiscard]] int32_t max_keys() const { return std::max(max_context_, batch_.selected_stride); }
  /// KV heads that have lists of their own; 0: all have one.
  [[nodiscard]] int64_t selected_heads() const { return selected_heads_; }
  [[nodiscard]] int32_t max_new_tokens() const { return max_new_tokens_; }
  /// Throws Error unless the table has an entry for each page of these keys.
  void expect_room(int32_t page_size) const { table_.expect_room(lengths_, page_size); }

  [[nodiscard]] const std::vector<int32_t>& offsets() const { return offsets_; }
  [[nodiscard]] const std::vector<int32_t>& lengths() const { return lengths_; }

 private:
  void take_visible(nb::handle visible);
  void take_tree(nb::handle tree);
  void take_selected(nb::handle selected);
  void take_alibi_positions(nb::handle positions);
  const int32_t* take_per_sequence(nb::handle object, const char* name, std::vector<int32_t>& out);

  Batch batch_ = {};
  std::vector<int32_t> offsets_, lengths_, query_positions_, key_positions_;
  std::vector<int32_t> visible_begin_, visible_end_;
  Table table_;
  Array tree_, selected_, alibi_positions_;
  int64_t selected_heads_ = 0;
  int32_t max_context_ = 0;
  int32_t max_new_tokens_ = 0;
};

/// The constructor that Batch and Step share.
template <class Holder, class... Bases>
void bind_batch_constructor(nb::class_<Holder, Bases...>& type, const char* documentation) {
  type.def(
      "__init__",
      [](Holder* self, nb::object query_offsets, nb::object context_lengths, nb::object table,
         nb::object row_starts, nb::object query_positions, nb::object key_positions,
         nb::object visible, nb::object tree, nb::object selected, nb::object alibi_positions) {
        new (self) Holder(BatchHolder::Arrays{query_offsets, context_lengths, table, row_starts,
                                              query_positions, key_positions, visible, tree,
                                              selected, alibi_positions});
      },
      nb::arg("query_offsets"), nb::arg("context_lengths"), nb::arg("table"), nb::kw_only(),
      nb::arg("row_starts").none() = nb::none(), nb::arg("query_positions").none() = nb::none(),
      nb::arg("key_positions").none() = nb::none(), nb::arg("visible").none() = nb::none(),
      nb::arg("tree").none() = nb::none(), nb::arg("selected").none() = nb::none(),
      nb::arg("alibi_positions").none() = nb::none(), documentation);
}

void bind_batch(nb::module_& m);

}  // namespace folio::python
