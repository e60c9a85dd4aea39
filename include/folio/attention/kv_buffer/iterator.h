// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/iterator.h: KVCacheIterator: the tiles of one sequence and head, one
/// after the other.
///
/// It never looks past `end`: neither a table entry nor an address of a key that does not exist. On
/// a plane of the run-time face a caller that has found a tile's keys once, for all heads and for K
/// and V alike, hands them over with `set_tile`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/kv_buffer/tile.h"
#include "folio/attention/operand/concept.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::detail {

template <class O>
concept HasView = requires(const O& o) {
  { o.view } -> std::same_as<const PagedKVView&>;
  o.table;
};

/// Dims of a head in memory, as far as the operand says.
template <class O>
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t head_size_of(const O& operand, int64_t otherwise) {
  if constexpr (requires { operand.view.head_size; }) {
    return operand.view.head_size;
  } else if constexpr (requires { O::head_size; }) {
    return O::head_size;
  } else if constexpr (requires { operand.tensor.layout; }) {
    return operand.tensor.extent(decltype(operand.tensor)::rank - 1);
  } else {
    return otherwise;
  }
}

}  // namespace folio::inline v1::detail

namespace folio::inline v1 {

template <MHAOperand Operand, int tile_size, int kv_num_heads, int depth, int cache_depth = depth,
          int head_dim_offset = 0>
class KVCacheIterator {
 public:
  using Tile = kv_buffer::KVCacheTile<tile_size>;
  static constexpr int element_bytes = bit_width(Operand::dtype) / 8;

  /// Keys [0, end) of a sequence. Requires kv_head_idx < kv_num_heads unless that is `dynamic`.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE KVCacheIterator(const Operand& operand, int64_t batch_idx,
                                                        int64_t kv_head_idx, int64_t end)
      : operand_(operand), batch_idx_(batch_idx), kv_head_idx_(kv_head_idx), end_(end) {
    const int64_t in_memory = detail::head_size_of(operand, cache_depth);
    const int64_t columns = (in_memory < cache_depth ? in_memory : cache_depth) - head_dim_offset;
    columns_ = static_cast<int32_t>(columns < 0 ? 0 : columns < depth ? columns : depth);
  }

  /// The rows of the next `tile_size` keys, of which those past the end read as zero; then moves
  /// on. Valid until the next call. After `set_tile`: the rows that it set, once, without moving.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const Tile& next_tile() {
    if (is_set_) {
      is_set_ = false;
      return tile_;
    }
    const int64_t left = end_ - tile_start_row_;
    const auto valid = static_cast<int32_t>(left < 0 ? 0 : left < tile_size ? left : tile_size);
    resolve(valid);
    increment();
    return tile_;
  }
  /// Skips a tile without looking at it.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void increment() { tile_start_row_ += tile_size; }

  /// Makes `keys`, as PageCursor::find left them, the next tile, of KV head `kv_head_idx`.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void set_tile(const kv_buffer::KeyTile& keys,
                                                      int64_t kv_head_idx)
    requires(detail::HasView<Operand> && tile_size == kv_buffer::tile_keys)
  {
    kv_head_idx_ = kv_head_idx;
    is_set_ = true;
    if (keys.seen == ~uint64_t{0} && keys.runs == 1) {
      return tile_.set_whole(rows_of(keys.run[0]), kv_buffer::PageCursor::scale_rows(
                                                       operand_.view, keys.run[0], kv_head_idx));
    }
    tile_.clear(tile_size, operand_.view.scales.data != nullptr);
    add_keys(keys, 0);
  }

  /// The first key of the next tile.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t tile_start_row() const { return tile_start_row_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t end() const { return end_; }
  /// Columns [0, columns) of a row's `depth` are in memory, the others read as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int32_t columns() const { return columns_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const Operand& operand() const { return operand_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t batch_idx() const { return batch_idx_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t kv_head_idx() const { return kv_head_idx_; }

 private:
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void resolve(int32_t valid) {
    if constexpr (detail::HasView<Operand>) {
      const kv_buffer::PageCursor cursor(operand_.view, operand_.table, batch_idx_);
      tile_.clear(valid, operand_.view.scales.data != nullptr);
      for (int32_t base = 0; base < valid; base += kv_buffer::tile_keys) {
        const int32_t count = valid - base;
        kv_buffer::KeyTile keys;
        keys.first = tile_start_row_ + base;
        keys.seen = count >= kv_buffer::tile_keys ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
        cursor.find(keys);
        add_keys(keys, base);
      }
    } else {
      tile_.clear(valid, false);
      for (int32_t key = 0; key < valid;) {
        const operand::OperandRun run =
            operand_.run(batch_idx_, tile_start_row_ + key, kv_head_idx_);
        if (run.rows <= 0) return;
        // a set of rows is one uint64
        const int32_t end = (key / 64 + 1) * 64 < valid ? (key / 64 + 1) * 64 : valid;
        const int32_t count = run.rows < end - key ? static_cast<int32_t>(run.rows) : end - key;
        if (run.data != nullptr)
          tile_.add(key, count, {run.data + head_dim_offset * element_bytes, run.slot_stride_bytes},
                    {}, ~uint64_t{0});
        key += count;
      }
    }
  }

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE kv_buffer::TileRows rows_of(
      const kv_buffer::TileRun& run) const {
    const kv_buffer::TileRows rows = kv_buffer::PageCursor::rows(operand_.view, run, kv_head_idx_);
    return {rows.data + head_dim_offset * element_bytes, rows.stride_bytes};
  }
  /// Runs of `keys`, whose key 0 is row `base` of the tile.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void add_keys(const kv_buffer::KeyTile& keys, int base) {
    for (int r = 0; r < keys.runs; ++r) {
      const kv_buffer::TileRun& run = keys.run[r];
      const int count =
          run.rows < tile_size - base - run.first ? run.rows : tile_size - base - run.first;
      tile_.add(base + run.first, count, rows_of(run),
                kv_buffer::PageCursor::scale_rows(operand_.view, run, kv_head_idx_),
                keys.seen >> run.first);
    }
  }

  Operand operand_;
  int64_t batch_idx_;
  int64_t kv_head_idx_;
  int64_t end_;
  int64_t tile_start_row_ = 0;
  int32_t columns_ = 0;
  bool is_set_ = false;
  Tile tile_;
};

}  // namespace folio::inline v1
