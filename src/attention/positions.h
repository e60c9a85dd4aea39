// SPDX-License-Identifier: Apache-2.0
/// src/attention/positions.h: which row of a rotation table a token takes, and whether there is
/// one.
#pragma once

#include <cstdint>

#include "folio/attention/rotate.h"
#include "folio/cache/batch.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Offsets, which are not null, ascend from 0.
/// Errors: invalid_argument, "<function>: batch.query_offsets..."
Status check_ascending(const char* function, const Batch& batch) noexcept;

/// A size, and offsets that are there: what is known of a batch without reading its arrays.
/// Errors: invalid_argument, "<function>: batch..."
Status check_size(const char* function, const Batch& batch) noexcept;

/// Size and offsets of a batch whose sequences have `tokens` tokens together; `of` names what has
/// them. Errors: invalid_argument, "<function>: batch...", for a negative size, null or descending
/// offsets, another number of tokens
Status check_offsets(const char* function, const Batch& batch, int64_t tokens,
                     const char* of) noexcept;

/// The table and its place in a head of `head_size`, which `of` names.
/// Errors: invalid_argument, "<function>: rope..."
Status check_rope(const char* function, const Rope& rope, int32_t head_size,
                  const char* of) noexcept;

/// The arrays that positions are counted from are there, where rope has none. Errors:
/// invalid_argument, "<function>: batch..."
Status check_position_arrays(const char* function, const Batch& batch, const Rope& rope) noexcept;

/// Every token has a row of the table; `skipped` (may be null) marks tokens that need none by a
/// negative number. Without positions of its own the batch's arrays are checked first. Errors:
/// invalid_argument
Status check_positions(const char* function, const Batch& batch, const Rope& rope, int64_t tokens,
                       const char* of, const int64_t* skipped) noexcept;

/// Position of the first new token of sequence b.
[[nodiscard]] int64_t first_position(const Batch& batch, int32_t b) noexcept;

/// Rows of the table for ascending tokens. Null rope: null rows.
class TableRows {
 public:
  TableRows(const Batch& batch, const Rope* rope, int64_t first_token) noexcept;
  /// `token` is not below that of the call before, nor `first_token`.
  [[nodiscard]] const float* row_of(int64_t token) noexcept;

 private:
  const Batch& batch_;
  const Rope* rope_;
  int32_t sequence_ = 0;
  int64_t position_ = 0;  ///< of the sequence's first new token
};

}  // namespace folio::inline v1
