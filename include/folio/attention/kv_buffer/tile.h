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

namespace folio::inline v1 {

/// `Rows` consecutive keys. Addresses are those of the first dim that is used; all rows have one
/// stride within a page.
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
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t stride_bytes() const { return stride_bytes_; }

  /// Row `key`, or null if it reads as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const std::byte* row(int key) const {
    return is_whole_ ? whole_.data + key * stride_bytes_ : row_[key];
  }
  /// Scale of granule 0 of row `key`'s head; null without scales, or if the row reads as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const std::byte* scales(int key) const {
    if (scale_stride_bytes_ < 0) return nullptr;
    return is_whole_ ? whole_scales_ + key * scale_stride_bytes_ : scale_row_[key];
  }
  /// Rows [first, first + Count) if all are there, one stride apart; otherwise data is null.
  template <int Count>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE TileRows group(int first) const {
    if (is_whole_) return {whole_.data + first * stride_bytes_, stride_bytes_};
    if (row_[first] == nullptr) return {nullptr, stride_bytes_};
    for (int i = 1; i < Count; ++i)
      if (row_[first + i] == nullptr || is_first_[first + i]) return {nullptr, stride_bytes_};
    return {row_[first], stride_bytes_};
  }
  /// Whether all rows are there, one stride apart.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE bool is_whole() const { return is_whole_; }

  // ---- for iterators

  /// Starts a tile without rows. Strides in bytes; `scale_stride_bytes` < 0: there are no scales.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void clear(int32_t valid, int64_t stride_bytes,
                                                   int64_t scale_stride_bytes) {
    valid_ = valid;
    stride_bytes_ = stride_bytes;
    scale_stride_bytes_ = scale_stride_bytes;
    is_whole_ = false;
    for (int i = 0; i < Rows; ++i) row_[i] = nullptr;
    for (int i = 0; i < Rows; ++i) is_first_[i] = false;
    if (scale_stride_bytes >= 0)
      for (int i = 0; i < Rows; ++i) scale_row_[i] = nullptr;
  }
  /// Makes the tile one run.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void set_whole(TileRows run, const std::byte* scales,
                                                       int64_t scale_stride_bytes) {
    valid_ = Rows;
    stride_bytes_ = run.stride_bytes;
    scale_stride_bytes_ = scale_stride_bytes;
    is_whole_ = true;
    whole_ = run;
    whole_scales_ = scales;
  }
  /// Adds rows [first, first + count), consecutive from `data` on, count <= 64, of which those are
  /// there whose bit is set: bit 0 of `seen` is row `first`.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void add(int first, int count, const std::byte* data,
                                                 const std::byte* scales, uint64_t seen) {
    is_first_[first] = true;
    for (int i = 0; i < count; ++i) {
      if ((seen >> i & 1) == 0) continue;
      row_[first + i] = data + i * stride_bytes_;
      if (scale_stride_bytes_ >= 0) scale_row_[first + i] = scales + i * scale_stride_bytes_;
    }
  }

 private:
  int32_t valid_ = 0;
  bool is_whole_ = false;
  int64_t stride_bytes_ = 0;
  int64_t scale_stride_bytes_ = -1;
  TileRows whole_ = {};
  const std::byte* whole_scales_ = nullptr;
  const std::byte* row_[Rows];
  const std::byte* scale_row_[Rows];
  bool is_first_[Rows];  ///< of a run: not one stride behind the row before it
};

}  // namespace folio::inline v1
