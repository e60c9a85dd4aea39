// SPDX-License-Identifier: Apache-2.0
/// src/cuda/copy/copy_lists.h: ordered lists of copies, as if one after the other: a byte, or a row
/// where values are converted, belongs to one thread, or warp, which runs the whole list for it.
///
/// So nobody waits for anybody. Parallelism comes from planes, slots of a page, heads and bytes of
/// a row, not from the list; a thread has `flights` copies on their way unless one of them reads
/// what another writes.
#pragma once

#include <type_traits>

#include "cuda/append/element_rows.h"
#include "cuda/append/token_place.h"
#include "cuda/append/unit.h"
#include "cuda/copy/copy_call.h"
#include "folio/cache/copy.h"

namespace folio::cuda {

/// What a pair of planes is cut into: bytes for threads, or rows for warps.
struct CopyShape {
  int64_t slots = 1;     ///< of a page; 1 where slots are copied
  int64_t pieces = 1;    ///< of a row of a head
  int64_t values = 0;    ///< pieces of all heads and slots
  int64_t granules = 1;  ///< of a head's scales that have places of their own
  int64_t scale_heads = 1;
  int64_t scale_slots = 1;
  int64_t scales = 0;     ///< that move
  int64_t row_heads = 1;  ///< heads that a warp converts together

  static FOLIO_HOST_DEVICE constexpr CopyShape of(const CopyForm& form, bool pages, int32_t width) {
    const PagedKVView& view = form.from;
    const ScaleView& s = view.scales;
    CopyShape shape;
    shape.slots = pages ? view.page_size : 1;
    shape.pieces = view.head_size * int64_t{bit_width(view.dtype) / 8} / width;
    shape.values = shape.slots * view.num_heads * shape.pieces;
    const ScaleView& made = form.to.scales;
    const bool shares_made =
        made.dtype != DType::invalid && made.slot_stride_bytes != 0 && made.head_stride_bytes == 0;
    shape.row_heads = shares_made ? view.num_heads : 1;
    if (!form.scales_move) return shape;
    if (s.granule_stride_bytes != 0)
      shape.granules = (int64_t{view.head_size} + s.granularity - 1) / s.granularity;
    if (s.head_stride_bytes != 0) shape.scale_heads = view.num_heads;
    if (s.slot_stride_bytes != 0) shape.scale_slots = shape.slots;
    shape.scales = shape.granules * shape.scale_heads * shape.scale_slots;
    return shape;
  }
  /// Warps' work.
  [[nodiscard]] FOLIO_HOST_DEVICE constexpr int64_t moving_parts() const {
    return (values + scales + 31) / 32;
  }
  [[nodiscard]] FOLIO_HOST_DEVICE constexpr int64_t converting_parts(int32_t heads) const {
    return slots * (heads / row_heads);
  }
};

/// Where a copy begins, or ends.
struct CopyPlace {
  int64_t page = 0;
  int64_t slot = 0;
};

/// An entry of the list. Without tokens nothing is done.
struct CopyStep {
  CopyPlace from = {};
  CopyPlace to = {};
  int64_t tokens = 0;
};

/// The list of a call, checked entry by entry.
template <class Entry, class Thread>
class CopyList {
 public:
  FOLIO_DEVICE CopyList(Thread& t, const CopyCall& call, const CopyForm& form)
      : t_(t),
        call_(call),
        copies_(static_cast<const Entry*>(call.copies)),
        page_size_(form.from.page_size),
        from_slots_(slots_of(form.from)),
        to_slots_(slots_of(form.to)) {}

  FOLIO_DEVICE int64_t size() const { return call_.num_copies; }
  FOLIO_DEVICE CopyStep step(int64_t i) {
    CopyStep step;
    if (i >= call_.num_copies) return step;
    const Entry* const entry = copies_ + i;
    const int64_t from = t_.read(&entry->from), to = t_.read(&entry->to);
    if (from < 0 || from >= call_.from_limit || to < 0 || to >= call_.to_limit) return step;
    if constexpr (std::is_same_v<Entry, PageCopy>) {
      const int32_t tokens = t_.read(&entry->tokens);
      if (tokens < 0 || tokens > page_size_) return step;
      step = {{from, 0}, {to, 0}, tokens};
    } else {
      step = {place_of(from, from_slots_), place_of(to, to_slots_), 1};
    }
    return step;
  }

 private:
  static FOLIO_DEVICE int64_t slots_of(const PagedKVView& view) {
    return view.page_size == unbounded_page_size ? 1 : view.page_size;
  }
  static FOLIO_DEVICE CopyPlace place_of(int64_t slot, int64_t page_size) {
    const int64_t page = quotient(slot, page_size);
    return {page, slot - page * page_size};
  }

