// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/barriers.h: mbarriers of an emulated block: arrivals, bytes, phases, and who
/// has seen what once he has waited.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "folio/testing/cta/order.h"

namespace folio::inline v1::emulator::cta {

class BarrierSet {
 public:
  BarrierSet(World& world, Order& order) : world_(world), order_(order) {}

  void make(ThreadState& s, uint32_t at, uint32_t arrivals) {
    const int64_t offset = order_.shared_offset(s, at, 8, 8, "makes a barrier at");
    auto& barriers = s.block->barriers;
    if (arrivals < 1 || arrivals >= 1u << 20)
      world_.fail(s, "makes a barrier for " + std::to_string(arrivals) + " arrivals");
    for (const BarrierState& b : barriers) {
      if (b.address == at)
        world_.fail(
            s, "makes the barrier at shared byte " + std::to_string(offset) + " a second time");
    }
    if (barriers.size() == Slots::max_barriers)
      world_.fail(s, "makes more than " + std::to_string(Slots::max_barriers) + " barriers");
    order_.shared_write(s, offset, 8, s.clock.epoch(), "");
    BarrierState& b = barriers.emplace_back();
    b.state = Mbarrier(static_cast<int32_t>(arrivals));
    b.address = at;
    b.made = s.clock.epoch();
    b.arriving.assign(static_cast<size_t>(world_.slots.count()), 0);
    b.visible = b.arriving;
    b.next_phase.assign(static_cast<size_t>(world_.shape.threads), -2);
  }
  /// fence.mbarrier_init, of what this thread has made.
  void fence(ThreadState& s) {
    for (BarrierState& b : s.block->barriers)
      b.is_fenced = b.is_fenced || b.made.slot == s.clock.thread;
  }
  [[nodiscard]] int find(const ThreadState& s, uint32_t at) {
    auto& barriers = s.block->barriers;
    for (size_t i = 0; i < barriers.size(); ++i) {
      if (barriers[i].address != at) continue;
      if (world_.checks() && !s.clock.saw(barriers[i].made))
        world_.fail(s, "uses barrier " + std::to_string(i) + " before its making is ordered");
      return static_cast<int>(i);
    }
    world_.fail(s, "uses shared byte " + std::to_string(int64_t{at} - shared_begin) +
                       " as a barrier, which nobody has made");
  }

  /// Bytes that the open phase waits for beyond what it does.
  void expect(ThreadState& s, uint32_t at, uint32_t bytes) {
    const int i = find(s, at);
    bool completes = false;
    const Fault fault = barrier(*s.block, i).state.expect_tx(bytes, completes);
    settle(s, i, fault, completes);
    if (world_.has_failed()) world_.fail(s, "");
  }
  void arrive(ThreadState& s, uint32_t at) {
    const int i = find(s, at);
    BarrierState& b = barrier(*s.block, i);
    if (world_.checks()) {
      join(b.arriving, s.clock.shared->seen);
      s.clock.publish(b.arriving);
      b.arriving_foreign = join_foreign(b.arriving_foreign, s.clock.shared->foreign);
      ++s.clock.now;
    }
    bool completes = false;
    const Fault fault = b.state.arrive(completes);
    settle(s, i, fault, completes);
    if (world_.has_failed()) world_.fail(s, "");
    world_.yield(s);
  }
  void wait(ThreadState& s, uint32_t at, uint32_t parity) {
    const int i = find(s, at);
    ++world_.counts.mbarrier_waits;
    if (parity > 1)
      world_.fail(
          s, "waits for parity " + std::to_string(parity) + " of barrier " + std::to_string(i));
    BarrierState& b = barrier(*s.block, i);
    const int64_t wanted = next_phase(b, s, parity);
    const bool passes = b.state.passes(static_cast<int32_t>(parity));
    const int64_t got = passes ? b.state.phase() - 1 : b.state.phase();
    if (got != wanted)
      world_.fail(s, "waits for the wrong phase of barrier " + std::to_string(i) + ": parity " +
                         std::to_string(parity) + " is now phase " + std::to_string(got) +
                         ", next for it is phase " + std::to_string(wanted));
    while (!b.state.passes(static_cast<int32_t>(parity))) {
      s.waits_for_barrier = i;
      s.waits_for_parity = parity;
      b.waiting.push_back(s.index);
      world_.suspend(s);
      if (b.state.phase() > wanted + 1)
        world_.fail(s, "waits for phase " + std::to_string(wanted) + " of barrier " +
                           std::to_string(i) + ", which went on to phase " +
                           std::to_string(b.state.phase()) + " meanwhile: a wrong phase");
    }
    s.waits_for_barrier = -1;
    b.next_phase[static_cast<size_t>(s.index)] = wanted + 1;
    if (!world_.checks() || wanted < 0) return;
    Knowledge& mine = s.clock.own(world_.knowledge);
    join(mine.seen, b.visible);
    mine.foreign = join_foreign(mine.foreign, b.visible_foreign);
  }

  /// A copy of `bytes` has landed. Called by the scheduler: reports, and does not fail.
  void complete(BlockState& block, int i, int64_t bytes) {
    bool completes = false;
    const Fault fault = barrier(block, i).state.complete_tx(bytes, completes);
    settle(block.threads[0], i, fault, completes);
  }
  [[nodiscard]] static BarrierState& barrier(BlockState& block, int i) {
    return block.barriers[static_cast<size_t>(i)];
  }
  /// What a copy that reports to a barrier writes.
  [[nodiscard]] Epoch epoch(const ThreadState& s, int i) const {
    const auto phase = static_cast<Time>(barrier(*s.block, i).state.phase() + 1);
    return s.clock.epoch_of(world_.slots.barrier(i), phase);
  }

 private:
  /// The phase that a thread means: the next one of that parity that it has not waited for.
  static int64_t next_phase(const BarrierState& b, const ThreadState& s, uint32_t parity) {
    const int64_t next = b.next_phase[static_cast<size_t>(s.index)];
    if (next == -2) return parity == 0 ? 0 : -1;
    return (next & 1) == static_cast<int64_t>(parity) ? next : next + 1;
  }
  void settle(ThreadState& s, int i, Fault fault, bool completes) {
    BarrierState& b = barrier(*s.block, i);
    if (fault != Fault::none)
      return world_.report(
          s, std::string("causes ") + emulator::name(fault) + " at barrier " + std::to_string(i) +
                 ": " + std::to_string(b.state.missing_bytes()) + " bytes and " +
                 std::to_string(b.state.pending()) + " arrivals are missing, " +
                 std::to_string(b.state.copies_in_flight()) + " copies are in flight");
    if (!completes) return;
    if (world_.checks()) {
      join(b.visible, b.arriving);
      b.visible_foreign = join_foreign(b.visible_foreign, b.arriving_foreign);
      b.visible[static_cast<size_t>(world_.slots.barrier(i))] = static_cast<Time>(b.state.phase());
      std::fill(b.arriving.begin(), b.arriving.end(), Time{0});
    }
    for (const int thread : b.waiting) world_.wake(s.block->threads[static_cast<size_t>(thread)]);
    b.waiting.clear();
  }

  World& world_;
  Order& order_;
};

}  // namespace folio::inline v1::emulator::cta
