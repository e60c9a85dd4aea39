// SPDX-License-Identifier: Apache-2.0
/// python/src/table.h: a page table from Python: an array in place, or a list as a copy.
#pragma once

#include <vector>

#include "array.h"
#include "folio/cache/page_table.h"

namespace folio::python {

class Table {
 public:
  /// `table`: int32 or uint32 [batch, columns] with contiguous rows is borrowed; int64, other
  /// strides and lists of lists are copied. With `row_starts` (one a sequence), one dimension.
  void read(nb::handle table, nb::handle row_starts, size_t batch);
  /// Throws Error if the row of some sequence is too short for its keys.
  void expect_room(const std::vector<int32_t>& context_lengths, int32_t page_size) const;

  [[nodiscard]] const PageTable& view() const { return view_; }

 private:
  void read_lists(nb::handle table, bool is_dense, size_t batch);
  void read_array(nb::handle table, bool is_dense, size_t batch);
  void copy_entries(int64_t rows);

  PageTable view_ = {};
  int64_t columns_ = 0;  // of each row, or entries of all rows with row_starts
  std::vector<uint32_t> own_entries_;
  std::vector<int64_t> row_starts_;
  Array array_;
};

}  // namespace folio::python
