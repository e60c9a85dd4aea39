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
  FOLIO_DEVICE TaskWalk(const AttendCall& a, const Sequence& s, const DeviceTask& task) {
    const int32_t span_keys = decode_span_keys(a.stores_spans);
    const int32_t group = a.problem.q_heads / a.problem.key.num_heads;
    const Visible seen = seen_by_tokens(a.problem, a.plan->batch, s, task.row_begin / group,
                                        (task.row_end - 1) / group);
    keys_begin = static_cast<int32_t>(seen.keys.begin);
    keys_end = static_cast<int32_t>(seen.keys.end);
    if constexpr (Config::is_general) {
      sinks_begin = static_cast<int32_t>(seen.sinks.begin);
      sinks_end = static_cast<int32_t>(seen.sinks.end);
    }
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

/// The walk of the task that a block is at: in registers, or in shared memory where they are few.
template <class Config>
class KeptWalk {
 public:
  /// By all threads; SharedQueries' barrier orders it.
  template <class Thread>
  FOLIO_DEVICE KeptWalk(Thread& t, const TaskWalk<Config>& walk) {
    if constexpr (Config::has_registers)
      walk_ = walk;
    else if (t.thread() == 0)
      t.store_shared(t.shared_base() + Config::walk_at, walk);
  }
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE TaskWalk<Config> get(Thread& t) const {
    if constexpr (Config::has_registers)
      return walk_;
    else
      return t.template load_shared<TaskWalk<Config>>(t.shared_base() + Config::walk_at);
  }

 private:
  struct Nothing {};
  std::conditional_t<Config::has_registers, TaskWalk<Config>, Nothing> walk_;
};

}  // namespace folio::cuda
