// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/group_multiplies.h: wgmma of an emulated block: 128 threads issue, and the
/// product is made at a random time until they have waited.
///
/// Accumulators in flight hold NaN, and must not be touched; registers of A must stay as they were.
/// What threads wrote to shared memory must have been fenced, and must not change until the wait.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>

#include "folio/testing/cta/collectives.h"
#include "folio/testing/cta/order.h"
#include "folio/testing/wgmma.h"

namespace folio::inline v1::emulator::cta {

class GroupMultiplies {
 public:
  GroupMultiplies(World& world, Order& order, Collectives& collectives)
      : world_(world), order_(order), collectives_(collectives) {}

  /// What the threads of a group do together; `perform(group, first thread)` is called once.
  template <class Perform>
  void together(ThreadState& s, Op op, Perform perform) {
    BlockState& block = *s.block;
    const auto index = static_cast<size_t>(s.index / warpgroup_threads);
    if (index >= block.warpgroups.size())
      world_.fail(s, std::string("is at ") + name(op) + " in no whole warpgroup");
    WarpgroupState& group = block.warpgroups[index];
    s.at = op;
    if (!group.waiting.empty())
      collectives_.check_same(s, block.threads[static_cast<size_t>(group.waiting[0])], op,
                              "warpgroup");
    group.waiting.push_back(s.index);
    if (group.waiting.size() < warpgroup_threads) return world_.suspend(s);
    ThreadState* threads = &block.threads[index * warpgroup_threads];
    perform(group, threads);
    for (const int i : group.waiting) {
      ThreadState& other = block.threads[static_cast<size_t>(i)];
      other.at = Op::none;
      if (&other != &s) world_.wake(other);
    }
    group.waiting.clear();
  }

  void arrive(ThreadState& s) {
    together(s, Op::warpgroup_arrive,
             [](WarpgroupState& group, ThreadState*) { group.is_fenced = true; });
  }
  /// Each thread has put its accumulators, its registers of A, if there A is, and what else it
  /// gives into its offer; `arguments` says the same, decoded.
  void issue(ThreadState& s, const WgmmaArguments& arguments, bool accumulates) {
    together(s, Op::multiply_group, [&](WarpgroupState& group, ThreadState* threads) {
      ++world_.counts.wgmma;
      check_agreement(threads);
      GroupMultiply multiply;
      multiply.arguments = arguments;
      multiply.arguments.a_registers = {};
      multiply.accumulates = accumulates;
      multiply.accumulators = hold(s, group, threads, arguments.n);
      take_a(multiply, threads);
      check_operands(s, group, multiply);
      group.multiplies.items.push_back(std::move(multiply));
      while (group.executed < group.multiplies.items.size() &&
             (!world_.checks() || world_.draw() % 2 == 0))
        execute(s, group);
    });
  }
  void commit(ThreadState& s) {
    together(s, Op::commit_multiplies,
             [](WarpgroupState& group, ThreadState*) { group.multiplies.close(); });
  }
  void wait(ThreadState& s, int pending) {
    together(s, Op::wait_multiplies, [&](WarpgroupState& group, ThreadState* threads) {
      while (group.multiplies.pending() > pending) {
        while (group.executed < group.multiplies.ends[group.multiplies.first]) execute(s, group);
        const size_t before = group.multiplies.items.size();
        group.multiplies.finish_oldest([&](GroupMultiply& done) { give_back(s, group, done); });
        group.executed -= before - group.multiplies.items.size();
      }
      group.is_fenced = false;
      const Time done = group.multiplies.closed - static_cast<Time>(group.multiplies.pending());
      const auto slot = static_cast<size_t>(slot_of(s));
      for (int i = 0; i < warpgroup_threads && world_.checks(); ++i)
        threads[i].clock.own(world_.knowledge).seen[slot] = done;
    });
  }
  void check_end(ThreadState& s) {
    const auto index = static_cast<size_t>(s.index / warpgroup_threads);
    if (index < s.block->warpgroups.size() && s.block->warpgroups[index].multiplies.has_items())
      world_.report(s, "ends while a multiply_group of its own is in flight");
  }

 private:
  static constexpr uint32_t in_flight = 0xffffffffu;  // a NaN that no instruction writes

