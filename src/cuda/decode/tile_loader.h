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
        barriers_(t.shared_base() + Config::barriers_at +
                  static_cast<uint32_t>(t.warp() * (Config::stages * 8))) {
    if (t.lane() == 0) {
      for (int s = 0; s < Config::stages; ++s) t.init_barrier(barrier(s), 1);
      t.fence_barriers();
    }
    t.sync_warp();
    for (int s = 0; s + 1 < Config::stages; ++s) fetch_into(t, a.call, s);
  }

  /// As CopyLoader's, and the following: one interface.
  FOLIO_DEVICE void fetch(Thread& t, const AttendCall& a) {
    fetch_into(t, a, ready_ == 0 ? Config::stages - 1 : ready_ - 1);
  }
  FOLIO_DEVICE void wait(Thread& t) {
    ready_ = next(ready_);
    t.wait(barrier(ready_), parity_);
    if (ready_ == Config::stages - 1) parity_ ^= 1;
    t.sync_warp();
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t slab() const { return stage(ready_); }
  [[nodiscard]] FOLIO_DEVICE uint32_t alive(Thread& t) const {
    return t.template load_shared<uint32_t>(alive_word(t, ready_));
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t free_stage() const { return stage(ready_); }

 private:
  static constexpr int chunks = Config::head_size / 64;
  static constexpr uint32_t chunk_bytes = Config::slab_keys * 128;

  [[nodiscard]] FOLIO_DEVICE uint32_t stage(int s) const {
    return ring_ + static_cast<uint32_t>(s) * Config::slab_bytes;
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t barrier(int s) const {
    return barriers_ + static_cast<uint32_t>(s) * 8;
  }
  [[nodiscard]] FOLIO_DEVICE static uint32_t alive_word(Thread& t, int s) {
    return t.shared_base() + Config::alive_at +
           static_cast<uint32_t>(t.warp() * Config::stages + s) * 4;
  }
  [[nodiscard]] FOLIO_DEVICE static int next(int s) { return s + 1 < Config::stages ? s + 1 : 0; }

  FOLIO_DEVICE void fetch_into(Thread& t, const AttendCall& a, int s) {
    if (!this->is_done()) {
      const uint32_t alive = this->find_alive(t, a);
      if (t.lane() == 0) {
        t.store_shared(alive_word(t, s), alive);
        t.arrive_expecting(barrier(s), Config::slab_bytes);
      }
      if (Cursor::is_aligned(a))
        copy_slab(t, alive, s);
      else
        copy_pages(t, a, alive, s);
      this->advance(t, a);
    }
  }

  FOLIO_DEVICE static tma::Coordinates<5> place(uint32_t slot, int chunk, int32_t head,
                                                uint32_t page) {
    return {{0, static_cast<int32_t>(slot), chunk, head, static_cast<int32_t>(page)}};
  }

  FOLIO_DEVICE void copy_slab(Thread& t, uint32_t alive, int s) {
    if (t.lane() != 0) return;
    const auto at = place(this->slot_, 0, this->head_, alive == 0 ? ~0u : this->entry_);
    t.template copy_tile<5>(tiles_.key, at, stage(s), barrier(s));
    t.template copy_tile<5>(tiles_.value, at, stage(s) + Config::plane_bytes, barrier(s));
  }
  /// The first key that is alive of the page that begins at key `r` of the slab, whose lane has
  /// read the page's entry; the last one if none is. A window may begin anywhere in a page.
  [[nodiscard]] FOLIO_DEVICE static int first_alive(uint32_t alive, int r, int rows) {
    int lane = r;
    while (lane + 1 < r + rows && (alive >> lane & 1u) == 0) ++lane;
    return lane;
  }
  /// Lanes issue their boxes one after the other: slow below 8 keys a page.
  FOLIO_DEVICE void copy_pages(Thread& t, const AttendCall& a, uint32_t alive, int s) {
    const int rows = a.args.key.page_size;
    const int boxes = Config::slab_keys / rows * chunks * 2;
    for (int first = 0; first < boxes; first += 32) {
      const int box = first + t.lane(), plane = box & 1, chunk = (box >> 1) % chunks;
      const int r = (box >> 1) / chunks * rows;
      const int key = first_alive(alive, r & 15, rows);
      const uint32_t page = t.shuffle(this->entry_, key);
      if (box >= boxes) continue;
      const bool is_live = (alive >> key & 1u) != 0;
      t.template copy_tile<5>(plane == 0 ? tiles_.key : tiles_.value,
                              place(0, chunk, this->head_, is_live ? page : ~0u),
                              stage(s) + static_cast<uint32_t>(plane * Config::plane_bytes) +
                                  static_cast<uint32_t>(chunk) * chunk_bytes +
                                  static_cast<uint32_t>(r) * 128,
                              barrier(s));
    }
  }

  const AttendTileCall& tiles_;
  uint32_t ring_;
  uint32_t barriers_;
  int ready_ = Config::stages - 1;
  uint32_t parity_ = 0;
};

}  // namespace folio::cuda
