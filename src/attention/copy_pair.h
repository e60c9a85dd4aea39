// SPDX-License-Identifier: Apache-2.0
/// src/attention/copy_pair.h: two planes between which tokens are copied: whether their bytes can
/// be moved, and the moving.
#pragma once

#include "cpu/append/rows.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// What is copied as a whole, and so what a scale must belong to in order to move along.
enum class CopyKind : uint8_t { page, slot };

/// What decides between moving and converting, as far as no memory is read: bytes move if the
/// tensor scales agree too.
struct CopyRule {
  bool moves = false;
  bool scales_move = false;  ///< along with the bytes
};
[[nodiscard]] CopyRule copy_rule(const PagedKVView& from, const PagedKVView& to,
                                 CopyKind kind) noexcept;

/// Tokens [slot, slot + tokens) of a page, heads [head, head + heads), on both sides.
struct CopyBox {
  int64_t from_page = 0;
  int64_t from_slot = 0;
  int64_t to_page = 0;
  int64_t to_slot = 0;
  int64_t tokens = 0;
  int32_t head = 0;
  int32_t heads = 0;
  bool with_page_scales = false;  ///< also the scales that belong to the page as a whole
};

/// Two planes of one geometry. Cheap to make: nothing but flags and formats.
class CopyPair {
 public:
  /// `bytes`: what the call writes, all planes together.
  CopyPair(const PagedKVView& from, const PagedKVView& to, CopyKind kind, int64_t bytes) noexcept;

  /// The dtypes and scales agree: bytes are moved. Otherwise values are converted.
  [[nodiscard]] bool moves() const noexcept { return moves_; }
  /// Heads may be copied apart: no scale that is moved or computed is shared by all.
  [[nodiscard]] bool splits_by_heads() const noexcept;
  /// Values, and the scales that move along. Requires moves().
  void move(const CopyBox& box) const noexcept;
  /// Requires !moves(). The conversion of heads [head, head + heads), and the row of a token of it.
  [[nodiscard]] rows::Conversion conversion(int32_t heads) const noexcept;
  [[nodiscard]] rows::TokenRow token_row(const CopyBox& box, int64_t token) const noexcept;

 private:
  void move_scales(const CopyBox& box) const noexcept;

  const PagedKVView& from_;
  const PagedKVView& to_;
  const rows::Kernel& kernel_;
  bool moves_ = false;
  bool scales_move_ = false;
  bool streams_ = false;
  int64_t bytes_ = 0;
  int64_t call_bytes_ = 0;  // shorter runs are not worth a call
};

}  // namespace folio::inline v1
