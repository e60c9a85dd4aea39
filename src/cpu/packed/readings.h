// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/readings.h: what the codes of a tile's rows are read by, scales and what is
/// added, of one head: element = code * scale + offset.
///
/// The stored words of a tile are collected first and widened a register at a time. ISA-safe:
/// templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/convert/scale_lanes.h"
#include "cpu/packed/form.h"
#include "cpu/packed/layout.h"
#include "cpu/packed/square.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::packed {

template <class I>
class Readings {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W;

 public:
  /// Requests the scales of a tile's rows of one head; `tile` null: nothing.
  static void prefetch(const PagedKVView& view, const KeyTile* tile, int64_t head) {
    if (tile == nullptr || view.scales.data == nullptr) return;
    for (int r = 0; r < tile->runs; ++r) {
      const TileRows rows = PageCursor::scale_rows(view, tile->run[r], head);
      const int64_t stride = rows.stride_bytes;
      const int64_t step = stride >= 0 && stride < 64 ? 64 / (stride == 0 ? 64 : stride) : 1;
      for (int64_t i = 0; i < tile->run[r].rows; i += step)
        __builtin_prefetch(rows.data + i * stride, 0, 2);
    }
  }
  static bool has_offsets(const PagedKVView& view) {
    return view.scales.zeros != Zeros::none && I::mutant != Mutant::zero_points_ignored;
  }

  /// Of head `head`. Keys that nobody sees have a scale and an offset of 0.
  void gather(const PagedKVView& view, const Form& form, const KeyTile& tile, int64_t head) {
    granules_ = form.granules;
    const ScaleView& scales = view.scales;
    if (scales.data == nullptr) {
      for (int i = 0; i < tile_keys * granules_; i += W) V::store(scale_ + i, V::splat(1.0f));
      return;
    }
    static_assert(detail::num_scale_dtypes == 5);
    switch (scales.dtype) {
      case DType::f32: return gather_as<DType::f32, uint32_t>(view, form, tile, head);
      case DType::f16: return gather_as<DType::f16, uint16_t>(view, form, tile, head);
      case DType::bf16: return gather_as<DType::bf16, uint16_t>(view, form, tile, head);
      case DType::f8_e8m0: return gather_as<DType::f8_e8m0, uint8_t>(view, form, tile, head);
      default: return gather_as<DType::f8_e4m3, uint8_t>(view, form, tile, head);
    }
  }

  /// To the words of four keys of K: [tile_keys / 4][words]. `keys` is a multiple of 4.
  void spread(const Form& form, int keys, float* scales, float* offsets) const {
    for (int k = 0; k < keys; k += 4) {
      for (int first = 0; first < form.lanes(); first += form.bytes / lane_bytes) {
        for (int slot = 0; slot < form.slots; ++slot) {
          for (int lane = 0; lane < form.bytes / lane_bytes; ++lane, scales += 4) {
            const int beside = I::mutant == Mutant::key_granule_of_next_lane ? 1 : 0;
            const int from = form.granule((first + lane) ^ beside, slot) * tile_keys + k;
            __builtin_memcpy(scales, scale_ + from, 4 * sizeof(float));
            if (offsets == nullptr) continue;
            __builtin_memcpy(offsets, offset_ + from, 4 * sizeof(float));
            offsets += 4;
          }
        }
      }
    }
  }
  /// To [granules][tile_keys], as they were gathered; scales without their signs.
  void copy(float* scales, float* offsets) {
    U greatest = {}, signs = {};
    for (int i = 0; i < tile_keys * granules_; i += W) {
      const U bits = V::bits(V::load(scale_ + i)), size = bits & V::splat(0x7fffffffu);
      signs |= bits;
      greatest = size > greatest ? size : greatest;
      V::store(scales + i, V::floats(size));
      if (offsets != nullptr) V::store(offsets + i, V::load(offset_ + i));
    }
    has_negative_ = V::any(reinterpret_cast<typename V::S>(signs));
    is_finite_ = !V::any(reinterpret_cast<typename V::S>(greatest >= V::splat(0x7f800000u)));
  }
  /// [granules][tile_keys] 1 where the scale is negative, 0 elsewhere.
  void mark_negative(float* to) const {
    for (int i = 0; i < tile_keys * granules_; ++i)
      to[i] = static_cast<float>(__builtin_bit_cast(uint32_t, scale_[i]) >> 31);
  }
  /// Whether a key has a negative scale, and whether all scales are numbers: known once they are
  /// copied.
  [[nodiscard]] bool has_negative() const {
    return has_negative_ && I::mutant != Mutant::sides_kept;
  }
  [[nodiscard]] bool is_finite() const { return is_finite_; }
  /// Those of granule g, of all keys.
  [[nodiscard]] const float* scales(int g) const { return scale_ + g * tile_keys; }

