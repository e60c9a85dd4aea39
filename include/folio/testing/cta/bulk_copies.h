// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/bulk_copies.h: copies that threads only start: cp.async, boxes and rows by
/// tensor maps, bulk copies, to shared memory and back.
///
/// What is on its way is NaN at its destination, and lands at a random time between the call and
/// the wait. Global memory is checked row by row when the copy is issued.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "folio/testing/cta/barriers.h"
#include "folio/testing/cta/order.h"
#include "folio/testing/tma_copy.h"

namespace folio::inline v1::emulator::cta {

class BulkCopies {
 public:
  BulkCopies(World& world, Order& order, BarrierSet& barriers)
      : world_(world), order_(order), barriers_(barriers) {}

  // ---- cp.async
  void copy_async(ThreadState& s, uint32_t to, const void* from, bool is_valid, uint32_t bytes) {
    ++world_.counts.copies;
    world_.counts.copied_bytes += is_valid ? bytes : 0;
    const int64_t at = order_.shared_offset(s, to, bytes, bytes, "copies to");
    const Epoch epoch = s.clock.epoch_of(world_.slots.copies(s.index), s.copies.closed + 1);
    if (is_valid) {
      order_.need_alignment(s, from, bytes, "copies from");
      order_.global_access(s, from, bytes, epoch, false, "copies");
    }
    order_.shared_write(s, at, bytes, epoch, " by copy_async");
    Copy copy{static_cast<uint32_t>(at), bytes, static_cast<const std::byte*>(from), is_valid,
              false};
    if (!world_.checks() || world_.draw() % 2 == 0)
      land(*s.block, copy);
    else
      std::memset(s.block->shared.at(at), 0xff, bytes);
    s.copies.items.push_back(copy);
  }
  void wait_copies(ThreadState& s, int pending) {
    while (s.copies.pending() > pending)
      s.copies.finish_oldest([&](Copy& copy) { land(*s.block, copy); });
    s.clock.copies = s.copies.closed - static_cast<Time>(s.copies.pending());
  }

  // ---- loads that report to a barrier
  void load(ThreadState& s, Bulk bulk, uint32_t to, uint32_t barrier) {
    bulk.barrier = barriers_.find(s, barrier);
    BarrierState& b = BarrierSet::barrier(*s.block, bulk.barrier);
    if (!b.is_fenced)
      world_.fail(s, "copies with barrier " + std::to_string(bulk.barrier) +
                         ", which no fence_barriers of its maker has made known");
    prepare(s, bulk, to, "copies");
    ++world_.counts.tma_copies;
    world_.counts.tma_bytes += bulk.bytes;
    const Epoch epoch = barriers_.epoch(s, bulk.barrier);
    world_.counts.tma_read_bytes += touch_global(s, bulk, epoch, false);
    order_.need_fence(s, bulk.shared, bulk.bytes, "a copy");
    order_.shared_write(s, bulk.shared, bulk.bytes, epoch, " by a copy");
    b.state.begin_copy();
    if (world_.checks())
      std::memset(s.block->shared.at(bulk.shared), 0xff, static_cast<size_t>(bulk.bytes));
    s.block->flights.push_back(bulk);
    ++flights_;
  }
  /// One load in flight lands, or none if none must. Whether one did. Called by the scheduler.
  bool land_loads(bool must) {
    if (flights_ == 0) return false;
    if (!must && world_.checks() && world_.draw() % 4 != 0) return false;
    const uint64_t first = world_.draw();
    for (size_t i = 0; i < world_.num_blocks(); ++i) {
      BlockState* block = world_.block((first + i) % world_.num_blocks());
      if (block == nullptr || block->flights.empty()) continue;
      const size_t at = world_.draw() % block->flights.size();
      const Bulk bulk = block->flights[at];
      block->flights[at] = block->flights.back();
      block->flights.pop_back();
      --flights_;
      move(*block, bulk, true);
      barriers_.complete(*block, bulk.barrier, bulk.bytes);
      return true;
    }
    return false;
  }

  // ---- stores, in groups of a thread
  void store(ThreadState& s, Bulk bulk, uint32_t from) {
    prepare(s, bulk, from, "stores");
    ++world_.counts.tma_stores;
    const Time group = s.stores.closed + 1;
    world_.counts.tma_stored_bytes +=
        touch_global(s, bulk, s.clock.epoch_of(world_.slots.stores(s.index), group), true);
    order_.need_fence(s, bulk.shared, bulk.bytes, "a store");
    order_.shared_read(s, bulk.shared, bulk.bytes,
                       s.clock.epoch_of(world_.slots.store_reads(s.index), group), " by a store");
    if (!world_.checks() || world_.draw() % 2 == 0) {
      move(*s.block, bulk, false);
      bulk.bytes = 0;
    }
    s.stores.items.push_back(bulk);
  }
  void wait_stores(ThreadState& s, int pending, bool reads_only) {
    while (s.stores.pending() > pending)
      s.stores.finish_oldest([&](const Bulk& bulk) {
        if (bulk.bytes > 0) move(*s.block, bulk, false);
      });
    s.clock.store_reads = s.stores.closed - static_cast<Time>(s.stores.pending());
    if (!reads_only) s.clock.stores = s.clock.store_reads;
  }

