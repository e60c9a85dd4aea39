// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/tile_loader.h: slabs by tensor maps, from compute capability 9.0 on: one box a
/// plane where a page holds whole slabs, else one per page and chunk. For page sizes that 16
/// divides, or that divide 16.
///
/// Boxes of pages without a live key get a page id beyond the end: zeros without traffic. Dead rows
/// of other boxes are what memory holds: V's are made zero by whoever reads the slab.
#pragma once

#include <cstdint>

#include "cuda/decode/slab_cursor.h"
#include "cuda/primitives/device.h"

namespace folio::cuda {

template <class Config, class Thread>
class TileLoader : public SlabCursor<Config, Thread> {
  using Cursor = SlabCursor<Config, Thread>;

 public:
  static constexpr bool zeroes_dead_values = false;

  FOLIO_DEVICE TileLoader(Thread& t, const AttendTileCall& a)
      : Cursor(t, a.call),
        tiles_(a),
        ring_(t.shared_base() +
              static_cast<uint32_t>(t.warp() * (Config::stages * Config::slab_bytes))),
        alive_(t.shared_base() + Config::alive_at +
               static_cast<uint32_t>(t.warp() * (Config::stages * 4))),
        barriers_(t.shared_base() + Config::barriers_at +
                  static_cast<uint32_t>(t.warp() * (Config::stages * 8))) {
    if (t.lane() == 0) {
      for (int s = 0; s < Config::stages; ++s) t.init_barrier(barrier(s), 1);
      t.fence_barriers();
    }
    t.sync_warp();
    for (int s = 0; s + 1 < Config::stages; ++s) fetch(t, a.call);
  }

  /// As CopyLoader's, and the following: one interface.
  FOLIO_DEVICE void fetch(Thread& t, const AttendCall& a) {
    if (!this->is_done()) {
      const uint32_t alive = this->find_alive(t, a);
      if (t.lane() == 0) {
        t.store_shared(alive_ + static_cast<uint32_t>(free_) * 4, alive);
        t.arrive_expecting(barrier(free_), Config::slab_bytes);
      }
      if (Cursor::is_aligned(a))
        copy_slab(t, alive);
      else
        copy_pages(t, a, alive);
      this->advance(t, a);
    }
    free_ = next(free_);
  }
  FOLIO_DEVICE void wait(Thread& t) {
    ready_ = next(ready_);
    t.wait(barrier(ready_), parity_);
    if (ready_ == Config::stages - 1) parity_ ^= 1;
    t.sync_warp();
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t slab() const { return stage(ready_); }
  [[nodiscard]] FOLIO_DEVICE uint32_t alive(Thread& t) const {
    return t.template load_shared<uint32_t>(alive_ + static_cast<uint32_t>(ready_) * 4);
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t free_stage() const { return stage(free_); }

 private:
  static constexpr int chunks = Config::head_size / 64;
  static constexpr uint32_t chunk_bytes = Config::slab_keys * 128;

  [[nodiscard]] FOLIO_DEVICE uint32_t stage(int s) const {
    return ring_ + static_cast<uint32_t>(s) * Config::slab_bytes;
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t barrier(int s) const {
    return barriers_ + static_cast<uint32_t>(s) * 8;
  }
  [[nodiscard]] FOLIO_DEVICE static int next(int s) { return s + 1 < Config::stages ? s + 1 : 0; }

  FOLIO_DEVICE static tma::Coordinates<5> place(uint32_t slot, int chunk, int32_t head,
                                                uint32_t page) {
    return {{0, static_cast<int32_t>(slot), chunk, head, static_cast<int32_t>(page)}};
  }

  FOLIO_DEVICE void copy_slab(Thread& t, uint32_t alive) {
    if (t.lane() != 0) return;
    const auto at = place(this->slot_, 0, this->head_, alive == 0 ? ~0u : this->entry_);
    t.template copy_tile<5>(tiles_.key, at, free_stage(), barrier(free_));
    t.template copy_tile<5>(tiles_.value, at, free_stage() + Config::plane_bytes, barrier(free_));
  }
  /// Lanes issue their boxes one after the other: slow below 8 keys a page.
  FOLIO_DEVICE void copy_pages(Thread& t, const AttendCall& a, uint32_t alive) {
    const int rows = a.args.key.page_size;
    const int boxes = Config::slab_keys / rows * chunks * 2;
    for (int first = 0; first < boxes; first += 32) {
      const int box = first + t.lane(), plane = box & 1, chunk = (box >> 1) % chunks;
      const int r = (box >> 1) / chunks * rows;
      const uint32_t page = t.shuffle(this->entry_, r & 15);
      if (box >= boxes) continue;
      const bool is_live = (alive >> r & ((1u << rows) - 1)) != 0;
      t.template copy_tile<5>(plane == 0 ? tiles_.key : tiles_.value,
                              place(0, chunk, this->head_, is_live ? page : ~0u),
                              free_stage() + static_cast<uint32_t>(plane * Config::plane_bytes) +
                                  static_cast<uint32_t>(chunk) * chunk_bytes +
                                  static_cast<uint32_t>(r) * 128,
                              barrier(free_));
    }
  }

  const AttendTileCall& tiles_;
  uint32_t ring_;
  uint32_t alive_;
  uint32_t barriers_;
  int free_ = 0;
  int ready_ = Config::stages - 1;
  uint32_t parity_ = 0;
};

}  // namespace folio::cuda
