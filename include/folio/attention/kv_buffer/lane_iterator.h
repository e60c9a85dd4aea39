// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/lane_iterator.h: KVCacheIterator for the lanes of a warp: a tile is a
/// few numbers, and each lane looks up the rows that it copies.
///
/// Where KVCacheIterator resolves a tile into an array of addresses, one thread's local memory
/// would be full of them. The contract is the same: no table entry and no address past `end`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/iterator.h"
#include "folio/attention/operand/concept.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::kv_buffer {

/// `tile_size` consecutive keys from `first` on, in registers.
struct LaneTile {
  int64_t first = 0;             ///< key of the sequence
  int32_t valid = 0;             ///< keys [0, valid) of the tile lie before the end
  uint64_t seen = ~uint64_t{0};  ///< bit k: some query sees key k; of tiles of 64 keys

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE bool has(int key) const {
    return key < valid && (seen >> (key & 63) & 1) != 0;
  }
};

template <MHAOperand Operand, int tile_size, int kv_num_heads, int depth, int cache_depth = depth,
          int head_dim_offset = 0>
class LaneIterator {
 public:
  using Tile = LaneTile;
  static constexpr int element_bytes = bit_width(Operand::dtype) / 8;

  /// Keys [0, end) of a sequence. Requires kv_head_idx < kv_num_heads unless that is `dynamic`.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE LaneIterator(const Operand& operand, int64_t batch_idx,
                                                     int64_t kv_head_idx, int64_t end)
      : operand_(operand), batch_idx_(batch_idx), kv_head_idx_(kv_head_idx), end_(end) {
    const int64_t in_memory = detail::head_size_of(operand, cache_depth);
    const int64_t columns = (in_memory < cache_depth ? in_memory : cache_depth) - head_dim_offset;
    columns_ = static_cast<int32_t>(columns < 0 ? 0 : columns < depth ? columns : depth);
  }

  /// The next `tile_size` keys, of which those past the end are not there; then moves on. After
  /// `set_tile`: the tile that it set, once, without moving.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE Tile next_tile() {
    if (is_set_) {
      is_set_ = false;
      return set_;
    }
    const int64_t left = end_ - tile_start_row_;
    const Tile tile = {tile_start_row_, static_cast<int32_t>(left < 0           ? 0
                                                             : left < tile_size ? left
                                                                                : tile_size)};
    increment();
    return tile;
  }
  /// Skips a tile without looking at it.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void increment() { tile_start_row_ += tile_size; }
  /// Makes keys [first, first + 64) the next tile, those of `seen`, of KV head `kv_head_idx`. No
  /// bit of a key past the end is set.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void set_tile(int64_t first, uint64_t seen,
                                                      int64_t kv_head_idx)
    requires(tile_size == tile_keys)
  {
    kv_head_idx_ = kv_head_idx;
    is_set_ = true;
    set_ = {first, tile_size, seen};
  }

  /// Row `key` of a tile at the first dim that is used; null if it reads as zero. Reads the table
  /// entry of a key that is there, no other.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const std::byte* row(const Tile& tile, int key) const {
    if (!tile.has(key)) return nullptr;
    const operand::OperandRun run = operand_.run(batch_idx_, tile.first + key, kv_head_idx_);
    if (run.data == nullptr || run.rows <= 0) return nullptr;
    return run.data + head_dim_offset * element_bytes;
  }
  /// Row `key` as tensor maps count them; num_kv_rows() if its page is unassigned. `key` is there.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t row_idx(const Tile& tile, int key) const {
    return operand_.row_idx(static_cast<uint32_t>(batch_idx_),
                            static_cast<uint32_t>(tile.first + key));
  }

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t tile_start_row() const { return tile_start_row_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t end() const { return end_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int32_t columns() const { return columns_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const Operand& operand() const { return operand_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t batch_idx() const { return batch_idx_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int64_t kv_head_idx() const { return kv_head_idx_; }

 private:
  Operand operand_;
  int64_t batch_idx_;
  int64_t kv_head_idx_;
  int64_t end_;
  int64_t tile_start_row_ = 0;
  int32_t columns_ = 0;
  bool is_set_ = false;
  Tile set_ = {};
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1::detail {

/// What a loader for lanes reads: a tile, restricted to the columns of one stage. Made anew for
/// each call, so that it may refer to the buffer's own iterator.
template <class Iterator>
struct LaneSource {
  const Iterator& rows;
  kv_buffer::LaneTile tile = {};
  int32_t first_column = 0;  ///< 0 in full stages, a strip's first in streamed ones
  /// columns [0, columns) are in memory, all others of the stage are to read as zero
  int32_t columns = 0;

  /// Column 0 of row `key`; null: the row is to read as zero.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const std::byte* row(int key) const {
    const std::byte* at = rows.row(tile, key);
    return at != nullptr ? at + first_column * Iterator::element_bytes : nullptr;
  }
};

}  // namespace folio::inline v1::detail

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::LaneIterator;
using kv_buffer::LaneTile;
}  // namespace folio::inline v1
