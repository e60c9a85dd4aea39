// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/page_cursor.h: where the keys of one tile lie: the only reader of page
/// tables in a CPU kernel.
///
/// A tile is 64 consecutive keys of one sequence. `find` looks its wanted keys up, once for all
/// heads and for K and V alike, as runs of consecutive slots; `rows` turns a run into addresses of
/// one plane and head. ISA-safe: all functions are always inline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/cache/page_table.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::kv_buffer {

/// Keys of a tile: a set of them is one uint64.
inline constexpr int tile_keys = 64;

/// Consecutive keys of a tile in consecutive slots of one page.
struct TileRun {
  int32_t first = 0;  ///< key within the tile
  int32_t rows = 0;
  int64_t page = 0;
  int64_t slot = 0;
};

/// The keys [first, first + 64) of a sequence, as far as some query sees them and they lie in
/// pages.
struct KeyTile {
  int64_t first = 0;  ///< index of key 0 of the tile
  /// bit k: key first + k; all other rows of the tile read as zero. 0: there is no such tile
  uint64_t seen = 0;
  int32_t runs = 0;
  TileRun run[tile_keys] = {};  ///< ascending, disjoint; they may cover keys that are not seen
};

/// Rows at one stride.
struct TileRows {
  const std::byte* data = nullptr;  ///< row of the run's first key
  int64_t stride_bytes = 0;
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1::detail {

/// Position of the lowest bit of a mask that is not 0.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int lowest_bit(uint64_t mask) {
#ifdef __CUDA_ARCH__
  return __ffsll(static_cast<long long>(mask)) - 1;
#else
  return __builtin_ctzll(mask);
#endif
}

}  // namespace folio::inline v1::detail

namespace folio::inline v1::kv_buffer {

class PageCursor {
 public:
  /// Of sequence `b` of the table; `row` is its first entry. Page size and number of pages are
  /// those of `view`.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE PageCursor(const PagedKVView& view, const PageTable& table,
                                                   int64_t b)
      : PageCursor(view, table.entries + (table.row_starts != nullptr ? table.row_starts[b]
                                                                      : b * table.row_stride)) {}
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE PageCursor(const PagedKVView& view, const uint32_t* row)
      : view_(&view), row_(row) {}

  /// Finds the keys of `tile.seen` and drops those of unassigned pages. Reads the entries of pages
  /// that hold a seen key only.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void find(KeyTile& tile) const {
    uint64_t found = 0;
    tile.runs = 0;
    for (uint64_t left = tile.seen; left != 0;) {
      const int key = detail::lowest_bit(left);
      const detail::PageRun run =
          detail::run_of(*view_, row_, tile.first + key, tile.first + tile_keys);
      const int end = key + static_cast<int>(run.rows);
      const uint64_t bits =
          (end >= tile_keys ? ~uint64_t{0} : (uint64_t{1} << end) - 1) & (~uint64_t{0} << key);
      if (run.page != detail::no_page) {
        tile.run[tile.runs++] = {key, static_cast<int32_t>(run.rows), run.page, run.slot};
        found |= left & bits;
      }
      left &= ~bits;
    }
    tile.seen = found;
  }

  /// The same for keys that a list names by their place in the plane, page * page size + slot: key
  /// k of the tile is the row list[first + k]. Drops those that name no row of `view`. Entries that
  /// name consecutive slots of a page are one run, as the keys of a table are.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE void find_listed(const PagedKVView& view,
                                                                const int32_t* list,
                                                                KeyTile& tile) {
    const bool has_pages = view.page_size != unbounded_page_size;
    const auto page_size = static_cast<uint32_t>(has_pages ? view.page_size : 1);
    uint64_t found = 0;
    tile.runs = 0;
    for (uint64_t left = tile.seen; left != 0; left &= left - 1) {
      const int key = detail::lowest_bit(left);
      const int32_t row = list[tile.first + key];
      const auto place = static_cast<uint32_t>(row);
      if (row < 0 || int64_t{place / page_size} >= view.num_pages) continue;
      found |= uint64_t{1} << key;
      const int64_t page = place / page_size, slot = place % page_size;
      if (tile.runs > 0 && goes_on(tile.run[tile.runs - 1], key, page, slot)) {
        ++tile.run[tile.runs - 1].rows;
      } else {
        tile.run[tile.runs++] = {key, 1, page, slot};
      }
    }
    tile.seen = found;
  }

  /// The rows of a run in a plane, of one head.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE TileRows rows(const PagedKVView& view,
                                                             const TileRun& run, int64_t head) {
    return {detail::row_of(view, run.page, run.slot, head), view.slot_stride_bytes};
  }

  /// Bytes from a token's row of one head to that of the head `heads` further on.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE int64_t heads_bytes(const PagedKVView& view,
                                                                   int64_t heads) {
    return heads * view.head_stride_bytes;
  }
  /// That row itself.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE const std::byte* head_after(const PagedKVView& view,
                                                                           const std::byte* row,
                                                                           int64_t heads) {
    return row + heads_bytes(view, heads);
  }
  /// Whether the heads of a token lie closer together than the tokens: token-major order.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE bool heads_are_adjacent(const PagedKVView& view) {
    const int64_t head = view.head_stride_bytes, slot = view.slot_stride_bytes;
    return (head < 0 ? -head : head) < (slot < 0 ? -slot : slot);
  }

  /// Bytes from each row of K to that of V which belongs to it, where both lie in one slot of the
  /// same pages; 0 where they do not.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE int64_t bytes_beside(const PagedKVView& key,
                                                                    const PagedKVView& value) {
    const auto bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(value.data) -
                                            reinterpret_cast<uintptr_t>(key.data));
    const int64_t slot = key.slot_stride_bytes;
    const bool has_strides = key.page_stride_bytes == value.page_stride_bytes &&
                             slot == value.slot_stride_bytes &&
                             key.head_stride_bytes == value.head_stride_bytes;
    return has_strides && -slot < bytes && bytes < slot ? bytes : 0;
  }

  /// Whether the scales of a token's heads lie closer together than those of tokens.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE bool scales_are_adjacent(const PagedKVView& view) {
    const int64_t head = view.scales.head_stride_bytes, slot = view.scales.slot_stride_bytes;
    return (head < 0 ? -head : head) < (slot < 0 ? -slot : slot);
  }

  /// Scales of granule 0 of a run's rows, of one head; data is null without scales.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE TileRows scale_rows(const PagedKVView& view,
                                                                   const TileRun& run,
                                                                   int64_t head) {
    if (view.scales.data == nullptr) return {};
    const int64_t offset = detail::scale_offset_bytes(view.scales, run.page, run.slot, head, 0);
    return {static_cast<const std::byte*>(view.scales.data) + offset,
            view.scales.slot_stride_bytes};
  }

  /// What the elements of a row are multiplied by: the scale of (row i of the run, head, dim), 1
  /// without scales.
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE float scale(const PagedKVView& view,
                                                           const TileRun& run, int64_t i,
                                                           int64_t head, int32_t dim) {
    return detail::scale_at(view.scales, run.page, run.slot + i, head, dim);
  }

 private:
  FOLIO_HOST_DEVICE static FOLIO_ALWAYS_INLINE bool goes_on(const TileRun& run, int key,
                                                            int64_t page, int64_t slot) {
    return run.first + run.rows == key && run.page == page && run.slot + run.rows == slot;
  }

  const PagedKVView* view_;
  const uint32_t* row_;
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::KeyTile;
using kv_buffer::PageCursor;
using kv_buffer::tile_keys;
using kv_buffer::TileRows;
using kv_buffer::TileRun;
}  // namespace folio::inline v1