  Thread& t_;
  const CopyCall& call_;
  const Entry* copies_;
  int64_t page_size_;
  int64_t from_slots_, to_slots_;
};

/// Bytes of one thread: the same ones of every page, or slot.
struct MovedBytes {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t from_page_stride = 0, from_slot_stride = 0;
  int64_t to_page_stride = 0, to_slot_stride = 0;
  int64_t slot = 0;  ///< of the page: moved if an entry has more tokens
  int32_t width = 1;

  FOLIO_DEVICE const std::byte* source_of(const CopyStep& step) const {
    return from + step.from.page * from_page_stride + step.from.slot * from_slot_stride;
  }
  FOLIO_DEVICE std::byte* target_of(const CopyStep& step) const {
    return to + step.to.page * to_page_stride + step.to.slot * to_slot_stride;
  }
};

/// `Entry`: PageCopy or SlotCopy.
template <class Entry>
struct CopyLists {
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_processor = 2;
  static constexpr int flights = 4;
  static constexpr bool copies_pages = std::is_same_v<Entry, PageCopy>;
  using Args = CopyCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const Args& call) {
    constexpr int warps = threads / 32;
    const int64_t stride = static_cast<int64_t>(t.blocks()) * warps;
    for (int64_t i = static_cast<int64_t>(t.block()) * warps + t.warp();
         i < call.num_planes * call.parts; i += stride) {
      const int64_t plane = quotient(i, call.parts);
      const CopyPlane& pair = call.planes[plane];
      const CopyForm& form = call.forms[pair.form];
      const CopyShape shape = CopyShape::of(form, copies_pages, pair.width);
      CopyList<Entry, Thread> list(t, call, form);
      if (moves(t, pair, form)) {
        move_part(t, list, pair, form, shape, i - plane * call.parts);
      } else {
        convert_part(t, list, pair, form, shape, i - plane * call.parts);
      }
    }
  }

 private:
  template <class Thread>
  FOLIO_DEVICE static float tensor_scale(Thread& t, const float* at) {
    return at != nullptr ? t.read(at) : 1.0f;
  }
  template <class Thread>
  FOLIO_DEVICE static bool moves(Thread& t, const CopyPlane& pair, const CopyForm& form) {
    if (!form.moves || pair.from_tensor_scale == pair.to_tensor_scale) return form.moves;
    return tensor_scale(t, pair.from_tensor_scale) == tensor_scale(t, pair.to_tensor_scale);
  }

  // ---- bytes

  template <class Thread>
  FOLIO_DEVICE static void move_part(Thread& t, CopyList<Entry, Thread>& list,
                                     const CopyPlane& pair, const CopyForm& form,
                                     const CopyShape& shape, int64_t part) {
    const int64_t i = part * 32 + t.lane();
    if (i >= shape.values + shape.scales) return;
    const MovedBytes bytes = i < shape.values ? values_of(pair, form, shape, i)
                                              : scales_of(pair, form, shape, i - shape.values);
    switch (bytes.width) {
      case 16: return move<Vector16>(t, list, bytes);
      case 4: return move<uint32_t>(t, list, bytes);
      case 2: return move<uint16_t>(t, list, bytes);
      default: return move<uint8_t>(t, list, bytes);
    }
  }
  /// Piece i of the rows of all heads and slots.
  static FOLIO_DEVICE MovedBytes values_of(const CopyPlane& pair, const CopyForm& form,
                                           const CopyShape& shape, int64_t i) {
    const int64_t row = quotient(i, shape.pieces), slot = quotient(row, form.from.num_heads);
    const int64_t head = row - slot * form.from.num_heads;
    const int64_t at = (i - row * shape.pieces) * pair.width;
    return {pair.from + folio::detail::row_offset_bytes(form.from, 0, slot, head) + at,
            pair.to + folio::detail::row_offset_bytes(form.to, 0, slot, head) + at,
            form.from.page_stride_bytes,
            form.from.slot_stride_bytes,
            form.to.page_stride_bytes,
            form.to.slot_stride_bytes,
            slot,
            pair.width};
  }
  /// Scale i of those that have places of their own.
  static FOLIO_DEVICE MovedBytes scales_of(const CopyPlane& pair, const CopyForm& form,
                                           const CopyShape& shape, int64_t i) {
    const ScaleView& from = form.from.scales;
    const ScaleView& to = form.to.scales;
    const int64_t row = quotient(i, shape.granules), slot = quotient(row, shape.scale_heads);
    const int64_t head = row - slot * shape.scale_heads, granule = i - row * shape.granules;
    return {pair.from_scales + folio::detail::scale_offset_bytes(from, 0, slot, head, granule),
            pair.to_scales + folio::detail::scale_offset_bytes(to, 0, slot, head, granule),
            from.page_stride_bytes,
            from.slot_stride_bytes,
            to.page_stride_bytes,
            to.slot_stride_bytes,
            slot,
            bit_width(from.dtype) / 8};
  }

