// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/selected_keys.h: where the keys of one tile lie that a list of rows names.
///
/// A tile is 64 consecutive entries of a list; entries that name consecutive slots of a page are
/// one run, as the keys of a table are. ISA-safe: always-inline functions only.
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::skeleton {

struct SelectedKeys {
  /// Finds the entries `tile.seen` of `list`, and drops those that name no row of the plane.
  FOLIO_ALWAYS_INLINE static void find(const PagedKVView& view, const int32_t* list,
                                       KeyTile& tile) {
    const bool has_pages = view.page_size != unbounded_page_size;
    const auto page_size = static_cast<uint32_t>(has_pages ? view.page_size : 1);
    uint64_t found = 0;
    tile.runs = 0;
    for (uint64_t left = tile.seen; left != 0; left &= left - 1) {
      const int key = detail::lowest_bit(left);
      const int32_t row = list[tile.first + key];
      const int64_t page =
          row < 0 ? detail::no_page : static_cast<int64_t>(static_cast<uint32_t>(row) / page_size);
      if (page == detail::no_page || page >= view.num_pages) continue;
      found |= uint64_t{1} << key;
      const int64_t slot = static_cast<int64_t>(static_cast<uint32_t>(row) % page_size);
      if (tile.runs > 0 && goes_on(tile.run[tile.runs - 1], key, page, slot)) {
        ++tile.run[tile.runs - 1].rows;
      } else {
        tile.run[tile.runs++] = {key, 1, page, slot};
      }
    }
    tile.seen = found;
  }

 private:
  FOLIO_ALWAYS_INLINE static bool goes_on(const TileRun& run, int key, int64_t page, int64_t slot) {
    return run.first + run.rows == key && run.page == page && run.slot + run.rows == slot;
  }
};

}  // namespace folio::inline v1::skeleton