 private:
  static constexpr int count_max = tile_keys * granules_max;

  template <DType D, class Word>
  [[gnu::noinline]] void gather_as(const PagedKVView& view, const Form& form, const KeyTile& tile,
                                   int64_t head) {
    const ScaleView& scales = view.scales;
    Word words[count_max];
    collect(view, tile, head, 0, words);
    const float tensor = scales.tensor_scale != nullptr ? *scales.tensor_scale : 1.0f;
    const F factor = V::splat(tensor * form.unit());
    const uint32_t kept = scales.zeros == Zeros::in_scale ? ~15u : ~0u;
    for (int i = 0; i < tile_keys * granules_; i += W)
      V::store(scale_ + i, widened<D>(words + i, kept) * factor);
    if (scales.zeros == Zeros::patterns) {
      uint8_t zeros[count_max];
      collect(view, tile, head, scales.zero_offset_bytes, zeros);
      put_offsets(zeros);
    } else if (scales.zeros == Zeros::in_scale) {
      put_offsets(words);
    } else if (scales.zeros == Zeros::minimum) {  // the pattern is the code and 8
      collect(view, tile, head, scales.zero_offset_bytes, words);
      for (int i = 0; i < tile_keys * granules_; i += W)
        V::store(offset_ + i,
                 V::fma(V::load(scale_ + i), V::splat(8.0f), widened<D>(words + i, ~0u) * factor));
    }
  }

  /// W words side by side, as floats.
  template <DType D, class Word>
  FOLIO_ALWAYS_INLINE static F widened(const Word* from, uint32_t kept) {
    if constexpr (D == DType::f16) {
      return I::template widen_f16<F>(from);
    } else if constexpr (sizeof(Word) == 4) {
      return V::floats(V::template load_as<U>(from) & V::splat(kept));
    } else if constexpr (sizeof(Word) == 2) {
      return ScaleLanes<I>::widen(I::template widen16<U>(from), D);
    } else {
      return ScaleLanes<I>::widen(I::template widen8<U>(from), D);
    }
  }

  template <class Word>
  void put_offsets(const Word* zeros) {
    for (int i = 0; i < tile_keys * granules_; ++i)
      offset_[i] = scale_[i] * static_cast<float>(8 - static_cast<int>(zeros[i] & 15u));
  }

  /// Words of all granules, `offset` bytes behind their scales; 0 where nobody sees the key.
  template <class Word>
  void collect(const PagedKVView& view, const KeyTile& tile, int64_t head, int64_t offset,
               Word* words) const {
    if (tile.seen != ~uint64_t{0})
      __builtin_memset(words, 0, sizeof(Word) * static_cast<size_t>(tile_keys * granules_));
    const int64_t stride = view.scales.granule_stride_bytes;
    const bool is_square = stride == sizeof(Word) && granules_ == Square<Word>::size;
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      const TileRows rows = PageCursor::scale_rows(view, run, head);
      const std::byte* at = rows.data + offset;
      for (int k = run.first, end = k + run.rows; k < end;) {
        const int left = end - k, many = is_square && left >= Square<Word>::size &&
                                                 Square<Word>::all_of(tile.seen >> k)
                                             ? Square<Word>::size
                                             : 1;
        if (many != 1) {
          Square<Word>::transpose(at, rows.stride_bytes, words + k);
        } else if ((tile.seen >> k & 1) != 0) {
          for (int g = 0; g < granules_; ++g)
            __builtin_memcpy(words + k + g * tile_keys, at + g * stride, sizeof(Word));
        }
        k += many;
        at += many * rows.stride_bytes;
      }
    }
  }

  int granules_ = 1;
  bool has_negative_ = false, is_finite_ = true;
  alignas(64) float scale_[count_max + W];
  alignas(64) float offset_[count_max + W];
};

}  // namespace folio::inline v1::packed
