// SPDX-License-Identifier: Apache-2.0
/// python/src/table.cpp: where the entries of a batch's page table are.
#include "table.h"

#include <algorithm>
#include <string>

namespace folio::python {
namespace {

constexpr uint32_t unassigned = 0xffffffffu;

bool is_32_bit(const Array& array) {
  return array.type == nb::dtype<int32_t>() || array.type == nb::dtype<uint32_t>();
}

/// Ids that no 32-bit entry can hold are no pages.
uint32_t entry_of(int64_t id) {
  return id < 0 || id > int64_t{unassigned} ? unassigned : static_cast<uint32_t>(id);
}

}  // namespace

void Table::read(nb::handle table, nb::handle row_starts, size_t batch) {
  const bool is_dense = row_starts.is_none();
  if (nb::isinstance<nb::list>(table) || nb::isinstance<nb::tuple>(table)) {
    read_lists(table, is_dense, batch);
  } else {
    read_array(table, is_dense, batch);
  }
  if (is_dense) return;
  row_starts_ = int64_of(row_starts, "row_starts");
  if (row_starts_.size() != batch)
    refuse_argument("row_starts: expected {} elements (one a sequence), got {}", batch,
                    row_starts_.size());
  for (size_t b = 0; b < batch; ++b)
    if (row_starts_[b] < 0 || row_starts_[b] > columns_)
      refuse_argument("row_starts[{}] is {}, expected 0 to {} (the entries of table)", b,
                      row_starts_[b], columns_);
  view_.row_starts = row_starts_.data();
}

void Table::read_lists(nb::handle table, bool is_dense, size_t batch) {
  std::vector<std::vector<int64_t>> rows;
  if (is_dense) {
    for (const nb::handle row : nb::borrow<nb::sequence>(table))
      rows.push_back(int64_of(row, "table"));
    if (rows.size() < batch) refuse_argument("table: expected {} rows, got {}", batch, rows.size());
  } else {
    rows.push_back(int64_of(table, "table"));
  }
  for (const auto& row : rows) columns_ = std::max(columns_, static_cast<int64_t>(row.size()));
  own_entries_.assign(rows.size() * static_cast<size_t>(columns_), unassigned);
  for (size_t b = 0; b < rows.size(); ++b)
    std::transform(rows[b].begin(), rows[b].end(),
                   own_entries_.begin() + static_cast<int64_t>(b) * columns_, entry_of);
  view_ = {own_entries_.data(), is_dense ? columns_ : 0, nullptr};
}

void Table::read_array(nb::handle table, bool is_dense, size_t batch) {
  array_ = array_of(table, "table");
  expect_ndim(array_, is_dense ? 2 : 1, is_dense ? "[batch, columns]" : "[entries]");
  if (is_dense && array_.extent[0] < static_cast<int64_t>(batch))
    refuse_argument("table: expected {} rows, got {}", batch, array_.description());
  if (!is_32_bit(array_) && array_.type != nb::dtype<int64_t>())
    refuse_argument("table: expected int32, uint32 or int64, got {}", array_.description());
  const int last = array_.ndim - 1;
  columns_ = array_.extent[last];
  const bool is_contiguous = columns_ <= 1 || array_.stride[last] == 1;
  // A row stride is a number of entries, and never negative.
  if (is_32_bit(array_) && is_contiguous && (!is_dense || array_.stride[0] >= 0)) {
    view_ = {static_cast<const uint32_t*>(array_.data), is_dense ? array_.stride[0] : 0, nullptr};
    return;
  }
  copy_entries(is_dense ? static_cast<int64_t>(batch) : 1);
  view_ = {own_entries_.data(), is_dense ? columns_ : 0, nullptr};
}

void Table::copy_entries(int64_t rows) {
  const int last = array_.ndim - 1;
  own_entries_.reserve(static_cast<size_t>(rows * columns_));
  for (int64_t b = 0; b < rows; ++b) {
    for (int64_t i = 0; i < columns_; ++i) {
      const int64_t at = (last == 1 ? b * array_.stride[0] : 0) + i * array_.stride[last];
      own_entries_.push_back(is_32_bit(array_)
                                 ? static_cast<const uint32_t*>(array_.data)[at]
                                 : entry_of(static_cast<const int64_t*>(array_.data)[at]));
    }
  }
}

void Table::expect_room(const std::vector<int32_t>& context_lengths, int32_t page_size) const {
  for (size_t b = 0; b < context_lengths.size(); ++b) {
    const int64_t pages = (int64_t{context_lengths[b]} + page_size - 1) / page_size;
    const int64_t room = row_starts_.empty() ? columns_ : columns_ - row_starts_[b];
    if (pages > room)
      refuse_argument(
          "table: expected {} entries for the {} keys of sequence {} in pages of {}, got {}", pages,
          context_lengths[b], b, page_size, room);
  }
}

}  // namespace folio::python
