// SPDX-License-Identifier: Apache-2.0
/// cli/replay/stored_row.h: what a cache has of a row, by the reference.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "folio/cache/planes.h"

namespace folio::cli {

/// A cache of one row of one head. Thread safety: one thread at a time.
class StoredRow {
 public:
  /// `shape` as of a cache that there is.
  explicit StoredRow(const KVShape& shape);

  /// The elements that are found of a row that was appended, before they are turned back.
  std::vector<double> of(std::span<const float> row);

 private:
  std::vector<double> blocks_, scales_;  // their alignment is any element's
  PagedKVView view_;
};

}  // namespace folio::cli
