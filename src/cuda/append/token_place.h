// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/token_place.h: where a token goes, and which row of the rotation table it takes.
///
/// The host has not read the arrays: whatever they hold, no place outside of a plane or a table
/// comes out. Table rows themselves are taken on trust.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/append/append_call.h"
#include "cuda/primitives/device.h"
#include "folio/cache/page_walk.h"

namespace folio::cuda {

/// Of a number that is not negative, by a positive one; the usual ones take the short way.
FOLIO_DEVICE int64_t quotient(int64_t a, int64_t b) {
  if ((a | b) <= 0x7fffffff) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

/// A token of the call. Sequences are looked for where the call needs them.
template <class Thread>
class TokenPlace {
 public:
  FOLIO_DEVICE TokenPlace(Thread& t, const AppendCall& call, int64_t token)
      : t_(t), call_(call), token_(token) {
    is_nowhere_ = call.places == Places::slots && !has_slot();
    const bool counts = call.rope.cos_sin != nullptr && call.rope.positions == nullptr;
    if (is_nowhere_ || (call.places != Places::table && !counts)) return;
    is_nowhere_ = !has_sequence();
  }

  /// Nothing is written for the token.
  FOLIO_DEVICE bool is_nowhere() const { return is_nowhere_; }

  /// The first pair's cosine in the token's row of the table; null: the table has no such row.
  FOLIO_DEVICE const float* angles() {
    const Rope& rope = call_.rope;
    const int64_t position =
        rope.positions != nullptr ? t_.read(rope.positions + token_) : position_in_sequence();
    if (position < 0 || position >= rope.rows) return nullptr;
    return rope.cos_sin + position * rope.dims;
  }

  /// In one of the call's planes; page no_page: nowhere.
  FOLIO_DEVICE folio::detail::PageRun in(const PagedKVView& view) {
    if (call_.places == Places::table) return in_table(view);
    folio::detail::PageRun run;
    run.page = token_;
    if (call_.places == Places::slots) {
      const int64_t page_size = view.page_size == unbounded_page_size ? 1 : view.page_size;
      run.page = quotient(slot_, page_size);
      run.slot = slot_ - run.page * page_size;
    }
    return run;
  }

 private:
  FOLIO_DEVICE bool has_slot() {
    slot_ = t_.read(call_.slots + token_);
    return slot_ >= 0 && slot_ < call_.num_slots;
  }

  /// The one sequence with offsets[b] <= token < offsets[b + 1]; in a step that decodes, b is the
  /// token. The search ends whatever the offsets are.
  FOLIO_DEVICE bool has_sequence() {
    const int32_t* offsets = call_.batch.query_offsets;
    if (call_.batch.size <= 0) return false;
    int32_t low = 0, high = call_.batch.size;
    sequence_ = token_ < high ? static_cast<int32_t>(token_) : high - 1;
    while (!holds_token(offsets)) {
      if (token_ < begin_) {
        high = sequence_;
      } else {
        low = sequence_ + 1;
      }
      if (low >= high) return false;
      sequence_ = low + (high - low) / 2;
    }
    return true;
  }
  FOLIO_DEVICE bool holds_token(const int32_t* offsets) {
    begin_ = t_.read(offsets + sequence_);
    end_ = t_.read(offsets + sequence_ + 1);
    return begin_ <= token_ && token_ < end_;
  }

  FOLIO_DEVICE int64_t position_in_sequence() {
    const Batch& batch = call_.batch;
    if (batch.query_positions != nullptr)
      return t_.read(batch.query_positions + sequence_) + (token_ - begin_);
    const int64_t first =
        batch.key_positions != nullptr ? t_.read(batch.key_positions + sequence_) : 0;
    return first + index_in_sequence();
  }
  /// Of the token's key in its table row.
  FOLIO_DEVICE int64_t index_in_sequence() {
    return t_.read(call_.batch.context_lengths + sequence_) - (end_ - token_);
  }

  FOLIO_DEVICE folio::detail::PageRun in_table(const PagedKVView& view) {
    const PageTable& table = call_.batch.table;
    const int64_t index = index_in_sequence();
    if (index < 0) return {};
    const int64_t row_start = table.row_starts != nullptr ? t_.read(table.row_starts + sequence_)
                                                          : sequence_ * table.row_stride;
    const uint32_t entry =
        t_.read(table.entries + row_start + folio::detail::logical_page_of(view, index));
    return folio::detail::run_of_entry(view, entry, index, index + 1);
  }

  Thread& t_;
  const AppendCall& call_;
  int64_t token_;
  int64_t slot_ = 0;
  int32_t sequence_ = 0;
  int64_t begin_ = 0, end_ = 0;  ///< tokens of the sequence
  bool is_nowhere_ = false;
};

template <int Plane, class Thread, class Body>
FOLIO_DEVICE void write_part(const AppendCall& call, TokenPlace<Thread>& place, int64_t token,
                             int32_t part, const float* angles, Body& body) {
  const AppendPlane& plane = call.planes[Plane];
  const folio::detail::PageRun run = place.in(plane.target);
  if (run.page == folio::detail::no_page) return;
  const int32_t begin = part * plane.heads_per_part, end = begin + plane.heads_per_part;
  const int32_t heads = plane.target.num_heads;
  body(std::integral_constant<int, Plane>{}, token, run, angles, begin, end < heads ? end : heads);
}

/// Calls body(plane, token, place, angles, first head, end of heads) for what this warp of a block
/// of `warps` has to write. The same for all threads of a warp.
template <class Thread, class Body>
FOLIO_DEVICE void for_each_part(Thread& t, const AppendCall& call, int warps, Body body) {
  const int64_t parts = call.planes[0].parts + call.planes[1].parts;
  const int64_t stride = static_cast<int64_t>(t.blocks()) * warps;
  for (int64_t i = static_cast<int64_t>(t.block()) * warps + t.warp(); i < call.tokens * parts;
       i += stride) {
    const int64_t token = quotient(i, parts);
    auto part = static_cast<int32_t>(i - token * parts);
    TokenPlace<Thread> place(t, call, token);
    if (place.is_nowhere()) continue;
    const float* angles = nullptr;
    if (call.rope.cos_sin != nullptr) {
      angles = place.angles();
      if (angles == nullptr) continue;
    }
    const int32_t keys = call.planes[0].parts;
    if (part < keys) {
      write_part<0>(call, place, token, part, angles, body);
    } else {
      write_part<1>(call, place, token, part - keys, angles, body);
    }
  }
}

}  // namespace folio::cuda
