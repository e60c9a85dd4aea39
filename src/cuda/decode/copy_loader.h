// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/copy_loader.h: slabs by cp.async: any page size, any strides of 16 bytes, every
/// architecture. Dead rows are not read; they become zeros.
///
/// What every loader promises: after wait() the slab is in shared memory, seen by all lanes; its
/// word says which keys are alive; V's other rows are zero where `zeroes_dead_values`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/decode/slab_cursor.h"
#include "cuda/primitives/device.h"

namespace folio::cuda {

template <class Config, class Thread>
class CopyLoader : public SlabCursor<Config, Thread> {
  using Cursor = SlabCursor<Config, Thread>;

 public:
  static constexpr bool zeroes_dead_values = true;

  FOLIO_DEVICE CopyLoader(Thread& t, const AttendCall& a)
      : Cursor(t, a),
        ring_(t.shared_base() +
              static_cast<uint32_t>(t.warp() * (Config::stages * Config::slab_bytes))) {
    for (int s = 0; s + 1 < Config::stages; ++s) fetch_into(t, a, s);
  }

  /// Behind wait(): fills the stage of the slab before with the next one, if there is one. After
  /// that the slab's own stage is free once it is read.
  FOLIO_DEVICE void fetch(Thread& t, const AttendCall& a) {
    fetch_into(t, a, ready_ == 0 ? Config::stages - 1 : ready_ - 1);
  }

  /// The next slab; the stage of the one before becomes free.
  FOLIO_DEVICE void wait(Thread& t) {
    t.template wait_copies<Config::stages - 2>();
    t.sync_warp();
    ready_ = next(ready_);
  }
  /// Of the slab that was waited for.
  [[nodiscard]] FOLIO_DEVICE uint32_t slab() const { return stage(ready_); }
  [[nodiscard]] FOLIO_DEVICE uint32_t alive(Thread& t) const {
    return t.template load_shared<uint32_t>(alive_word(t, ready_));
  }
  /// The stage that nobody fills until the next fetch.
  [[nodiscard]] FOLIO_DEVICE uint32_t free_stage() const { return stage(ready_); }

 private:
  static constexpr int units = Config::row_bytes / 16;              // of a row
  static constexpr int rows_at_once = units < 32 ? 32 / units : 1;  // that a warp copies
  static constexpr int lanes_of_row = units < 32 ? units : 32;

  [[nodiscard]] FOLIO_DEVICE uint32_t stage(int s) const {
    return ring_ + static_cast<uint32_t>(s) * Config::slab_bytes;
  }
  [[nodiscard]] FOLIO_DEVICE static uint32_t alive_word(Thread& t, int s) {
    return t.shared_base() + Config::alive_at +
           static_cast<uint32_t>(t.warp() * Config::stages + s) * 4;
  }
  [[nodiscard]] FOLIO_DEVICE static int next(int s) { return s + 1 < Config::stages ? s + 1 : 0; }

  FOLIO_DEVICE void fetch_into(Thread& t, const AttendCall& a, int s) {
    if (!this->is_done()) {
      const uint32_t alive = this->find_alive(t, a);
      if (Cursor::is_aligned(a) && alive == 0xffffu)
        copy_run<true>(t, a, stage(s), alive);
      else if (Cursor::is_aligned(a))
        copy_run<false>(t, a, stage(s), alive);
      else
        copy_rows(t, a, stage(s), alive);
      if (t.lane() == 0) t.store_shared(alive_word(t, s), alive);
      this->advance(t, a);
    }
    t.commit_copies();
  }

  /// A slab within one page: rows at one stride.
  template <bool AllAlive>
  FOLIO_DEVICE void copy_run(Thread& t, const AttendCall& a, uint32_t to, uint32_t alive) {
    const int unit = t.lane() % lanes_of_row, first = t.lane() / lanes_of_row;
    const int64_t slot = int64_t{this->slot_} + first;
    FOLIO_UNROLL
    for (int plane = 0; plane < 2; ++plane) {
      const PagedKVView& view = plane == 0 ? a.args.key : a.args.value;
      const auto* from = static_cast<const std::byte*>(view.data) + unit * 16;
      if (AllAlive || alive != 0)
        from += folio::detail::row_offset_bytes(view, this->entry_, slot, this->head_);
      FOLIO_UNROLL
      for (int pass = 0; pass < Config::slab_keys / rows_at_once; ++pass) {
        const int r = pass * rows_at_once + first;
        t.copy_async(to + plane * Config::plane_bytes + tile_offset(r, unit), from,
                     AllAlive || (alive >> r & 1u) != 0);
        from += view.slot_stride_bytes * rows_at_once;
      }
    }
  }

  /// Lanes 0 - 15 find the rows of K, lanes 16 - 31 those of V; then every lane copies 16 bytes of
  /// one row after the other.
  FOLIO_DEVICE void copy_rows(Thread& t, const AttendCall& a, uint32_t to, uint32_t alive) {
    const int unit = t.lane() % lanes_of_row, first = t.lane() / lanes_of_row;
    const PagedKVView& view = t.lane() < 16 ? a.args.key : a.args.value;
    const uint32_t slot = this->slot_ + static_cast<uint32_t>(t.lane() & 15);
    auto pointer = reinterpret_cast<uint64_t>(view.data);
    if ((alive >> (t.lane() & 15) & 1u) != 0)
      pointer += static_cast<uint64_t>(folio::detail::row_offset_bytes(
          view, this->entry_, slot % static_cast<uint32_t>(view.page_size), this->head_));
    FOLIO_UNROLL
    for (int pass = 0; pass < Config::slab_keys / rows_at_once; ++pass) {
      const int r = pass * rows_at_once + first;
      FOLIO_UNROLL
      for (int plane = 0; plane < 2; ++plane) {
        const uint64_t low = t.shuffle(static_cast<uint32_t>(pointer), r + 16 * plane);
        const uint64_t high = t.shuffle(static_cast<uint32_t>(pointer >> 32), r + 16 * plane);
        const auto* from = reinterpret_cast<const std::byte*>(low | high << 32) + unit * 16;
        t.copy_async(to + plane * Config::plane_bytes + tile_offset(r, unit), from,
                     (alive >> r & 1u) != 0);
      }
    }
  }

  uint32_t ring_;
  int ready_ = Config::stages - 1;
};

}  // namespace folio::cuda