  template <class Word, class Thread>
  FOLIO_DEVICE static void move(Thread& t, CopyList<Entry, Thread>& list, const MovedBytes& bytes) {
    for (int64_t i = 0; i < list.size(); i += flights) {
      const std::byte* from[flights];
      std::byte* to[flights];
      bool is_chained = false;
      FOLIO_UNROLL
      for (int k = 0; k < flights; ++k) {
        const CopyStep step = list.step(i + k);
        const bool is_moved = bytes.slot < step.tokens;
        from[k] = is_moved ? bytes.source_of(step) : nullptr;
        to[k] = is_moved ? bytes.target_of(step) : nullptr;
        FOLIO_UNROLL
        for (int before = 0; before < k; ++before)
          is_chained = is_chained || (is_moved && from[k] == to[before]);
      }
      if (is_chained) {
        move_one_by_one<Word>(t, from, to);
      } else {
        move_together<Word>(t, from, to);
      }
    }
  }
  template <class Word, class Thread>
  FOLIO_DEVICE static void move_together(Thread& t, const std::byte* const (&from)[flights],
                                         std::byte* const (&to)[flights]) {
    Word word[flights];
    FOLIO_UNROLL
    for (int k = 0; k < flights; ++k) {
      if (to[k] != nullptr) word[k] = t.load(reinterpret_cast<const Word*>(from[k]));
    }
    FOLIO_UNROLL
    for (int k = 0; k < flights; ++k) {
      if (to[k] != nullptr) t.store(reinterpret_cast<Word*>(to[k]), word[k]);
    }
  }
  template <class Word, class Thread>
  FOLIO_DEVICE static void move_one_by_one(Thread& t, const std::byte* const (&from)[flights],
                                           std::byte* const (&to)[flights]) {
    FOLIO_UNROLL
    for (int k = 0; k < flights; ++k) {
      if (to[k] == nullptr) continue;
      t.store(reinterpret_cast<Word*>(to[k]), t.load(reinterpret_cast<const Word*>(from[k])));
    }
  }

  // ---- values

  template <class Thread>
  FOLIO_DEVICE static void convert_part(Thread& t, CopyList<Entry, Thread>& list,
                                        const CopyPlane& pair, const CopyForm& form,
                                        const CopyShape& shape, int64_t part) {
    const auto heads = static_cast<int32_t>(shape.row_heads);
    if (part >= shape.converting_parts(form.from.num_heads)) return;
    const int64_t groups = form.from.num_heads / heads, slot = quotient(part, groups);
    const auto head = static_cast<int32_t>(part - slot * groups) * heads;
    RowSource from;
    from.dtype = form.from.dtype;
    from.head_stride_bytes = form.from.head_stride_bytes;
    from.scales = form.from.scales;
    from.tensor_scale = tensor_scale(t, pair.from_tensor_scale);
    from.is_written = true;
    RowTarget to;
    to.view = form.to;
    to.view.scales.data = pair.to_scales;
    to.tensor_scale = tensor_scale(t, pair.to_tensor_scale);
    for (int64_t i = 0; i < list.size(); ++i) {
      const CopyStep step = list.step(i);
      if (slot >= step.tokens) continue;
      from.data = pair.from + folio::detail::row_offset_bytes(form.from, step.from.page,
                                                              step.from.slot + slot, 0);
      to.data =
          pair.to + folio::detail::row_offset_bytes(form.to, step.to.page, step.to.slot + slot, 0);
      if (pair.from_scales != nullptr) {
        from.scales_at =
            pair.from_scales + folio::detail::scale_offset_bytes(form.from.scales, step.from.page,
                                                                 step.from.slot + slot, 0, 0);
      }
      if (pair.to_scales != nullptr) {
        to.scales = pair.to_scales + folio::detail::scale_offset_bytes(form.to.scales, step.to.page,
                                                                       step.to.slot + slot, 0, 0);
      }
      ElementRows<Thread>(t, from, RowTransform{}, to).write(head, head + heads);
    }
  }
};

}  // namespace folio::cuda
