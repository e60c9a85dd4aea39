// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_loader.h: slabs of 8-bit rows by cp.async, and what their scales make
/// of them, as float32. Promises what CopyLoader does.
///
/// Scales lie anywhere, in one to four bytes, so that they go through registers: lane l asks for
/// those of key l % 16, of K in the lower half of a warp and of V in the upper, when the slab's
/// rows are asked for, and writes them to shared memory one slab later. Scales of dead keys are not
/// read; they become 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/decode/quantised_config.h"
#include "cuda/decode/quantised_scales.h"
#include "cuda/decode/slab_cursor.h"
#include "cuda/primitives/device.h"

namespace folio::cuda {

template <Quantised Config, class Thread>
class QuantisedLoader : public SlabCursor<Config, Thread> {
  using Cursor = SlabCursor<Config, Thread>;

 public:
  static constexpr bool zeroes_dead_values = true;

  FOLIO_DEVICE QuantisedLoader(Thread& t, const AttendCall& a)
      : Cursor(t, a), warp_(t.warp()), base_(t.shared_base()) {
    const ScaleView& scales = scales_of(t, a);
    if (scales.data != nullptr && scales.tensor_scale != nullptr)
      tensor_scale_ = t.read(scales.tensor_scale);
    for (int s = 0; s + 1 < Config::stages; ++s) fetch(t, a);
  }

  /// Fills the free stage with the next slab, if there is one.
  FOLIO_DEVICE void fetch(Thread& t, const AttendCall& a) {
    if constexpr (!Config::has_fine_granules)
      if (is_waiting_) store_scales(t, a);
    is_waiting_ = !this->is_done();
    if (is_waiting_) {
      const uint32_t alive = this->find_alive(t, a);
      is_alive_ = (alive >> (t.lane() & 15) & 1u) != 0;
      uint32_t slot_of_lane = this->slot_ + static_cast<uint32_t>(t.lane() & 15);
      if (!Cursor::is_aligned(a)) slot_of_lane %= static_cast<uint32_t>(a.args.key.page_size);
      const auto slot = static_cast<int64_t>(slot_of_lane);
      copy_rows(t, a, slot, alive);
      if constexpr (Config::has_fine_granules)
        store_place(t, a, slot);
      else
        read_scales(t, a, slot);
      if (t.lane() == 0) t.store_shared(alive_word(free_), alive);
      this->advance(t, a);
    }
    t.commit_copies();
    t.sync_warp();
    free_ = next(free_);
  }

  /// The next slab; the stage of the one before becomes free.
  FOLIO_DEVICE void wait(Thread& t) {
    t.template wait_copies<Config::stages - 2>();
    t.sync_warp();
    ready_ = next(ready_);
  }
  /// Of the slab that was waited for: its rows, factors, ratios and bits of its keys.
  [[nodiscard]] FOLIO_DEVICE uint32_t slab() const { return slab_of(ready_); }
  [[nodiscard]] FOLIO_DEVICE uint32_t alive(Thread& t) const {
    return t.template load_shared<uint32_t>(alive_word(ready_));
  }
  /// Where the warp's state is put.
  [[nodiscard]] FOLIO_DEVICE uint32_t free_stage() const {
    return base_ + Config::states_at + static_cast<uint32_t>(warp_) * Config::state_bytes;
  }

 private:
  static constexpr int units = Config::row_bytes / 16;  // of a row
  static constexpr int rows_at_once = 32 / units;       // that a warp copies
  static constexpr int scales_of_row = Config::has_granules ? Config::steps : 1;