  [[nodiscard]] int slot_of(const ThreadState& s) const {
    return world_.slots.multiplies(s.index / warpgroup_threads);
  }
  /// One instruction of 128 threads has one pair of descriptors.
  void check_agreement(ThreadState* threads) {
    const Offer& first = threads[0].offer;
    for (int i = 1; i < warpgroup_threads; ++i) {
      const Offer& other = threads[i].offer;
      if (other.descriptors != first.descriptors || other.value != first.value ||
          (other.a == nullptr) != (first.a == nullptr))
        world_.fail(threads[i], "gives multiply_group other descriptors than its warpgroup");
    }
  }
  /// The accumulators as they are held while multiplies on them are in flight.
  size_t hold(ThreadState& s, WarpgroupState& group, ThreadState* threads, int n) {
    const auto registers = static_cast<size_t>(n / 2);
    for (size_t i = 0; i < group.held.size(); ++i) {
      HeldAccumulators& held = group.held[i];
      if (held.users == 0 || held.at[0] != threads[0].offer.c) continue;
      if (held.values.size() != warpgroup_threads * registers)
        world_.fail(s, "multiplies into accumulators in flight by another shape");
      ++held.users;
      return i;
    }
    if (!group.is_fenced)
      world_.fail(s,
                  "multiplies into registers without a warpgroup_arrive since they were its own");
    const auto free = std::find_if(group.held.begin(), group.held.end(),
                                   [](const HeldAccumulators& held) { return held.users == 0; });
    const auto index = static_cast<size_t>(free - group.held.begin());
    if (free == group.held.end()) group.held.emplace_back();
    HeldAccumulators& held = group.held[index];
    held.users = 1;
    held.values.resize(warpgroup_threads * registers);
    for (size_t t = 0; t < warpgroup_threads; ++t) {
      held.at[t] = threads[t].offer.c;
      std::copy(held.at[t], held.at[t] + registers,
                held.values.begin() + static_cast<std::ptrdiff_t>(t * registers));
      std::fill(held.at[t], held.at[t] + registers, std::bit_cast<float>(in_flight));
    }
    return index;
  }
  static void take_a(GroupMultiply& multiply, ThreadState* threads) {
    if (threads[0].offer.a == nullptr) return;
    multiply.a.resize(warpgroup_threads * 4);
    for (size_t t = 0; t < warpgroup_threads; ++t) {
      multiply.a_at[t] = threads[t].offer.a;
      std::copy(multiply.a_at[t], multiply.a_at[t] + 4,
                multiply.a.begin() + static_cast<std::ptrdiff_t>(4 * t));
    }
  }
  void check_operands(ThreadState& s, WarpgroupState& group, const GroupMultiply& multiply) {
    const WgmmaArguments& args = multiply.arguments;
    if (multiply.a.empty()) check_operand(s, group, args.a, args.dtype, wgmma_rows);
    check_operand(s, group, args.b, args.dtype, args.n);
  }
  void check_operand(ThreadState& s, const WarpgroupState& group, const WgmmaOperand& operand,
                     DType dtype, int extent) {
    if (Status status = emulator::check_operand(operand, dtype, extent, s.block->shared);
        !status.is_ok())
      world_.fail(s, "multiplies: " + std::string(status.message()));
    const Epoch epoch = s.clock.epoch_of(slot_of(s), group.multiplies.closed + 1);
    const int bits = bit_width(dtype), step = 128 / bits;
    const int along_mn = operand.major == Major::mn ? step : 1;
    const int along_k = operand.major == Major::mn ? 1 : step;
    for (int mn = 0; mn < extent; mn += along_mn) {
      for (int k = 0; k < mma_k(bits); k += along_k) {
        const int64_t at = wgmma_operand_address(operand.descriptor, operand.major, bits, mn, k);
        order_.need_fence(s, at, 16, "multiply_group");
        order_.shared_read(s, at, 16, epoch, " by multiply_group");
      }
    }
  }
  void execute(ThreadState& s, WarpgroupState& group) {
    GroupMultiply& multiply = group.multiplies.items[group.executed++];
    HeldAccumulators& held = group.held[multiply.accumulators];
    check_untouched(s, held, multiply);
    WgmmaArguments arguments = multiply.arguments;
    arguments.a_registers = multiply.a;
    if (!multiply.accumulates) std::fill(held.values.begin(), held.values.end(), 0.0f);
    if (Status status = wgmma(arguments, s.block->shared, held.values); !status.is_ok())
      world_.fail(s, "multiplies: " + std::string(status.message()));
  }
  void check_untouched(ThreadState& s, const HeldAccumulators& held,
                       const GroupMultiply& multiply) {
    const size_t registers = held.values.size() / warpgroup_threads;
    for (size_t t = 0; t < warpgroup_threads; ++t) {
      for (size_t r = 0; r < registers; ++r) {
        if (std::bit_cast<uint32_t>(held.at[t][r]) != in_flight)
          world_.fail(s, "multiplies into accumulators that thread " + std::to_string(t) +
                             " of its warpgroup has touched in flight");
      }
      if (!multiply.a.empty() &&
          !std::equal(multiply.a_at[t], multiply.a_at[t] + 4,
                      multiply.a.begin() + static_cast<std::ptrdiff_t>(4 * t)))
        world_.fail(s, "multiplies by registers that thread " + std::to_string(t) +
                           " of its warpgroup has changed before the wait");
    }
  }
  /// After the wait for the last multiply on them, threads have their accumulators again.
  void give_back(ThreadState& s, WarpgroupState& group, const GroupMultiply& done) {
    HeldAccumulators& held = group.held[done.accumulators];
    check_untouched(s, held, done);
    if (--held.users > 0) return;
    const size_t registers = held.values.size() / warpgroup_threads;
    for (size_t t = 0; t < warpgroup_threads; ++t)
      std::copy_n(held.values.begin() + static_cast<std::ptrdiff_t>(t * registers), registers,
                  held.at[t]);
  }

  World& world_;
  Order& order_;
  Collectives& collectives_;
};

}  // namespace folio::inline v1::emulator::cta