  /// A thread has ended: nothing of it may be on its way.
  void check_end(ThreadState& s) {
    if (s.copies.has_items())
      return world_.report(s, "ends while a copy_async of its own is in flight");
    if (s.stores.has_items()) return world_.report(s, "ends while a store of its own is in flight");
    if (s.block->live == 1 && !s.block->flights.empty())
      return world_.report(s, "is the last to end, while a copy is in flight");
  }

 private:
  static void land(BlockState& block, Copy& copy) {
    if (copy.has_landed) return;
    copy.has_landed = true;
    if (copy.is_valid)
      std::memcpy(block.shared.at(copy.to), copy.from, copy.bytes);
    else
      std::memset(block.shared.at(copy.to), 0, copy.bytes);
  }

  void prepare(ThreadState& s, Bulk& bulk, uint32_t at, const char* verb) {
    if (bulk.kind == Bulk::Kind::bytes) {
      if (bulk.bytes % 16 != 0)
        world_.fail(s, std::string(verb) + " " + std::to_string(bulk.bytes) +
                           " bytes, which is no multiple of 16");
      order_.need_alignment(s, bulk.global, 16, verb);
    } else {
      const tma::Fault fault = bulk.map.fault();
      if (!fault.is_none())
        world_.fail(s, std::string(verb) + " by a map that is none: " +
                           std::string(tma::describe("tensor map", fault).message()));
      bulk.bytes = bulk.map.transaction_bytes();
    }
    bulk.shared = static_cast<uint32_t>(
        order_.shared_offset(s, at, bulk.bytes, bulk.kind == Bulk::Kind::bytes ? 16 : 128, verb));
  }
  template <class F>
  static void for_each_row(const Bulk& bulk, F f) {
    const auto& c = bulk.coordinates;
    if (bulk.kind == Bulk::Kind::tile)
      detail::for_each_box_row(bulk.map, std::span(c, static_cast<size_t>(bulk.map.rank)), f);
    else
      detail::for_each_gathered_row(bulk.map, c[0], {c[1], c[2], c[3], c[4]}, f);
  }
  /// Checks what is read or written; its bytes.
  int64_t touch_global(ThreadState& s, const Bulk& bulk, const Epoch& epoch, bool writes) {
    const char* verb = writes ? "stores to" : "copies";
    if (bulk.kind == Bulk::Kind::bytes) {
      order_.global_access(s, bulk.global, bulk.bytes, epoch, writes, verb);
      return bulk.bytes;
    }
    const int64_t size = element_bytes(bulk.map.dtype);
    int64_t total = 0;
    for_each_row(bulk, [&](const detail::TmaRow& row) {
      const auto [first, last] = row.inside(bulk.map);
      if (first == last) return true;
      const uint64_t at = row.address + static_cast<uint64_t>((row.element[0] + first) * size);
      order_.global_access(s, reinterpret_cast<const void*>(at), (last - first) * size, epoch,
                           writes, verb);
      total += (last - first) * size;
      return true;
    });
    return total;
  }
  /// The bytes themselves. All was checked before.
  void move(BlockState& block, const Bulk& bulk, bool to_shared) {
    if (bulk.kind == Bulk::Kind::bytes) {
      std::byte* shared = block.shared.at(bulk.shared);
      std::memcpy(to_shared ? shared : bulk.global, to_shared ? bulk.global : shared,
                  static_cast<size_t>(bulk.bytes));
      return;
    }
    const GlobalMemory all{nullptr, std::numeric_limits<int64_t>::max(), 0, "memory"};
    const auto& c = bulk.coordinates;
    const std::span<const int32_t> coordinates(c, static_cast<size_t>(bulk.map.rank));
    const Result<int64_t> done =
        bulk.kind == Bulk::Kind::gather4
            ? tma_gather4(bulk.map, all, block.shared, bulk.shared, c[0], {c[1], c[2], c[3], c[4]})
        : to_shared ? tma_load(bulk.map, all, block.shared, bulk.shared, coordinates)
                    : tma_store(bulk.map, all, block.shared, bulk.shared, coordinates);
    if (!done) world_.report(block.threads[0], std::string(done.error().message()));
  }

  World& world_;
  Order& order_;
  BarrierSet& barriers_;
  int64_t flights_ = 0;
};

}  // namespace folio::inline v1::emulator::cta
