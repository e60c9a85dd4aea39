// SPDX-License-Identifier: Apache-2.0
/// folio/tma/barrier.h: the barrier that copies by tensor maps report to.
///
/// A `Machine` is a thread of a kernel: folio's own on a GPU, or emulator::EmulatedThread on the
/// host; whatever else has the same members will do. Source: PTX ISA 8.7, mbarrier.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// An mbarrier, eight bytes of shared memory at a multiple of 8, by its address. A phase completes
/// when the arrivals that `init` asked for have come and all bytes that they expect have landed;
/// phases have parities 0, 1, 0, ... Thread safety: as the members say.
struct SharedMemBarrier {
  static constexpr uint32_t bytes = 8;
  uint32_t address = 0;

  /// The i-th of several that lie side by side.
  FOLIO_HOST_DEVICE constexpr SharedMemBarrier at(int i) const {
    return {address + static_cast<uint32_t>(i) * bytes};
  }
  /// One thread, before all others; then `fence_init`, then the block waits for that thread.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void init(Machine& t, uint32_t arrivals = 1) const {
    t.init_barrier(address, arrivals);
  }
  /// Once after the last `init`: makes barriers known to copies.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION static void fence_init(Machine& t) {
    t.fence_barriers();
  }
  /// Arrives, and makes the open phase wait for so many bytes of copies.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void expect_bytes(Machine& t, uint32_t count) const {
    t.arrive_expecting(address, count);
  }
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void arrive(Machine& t) const {
    t.arrive(address);
  }
  /// Returns when the phase of this parity has completed: what its copies brought can be read.
  template <class Machine>
  FOLIO_DEVICE_FUNCTION void wait(Machine& t, uint32_t parity) const {
    t.wait(address, parity);
  }
};

}  // namespace folio::inline v1
