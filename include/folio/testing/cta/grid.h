// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/grid.h: runs the very source of a CUDA kernel on the host. For tests; needs
/// Boost.Context.
///
///   Grid grid({.blocks = 8, .resident = 3, .threads = 128, .shared_bytes = 200 << 10, .seed = 1});
///   grid.add_input("keys", keys, bytes);          // may be read; what is not added is not touched
///   grid.add_buffer("partials", partials, bytes); // read and written, by several blocks
///   std::string fault = grid.run([&](EmulatedThread& t) { Decode::run(t, args); });
///
/// **What it is.** Every CUDA thread is a fiber that others may overtake wherever it waits; seeds
/// make schedules. Threads of a warp are independent. Nothing is ordered but by sync_warp,
/// sync_block, sync_threads, mbarriers, waits for one's own copies, and add_acq_rel between blocks.
///
/// **What it finds**, on any schedule, and names with block, warp, lane, byte and line:
/// races in shared memory and in buffers, between threads, their asynchronous copies, multiplies
/// and other blocks; deadlocks; lanes at different collectives; reads of what nothing has written;
/// accesses outside of what was given, misaligned or to inputs; copies waited for too early or not
/// at all; missing fence_async and fence_barriers; wrong phases and byte counts; accumulators
/// touched in flight; t.fail. Bank conflicts and bytes are counted: GridCounts.
///
/// **What it is not.** Weak order inside one thread, scopes, caches, timing, the rounding of tensor
/// cores (sums are exact and rounded once), registers.
///
/// A fault leaves fibers where they stand: what they own on their stacks is leaked. Kernels end
/// with an exception as a fault. Externally synchronised; throws std::bad_alloc.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "folio/testing/cta/emulated_thread.h"

namespace folio::inline v1::emulator {

class Grid {
 public:
  explicit Grid(const GridShape& shape) : machine_(shape) {}

  /// Memory that the kernel may read.
  void add_input(std::string label, const void* data, int64_t bytes) {
    machine_.world.ranges.add(
        {std::move(label), reinterpret_cast<uintptr_t>(data), bytes, false, cta::AccessMap(0)});
  }
  /// Memory that it may read and write. `is_written`: it holds something already; if not, reading
  /// before writing is a fault.
  void add_buffer(std::string label, void* data, int64_t bytes, bool is_written = false) {
    machine_.world.ranges.add({std::move(label), reinterpret_cast<uintptr_t>(data), bytes, true,
                               cta::AccessMap(bytes, is_written)});
  }

  /// Runs `body(EmulatedThread&)` as every thread of every block. "" or the first fault. May be
  /// called again, for the next kernel on the same memory; after a fault it answers that one.
  template <class Body>
  std::string run(Body body) {
    return machine_.world.run([this, &body](cta::ThreadState& s) {
      EmulatedThread thread(machine_, s);
      body(thread);
    });
  }
  /// Of all runs so far.
  [[nodiscard]] const GridCounts& counts() const noexcept { return machine_.world.counts; }

 private:
  cta::Machine machine_;
};

}  // namespace folio::inline v1::emulator