  [[nodiscard]] FOLIO_DEVICE uint32_t numbered(int stage) const {
    return static_cast<uint32_t>(warp_ * Config::stages + stage);
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t slab_of(int stage) const {
    return base_ + numbered(stage) * Config::slab_bytes;
  }
  [[nodiscard]] FOLIO_DEVICE uint32_t alive_word(int stage) const {
    return base_ + Config::alive_at + numbered(stage) * 4;
  }
  [[nodiscard]] FOLIO_DEVICE static int next(int s) { return s + 1 < Config::stages ? s + 1 : 0; }
  [[nodiscard]] FOLIO_DEVICE static const ScaleView& scales_of(Thread& t, const AttendCall& a) {
    return t.lane() < 16 ? a.args.key.scales : a.args.value.scales;
  }

  /// Lanes 0 - 15 find the rows of K, lanes 16 - 31 those of V; then every lane copies 16 bytes of
  /// one row after the other.
  FOLIO_DEVICE void copy_rows(Thread& t, const AttendCall& a, int64_t slot, uint32_t alive) {
    const int unit = t.lane() % units, first = t.lane() / units;
    const PagedKVView& view = t.lane() < 16 ? a.args.key : a.args.value;
    auto pointer = reinterpret_cast<uint64_t>(view.data);
    if (is_alive_)
      pointer += static_cast<uint64_t>(
          folio::detail::row_offset_bytes(view, this->entry_, slot, this->head_));
    const ByteUnits<Config> to(slab_of(free_), first, unit);
    FOLIO_UNROLL
    for (int pass = 0; pass < Config::slab_keys / rows_at_once; ++pass) {
      const int further = pass * rows_at_once, key = further + first;
      FOLIO_UNROLL
      for (int plane = 0; plane < 2; ++plane) {
        const uint64_t low = t.shuffle(static_cast<uint32_t>(pointer), key + 16 * plane);
        const uint64_t high = t.shuffle(static_cast<uint32_t>(pointer >> 32), key + 16 * plane);
        t.copy_async(to.further(further) + static_cast<uint32_t>(plane * Config::plane_bytes),
                     reinterpret_cast<const std::byte*>(low | high << 32) + unit * 16,
                     (alive >> key & 1u) != 0);
      }
    }
  }

  /// The bits of this lane's scales.
  FOLIO_DEVICE void read_scales(Thread& t, const AttendCall& a, int64_t slot) {
    const ScaleView& scales = scales_of(t, a);
    if (scales.data == nullptr || !is_alive_) return;
    FOLIO_UNROLL
    for (int i = 0; i < scales_of_row; ++i) {
      const int64_t offset = folio::detail::scale_offset_bytes(
          scales, this->entry_, slot, this->head_, folio::detail::granule_of(scales, i * 16));
      scales_[i] =
          detail::read_scale(t, static_cast<const std::byte*>(scales.data) + offset, scales.dtype);
    }
  }
  /// Where this lane's scales begin, for SlabScales::stage.
  FOLIO_DEVICE void store_place(Thread& t, const AttendCall& a, int64_t slot) {
    const ScaleView& scales = scales_of(t, a);
    auto place = reinterpret_cast<uint64_t>(scales.data);
    if (is_alive_)
      place += static_cast<uint64_t>(
          folio::detail::scale_offset_bytes(scales, this->entry_, slot, this->head_, 0));
    t.store_shared(base_ + Config::places_at + numbered(free_) * Config::place_bytes +
                       static_cast<uint32_t>(t.lane()) * 8,
                   place);
  }
  /// Of the slab fetched last, to the stage before the free one.
  FOLIO_DEVICE void store_scales(Thread& t, const AttendCall& a) {
    const ScaleView& scales = scales_of(t, a);
    float value[scales_of_row];
    FOLIO_UNROLL
    for (int i = 0; i < scales_of_row; ++i)
      value[i] = !is_alive_ ? 0.0f
                 : scales.data == nullptr
                     ? 1.0f
                     : detail::scale_of(scales_[i], scales.dtype) * tensor_scale_;
    const uint32_t stage = numbered(free_ > 0 ? free_ - 1 : Config::stages - 1);
    float factor = value[0];
    if constexpr (Config::has_granules) {
      float largest = 0.0f;
      bool is_one = true;  // scale, which costs no rounding of elements: as in other instances
      FOLIO_UNROLL
      for (int i = 0; i < scales_of_row; ++i) {
        largest = fmaxf(largest, fabsf(value[i]));
        is_one = is_one && value[i] == value[0];
      }
      if (!is_one) factor = row_factor<Config::stored>(largest);
      const float inverse = 1.0f / factor;
      const uint32_t ratios = base_ + Config::ratios_at + stage * Config::ratio_bytes;
      FOLIO_UNROLL
      for (int i = 0; i < scales_of_row; ++i)
        t.store_shared(ratios + static_cast<uint32_t>((t.lane() >> 4) * Config::steps + i) * 64 +
                           static_cast<uint32_t>(t.lane() & 15) * 4,
                       is_one ? 1.0f : value[i] * inverse);
    }
    t.store_shared(base_ + Config::factors_at + stage * Config::factor_bytes +
                       static_cast<uint32_t>(t.lane()) * 4,
                   is_alive_ ? factor : 0.0f);
  }

  const int warp_;
  const uint32_t base_;
  float tensor_scale_ = 1.0f;
  uint32_t scales_[scales_of_row] = {};  // of the slab fetched last, as they are stored
  bool is_alive_ = false;                // this lane's key of it
  bool is_waiting_ = false;              // these were not written to shared memory
  int free_ = 0;
  int ready_ = Config::stages - 1;
};

}  // namespace folio::cuda
