// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/collectives.h: what warps and blocks do together: they wait for one another,
/// exchange values, load and multiply matrices.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "folio/testing/cta/bank_conflicts.h"
#include "folio/testing/cta/order.h"
#include "folio/testing/mma_sync.h"

namespace folio::inline v1::emulator::cta {

class Collectives {
 public:
  Collectives(World& world, Order& order) : world_(world), order_(order) {}

  /// Waits for the 32 lanes of the warp at the same operation; the last performs it for all.
  void warp(ThreadState& s, Op op) {
    BlockState& block = *s.block;
    WarpState& warp = block.warps[static_cast<size_t>(s.index / 32)];
    ThreadState* lanes = &block.threads[static_cast<size_t>(s.index / 32 * 32)];
    s.at = op;
    if (warp.arrived == 0) warp.first = s.index % 32;
    check_same(s, lanes[warp.first], op, "warp");
    if (++warp.arrived < 32) return world_.suspend(s);
    warp.arrived = 0;
    if (world_.checks()) count_bank_conflicts(world_.counts, lanes);
    perform(op, lanes);
    for (int i = 0; i < 32; ++i) {
      lanes[i].at = Op::none;
      if (&lanes[i] != &s) world_.wake(lanes[i]);
    }
  }

  /// Waits for `count` threads at barrier `id`; all then know what each knew.
  void sync(ThreadState& s, int id, int count) {
    if (id < 0 || id > 15)
      world_.fail(s, "waits at barrier " + std::to_string(id) + ", there are 0 to 15");
    if (count < 32 || count % 32 != 0 || count > world_.shape.threads)
      world_.fail(s, "waits at barrier " + std::to_string(id) + " for " + std::to_string(count) +
                         " threads, which are no whole warps of the block");
    SyncBarrier& barrier = s.block->syncs[static_cast<size_t>(id)];
    if (barrier.waiting.empty()) barrier.count = count;
    if (barrier.count != count)
      world_.fail(s, "waits at barrier " + std::to_string(id) + " for " + std::to_string(count) +
                         " threads, others wait for " + std::to_string(barrier.count));
    barrier.waiting.push_back(s.index);
    const auto arrived = static_cast<int>(barrier.waiting.size());
    if (arrived < count) {
      s.waits_at = id == 0 ? "sync_block" : "sync_threads";
      world_.suspend(s);
      return;
    }
    ++world_.counts.syncs;
    auto& threads = s.block->threads;
    const auto at = [&](int i) -> ThreadState& {
      return threads[static_cast<size_t>(barrier.waiting[static_cast<size_t>(i)])];
    };
    if (world_.checks())
      meet(world_.knowledge, count, [&](int i) -> Clock& { return at(i).clock; });
    if (world_.checks() && count == world_.shape.threads) count_conflicts(*s.block);
    for (int i = 0; i < count; ++i) {
      at(i).waits_at = nullptr;
      if (&at(i) != &s) world_.wake(at(i));
    }
    barrier.waiting.clear();
  }

  /// Counts what warps have not yet counted; all of their threads stand still.
  void count_conflicts(BlockState& block) {
    for (size_t first = 0; first < block.threads.size(); first += 32)
      count_bank_conflicts(world_.counts, &block.threads[first]);
  }

  /// Whether `s` is where the first of its group is.
  void check_same(const ThreadState& s, const ThreadState& first, Op op, const char* group) {
    const bool is_same = first.at == op && (op != Op::multiply && op != Op::multiply_group
                                                ? true
                                                : first.offer.dtype == s.offer.dtype);
    if (is_same && (!is_aligned(op) || (first.where.line() == s.where.line() &&
                                        first.where.column() == s.where.column())))
      return;
    world_.fail(s, std::string("is at ") + name(op) + " while others of its " + group + " are at " +
                       (is_same ? "another " : "") + name(first.at) +
                       (is_same || first.at == op ? " of other kind or place" : "") +
                       World::where(first));
  }

 private:
  void perform(Op op, ThreadState* lanes) {
    switch (op) {
      case Op::sync_warp:
        ++world_.counts.syncwarps;
        if (world_.checks())
          meet(world_.knowledge, 32, [&](int i) -> Clock& { return lanes[i].clock; });
        return;
      case Op::shuffle:
        ++world_.counts.shuffles;
        for (int i = 0; i < 32; ++i)
          lanes[i].offer.out[0] = lanes[lanes[i].offer.from & 31].offer.value;
        return;
      case Op::ballot: return vote(lanes);
      case Op::load_matrices: return load_matrices(lanes, false);
      case Op::load_matrices_transposed: return load_matrices(lanes, true);
      case Op::multiply: return multiply(lanes);
      default: return;
    }
  }
  void vote(ThreadState* lanes) {
    ++world_.counts.votes;
    uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) bits |= (lanes[i].offer.value & 1u) << i;
    for (int i = 0; i < 32; ++i) lanes[i].offer.out[0] = bits;
  }
  void load_matrices(ThreadState* lanes, bool transposed) {
    ++world_.counts.ldmatrix;
    const SharedMemory& shared = lanes[0].block->shared;
    std::array<int64_t, 32> rows;
    for (int i = 0; i < 32; ++i) {
      const int64_t at =
          order_.shared_offset(lanes[i], lanes[i].offer.value, 16, 16, "gives load_matrices");
      order_.shared_read(lanes[i], at, 16, lanes[i].clock.epoch(), " by load_matrices");
      rows[static_cast<size_t>(i)] = at;
    }
    for (size_t m = 0; m < 4; ++m)
      world_.counts.ldmatrix_extra_passes +=
          ldmatrix_passes(std::span<const int64_t, 8>(rows.data() + 8 * m, 8)) - 1;
    const auto registers = ldmatrix<4>(shared, rows, transposed);
    for (size_t i = 0; i < 32; ++i)
      std::copy((*registers)[i].begin(), (*registers)[i].end(), lanes[i].offer.out);
  }
  void multiply(ThreadState* lanes) {
    ++world_.counts.mma;
    Registers<4> a;
    Registers<2> b;
    Accumulators c;
    for (size_t i = 0; i < 32; ++i) {
      const Offer& offer = lanes[i].offer;
      std::copy(offer.a, offer.a + 4, a[i].begin());
      std::copy(offer.b, offer.b + 2, b[i].begin());
      std::copy(offer.c, offer.c + 4, c[i].begin());
    }
    (void)mma_sync(lanes[0].offer.dtype, a, b, c);  // of a type that multiply<> has
    for (size_t i = 0; i < 32; ++i) std::copy(c[i].begin(), c[i].end(), lanes[i].offer.c);
  }

  World& world_;
  Order& order_;
};

}  // namespace folio::inline v1::emulator::cta
