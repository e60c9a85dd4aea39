// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/task_walk.h: in which rounds and parts a block's warps walk the keys of a task.
/// The loader, which runs ahead, and the warp that computes ask the same functions.
///
///   per_plan   rounds of up to warps * slabs_of_round slabs, parted evenly among the warps: warp
///              w's keys come before those of warp w + 1
///   else       rounds of one span per warp, each from an empty state
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/attention/live_tiles.h"
#include "cuda/decode/config.h"
#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "kernel/sequence.h"

namespace folio::cuda {

/// Live slabs numbered [begin, end) of a task.
struct WalkPart {
  int32_t begin = 0;
  int32_t end = 0;
};

template <class Config>
struct alignas(8) TaskWalk {
  static constexpr int slab_keys = Config::slab_keys;

  // what the rows see together, as key indices; sink tokens in the general instance alone
  int32_t keys_begin = 0;
  int32_t keys_end = 0;
  int32_t sinks_begin = 0;
  int32_t sinks_end = 0;
  // numbers of the task's live slabs, or spans
  int32_t first = 0;
  int32_t last = 0;

  TaskWalk() = default;
  /// By all lanes of a warp.
  template <class Thread>
  FOLIO_DEVICE TaskWalk(Thread& t, const AttendCall& a, const Sequence& s, const DeviceTask& task) {
    const int32_t span_keys = decode_span_keys(a.stores_spans);
    find_shown(t, a, s, task);
    if (a.stores_spans) {
      const LiveTiles spans = live_tiles(shown(), span_keys);
      first = spans.before(task.span_begin);
      last = spans.before(task.span_end);
    } else {
      const LiveTiles all = slabs();
      first = all.before(task.span_begin * (span_keys / slab_keys));
      last = all.before(task.span_end * (span_keys / slab_keys));
    }
  }

  /// hull() of what the rows' tokens see, each found by a lane: seen_by_tokens of 16 rows.
  template <class Thread>
  FOLIO_DEVICE void find_shown(Thread& t, const AttendCall& a, const Sequence& s,
                               const DeviceTask& task) {
    const int32_t group = a.problem.q_heads / a.problem.key.num_heads;
    const int32_t last_token = (task.row_end - 1) / group;
    const int32_t token = task.row_begin / group + (t.lane() & 15);
    const Visible v =
        visible_of(a.problem, a.plan->batch, s, token < last_token ? token : last_token);
    const bool is_empty = v.keys.begin >= v.keys.end;
    keys_begin = lowest(t, is_empty ? INT32_MAX : static_cast<int32_t>(v.keys.begin));
    keys_end = -lowest(t, is_empty ? 0 : -static_cast<int32_t>(v.keys.end));
    if constexpr (Config::is_general) {
      sinks_begin = -lowest(t, -static_cast<int32_t>(v.sinks.begin));
      sinks_end = -lowest(t, -static_cast<int32_t>(v.sinks.end));
    }
    if (keys_begin >= keys_end) keys_begin = keys_end = 0;
  }
  template <class Thread>
  FOLIO_DEVICE static int32_t lowest(Thread& t, int32_t mine) {
    FOLIO_UNROLL
    for (int step = 1; step < Config::rows; step *= 2) {
      const auto other = static_cast<int32_t>(t.shuffle_xor(static_cast<uint32_t>(mine), step));
      mine = mine < other ? mine : other;
    }
    return mine;
  }

  [[nodiscard]] FOLIO_DEVICE Visible shown() const {
    Visible seen;
    seen.keys = {keys_begin, keys_end};
    if constexpr (Config::is_general) seen.sinks = {sinks_begin, sinks_end};
    return seen;
  }
  [[nodiscard]] FOLIO_DEVICE LiveTiles slabs() const { return live_tiles(shown(), slab_keys); }
  [[nodiscard]] FOLIO_DEVICE bool shows(int32_t key) const {
    const bool is_key = key >= keys_begin && key < keys_end;
    if constexpr (!Config::is_general) return is_key;
    return is_key || (key >= sinks_begin && key < sinks_end);
  }

  [[nodiscard]] FOLIO_DEVICE int32_t rounds(bool stores_spans) const {
    const int32_t of_round = stores_spans ? Config::warps : Config::warps * Config::slabs_of_round;
    return (last - first + of_round - 1) / of_round;
  }
  [[nodiscard]] FOLIO_DEVICE WalkPart part(int32_t round, int warp, bool stores_spans) const {
    if (stores_spans) {
      const int32_t number = first + round * Config::warps + warp;
      if (number >= last) return {};
      const int32_t span_keys = decode_span_keys(stores_spans);
      const int32_t of_span = span_keys / slab_keys;
      const int32_t span = live_tiles(shown(), span_keys).at(number);
      const LiveTiles all = slabs();
      return {all.before(span * of_span), all.before((span + 1) * of_span)};
    }
    constexpr int32_t of_round = Config::warps * Config::slabs_of_round;
    const int32_t begin = first + round * of_round;
    const int32_t count = last - begin < of_round ? last - begin : of_round;
    return {begin + count * warp / Config::warps, begin + count * (warp + 1) / Config::warps};
  }
};

/// A walk in registers, or in shared memory where they are few: who writes it there and who reads
/// it stand on either side of a barrier.
template <class Config>
class KeptWalk {
 public:
  /// Slot 0 is the block's, slots 1 .. warps are the loaders'.
  template <class Thread>
  FOLIO_DEVICE void set(Thread& t, int slot, bool is_writer, const TaskWalk<Config>& walk) {
    if constexpr (Config::has_registers)
      walk_ = walk;
    else if (is_writer)
      t.store_shared(word(t, slot), walk);
  }
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE TaskWalk<Config> get(Thread& t, int slot) const {
    if constexpr (Config::has_registers)
      return walk_;
    else
      return t.template load_shared<TaskWalk<Config>>(word(t, slot));
  }

 private:
  template <class Thread>
  FOLIO_DEVICE static uint32_t word(Thread& t, int slot) {
    return t.shared_base() + Config::walks_at + static_cast<uint32_t>(slot) * 32;
  }
  struct Nothing {};
  std::conditional_t<Config::has_registers, TaskWalk<Config>, Nothing> walk_;
};

}  // namespace folio::cuda
