// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/tile.h: the rows of one tile of keys in one plane and head, as
/// addresses.
///
/// What a KVCacheIterator hands to a loader. A row without an address reads as zero: it lies past
/// the end, nobody sees it, or its page is unassigned. ISA-safe: all functions are always inline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::kv_buffer {

/// `Rows` consecutive keys. Addresses are those of the first dim that is used; rows of one run have
/// one stride, of either sign.
template <int Rows>
class KVCacheTile {
 public:
  static constexpr int rows = Rows;

  /// Without content until `clear` or `set_whole`.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE KVCacheTile() {
  }  // NOLINT(modernize-use-equals-default): = default may be emitted out of line

  /// Keys before the end of the sequence: min(Rows, end - first key), at least 0. Rows from here on
  /// read as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int32_t valid() const { return valid_; }

  /// Row `key`, or null if it reads as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const std::byte* row(int key) const {
    return is_whole_ ? whole_.data + key * whole_.stride_bytes : row_[key];
  }
  /// Scale of granule 0 of row `key`'s head; null without scales, or if the row reads as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const std::byte* scales(int key) const {
    if (!has_scales_) return nullptr;
    return is_whole_ ? whole_scales_.data + key * whole_scales_.stride_bytes : scale_row_[key];
  }
  /// Rows [first, first + Count) if all are there, one stride apart; otherwise data is null.
  template <int Count>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE TileRows group(int first) const {
    static_assert(Count >= 2, "KVCacheTile: a group has a stride");
    if (is_whole_) return {whole_.data + first * whole_.stride_bytes, whole_.stride_bytes};
    if (row_[first] == nullptr) return {};
    for (int i = 1; i < Count; ++i)
      if (row_[first + i] == nullptr || is_first_[first + i]) return {};
    return {row_[first], row_[first + 1] - row_[first]};
  }
  /// Whether all rows are there, one stride apart.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE bool is_whole() const { return is_whole_; }

  // ---- for iterators

  /// Starts a tile without rows, of which `valid` lie before the end.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void clear(int32_t valid, bool has_scales) {
    valid_ = valid;
    has_scales_ = has_scales;
    is_whole_ = false;
    for (int i = 0; i < Rows; ++i) row_[i] = nullptr;
    for (int i = 0; i < Rows; ++i) is_first_[i] = false;
    if (has_scales)
      for (int i = 0; i < Rows; ++i) scale_row_[i] = nullptr;
  }
  /// Makes the tile one run. `scales` without data: there are none.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void set_whole(TileRows run, TileRows scales) {
    valid_ = Rows;
    has_scales_ = scales.data != nullptr;
    is_whole_ = true;
    whole_ = run;
    whole_scales_ = scales;
  }
  /// Adds rows [first, first + count), consecutive from `run` on, count <= 64, of which those are
  /// there whose bit is set: bit 0 of `seen` is row `first`.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void add(int first, int count, TileRows run,
                                                 TileRows scales, uint64_t seen) {
    is_first_[first] = true;
    for (int i = 0; i < count; ++i) {
      if ((seen >> i & 1) == 0) continue;
      row_[first + i] = run.data + i * run.stride_bytes;
      if (has_scales_) scale_row_[first + i] = scales.data + i * scales.stride_bytes;
    }
  }

 private:
  int32_t valid_ = 0;
  bool is_whole_ = false;
  bool has_scales_ = false;
  TileRows whole_ = {};
  TileRows whole_scales_ = {};
  const std::byte* row_[Rows];
  const std::byte* scale_row_[Rows];
  bool is_first_[Rows];  ///< of a run: not one stride behind the row before it
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::KVCacheTile;
}  // namespace folio::inline v1
