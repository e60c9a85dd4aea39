// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/stage.h: from the page table to tiles of K and V in shared memory.
///
/// A key is alive if some row of the task sees it and its page is assigned. One thread for each key
/// of a tile finds that out and reads the table entry one tile before the key's addresses are
/// needed, and these one tile before the copies. Keys that are not alive become zero: nothing of
/// them is read, the table included.
#pragma once

#include <cstdint>

#include "cuda/attention/logits.h"
#include "cuda/plan/device_plan.h"
#include "cuda/prefill/config.h"
#include "cuda/prefill/task.h"
#include "folio/cache/page_walk.h"

namespace folio::cuda::prefill {

/// Where a key's rows of K and V lie. Of a key that is not alive: the planes' starts, and bit 0 of
/// `key` is set.
struct alignas(16) KeyAddress {
  uint64_t key = 0;
  uint64_t value = 0;

  [[nodiscard]] FOLIO_DEVICE bool is_alive() const { return (key & 1u) == 0; }
};

/// An entry that is no page's.
inline constexpr uint32_t no_entry = ~uint32_t{0};

/// What the rows of a task see of 32 keys together. By whole warps; the same for all lanes.
template <class Config, class Thread>
struct SeenByAny {
  Thread& t;
  const AttendCall& call;
  const TaskRecord& task;
  int32_t first;  ///< of the 32 keys

  FOLIO_DEVICE uint32_t bits() const {
    uint32_t seen = task.hull.template in_tile<32, Config::is_general>(first);
    if constexpr (Config::is_general) {
      if (call.problem.intervals || call.problem.tree) seen &= by_rows();
      if (call.problem.bias) seen = shown_by_bias(seen);
    }
    return seen;
  }

 private:
  FOLIO_DEVICE uint32_t by_row(int32_t r, const Query& query) const {
    return sight_of_row<Config>(t, r).template in_tile<32>(first) &
           static_cast<uint32_t>(task.tree_bits(call.problem, query.token, first));
  }
  /// The hull of intervals has gaps, and a tree hides keys from all.
  FOLIO_DEVICE uint32_t by_rows() const {
    uint32_t seen = 0;
    for (int r = t.thread() & 31; r < task.rows; r += 32) seen |= by_row(r, task.query(call, r));
    FOLIO_UNROLL
    for (int mask = 16; mask > 0; mask >>= 1) seen |= t.shuffle_xor(seen, mask);
    return seen;
  }
  /// Of the keys `seen`, those that some row sees with a bias other than -inf. Seldom more than one
  /// row is looked at: the last sees most.
  FOLIO_DEVICE uint32_t shown_by_bias(uint32_t seen) const {
    const int lane = t.thread() & 31;
    uint32_t shown = 0;
    for (int32_t r = task.rows - 1; r >= 0 && shown != seen; --r) {
      const Query query = task.query(call, r);
      const uint32_t asked = by_row(r, query) & seen & ~shown;
      bool is_shown = false;
      if ((asked >> lane & 1u) != 0) {
        const float* const bias = bias_row(call.args, task.first_query + query.token, query.q_head);
        is_shown = t.read(bias + first + lane) != minus_infinity();
      }
      shown |= t.ballot(is_shown);
    }
    return shown;
  }
};

/// The entry of the page of key tile + thread, if a row sees the key, else no_entry. By the first
/// Config::keys threads.
template <class Config, class Thread>
FOLIO_DEVICE uint32_t find_entry(Thread& t, const AttendCall& call, int32_t tile) {
  const TaskRecord task = record_of<Config>(t);
  const SeenByAny<Config, Thread> seen{t, call, task, tile + (t.thread() & ~31)};
  if ((seen.bits() >> (t.thread() & 31) & 1u) == 0) return no_entry;
  return t.read(task.table_row + static_cast<uint32_t>(tile + t.thread()) /
                                     static_cast<uint32_t>(call.args.key.page_size));
}

FOLIO_DEVICE KeyAddress address_of(const AttendCall& call, int32_t head, int32_t token,
                                   uint32_t entry) {
  const PagedKVView &key = call.args.key, &value = call.args.value;
  const KeyAddress dead{reinterpret_cast<uint64_t>(key.data) | 1u,
                        reinterpret_cast<uint64_t>(value.data)};
  const int64_t key_page = folio::detail::page_of(key, entry);
  const int64_t value_page = folio::detail::page_of(value, entry);
  if (entry == no_entry || key_page == folio::detail::no_page ||
      value_page == folio::detail::no_page)
    return dead;
  const int64_t slot =
      static_cast<uint32_t>(token) % static_cast<uint32_t>(call.args.key.page_size);
  // a run of rows without pages ends with its plane
  if (key.page_size == unbounded_page_size &&
      (key_page + slot >= key.num_pages || value_page + slot >= value.num_pages))
    return dead;
  return {reinterpret_cast<uint64_t>(folio::detail::row_of(key, key_page, slot, head)),
          reinterpret_cast<uint64_t>(folio::detail::row_of(value, value_page, slot, head))};
}

/// The address of key tile + thread and the bits of the tile, from the entry found before.
template <class Config, class Thread>
FOLIO_DEVICE void store_address(Thread& t, const AttendCall& call, int32_t tile, uint32_t entry,
                                int slot) {
  const KeyAddress at = address_of(call, record_of<Config>(t).head, tile + t.thread(), entry);
  const uint32_t place = static_cast<uint32_t>(slot * Config::keys + t.thread());
  t.store_shared(t.shared_base() + Config::slots_at + place * 16, at);
  const uint32_t alive = t.ballot(at.is_alive());
  if ((t.thread() & 31) == 0)
    t.store_shared(t.shared_base() + Config::alive_at + place / 32 * 4, alive);
}

/// Puts the copies of a tile on their way, by all threads: 16 bytes of a row each.
template <class Config, class Thread>
FOLIO_DEVICE void copy_tile(Thread& t, int slot, int stage) {
  constexpr int units = Config::row_bytes / 16;
  constexpr int at_once = Config::threads / units;
  const int row = t.thread() / units, unit = t.thread() % units;
  const uint32_t slots =
      t.shared_base() + Config::slots_at + static_cast<uint32_t>(slot) * (Config::keys * 16);
  const uint32_t ring = t.shared_base() + static_cast<uint32_t>(stage) * Config::stage_bytes;
  FOLIO_UNROLL
  for (int i = 0; i < Config::keys / at_once; ++i) {
    const int r = row + i * at_once;
    const auto at = t.template load_shared<KeyAddress>(slots + static_cast<uint32_t>(r) * 16);
    const uint32_t to = ring + unit_offset<Config>(r, unit);
    const uint64_t into_row = static_cast<uint32_t>(unit * 16);
    t.copy_async(to, reinterpret_cast<const void*>((at.key & ~uint64_t{1}) + into_row),
                 at.is_alive());
    t.copy_async(to + Config::plane_bytes, reinterpret_cast<const void*>(at.value + into_row),
                 at.is_alive());
  }
}

/// Bits of the keys of a tile that are alive.
template <class Config, class Thread>
FOLIO_DEVICE uint64_t alive_in_tile(Thread& t, int slot) {
  const uint32_t at =
      t.shared_base() + Config::alive_at + static_cast<uint32_t>(slot) * (Config::keys / 32 * 4);
  uint64_t alive = t.template load_shared<uint32_t>(at);
  if constexpr (Config::keys == 64)
    alive |= uint64_t{t.template load_shared<uint32_t>(at + 4)} << 32;
  return alive;
}

}  // namespace folio::cuda::prefill
