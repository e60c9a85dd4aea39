// SPDX-License-Identifier: Apache-2.0
/// folio/testing/mbarrier.h: one mbarrier: arrivals, bytes of transactions, phases.
///
///   phase n is open:     pending arrivals > 0, or bytes != 0
///   phase n completes:   pending == 0 and bytes == 0  ->  phase n + 1 is open, pending = arrivals
///   wait(parity p):      passes while the open phase has the other parity, i.e. when a phase of
///                        parity p completed last
///
/// Bytes are counted up by expect_tx and down by the copies that land, in any order, as the
/// hardware does. What the hardware leaves undefined or silently wrong is a fault here: an arrival
/// too many, a phase that completes while one of its copies is in flight, a byte count out of
/// range. The happens-before clock of the barrier is the pipeline's business. Source: PTX ISA 8.7,
/// 9.7.13.15 (mbarrier).
#pragma once

#include <cstdint>

namespace folio::inline v1::emulator {

/// The faults that an emulated kernel can have. Fixed values.
enum class Fault : uint8_t {
  none = 0,
  deadlock = 1,                  ///< nobody can go on
  overwrite_before_release = 2,  ///< a write is not ordered after a read of the same bytes
  /// a write is not ordered after an earlier write of the same bytes
  overwrite_before_arrival = 3,
  read_before_arrival = 4,  ///< a read is not ordered after the write that it needs
  wrong_byte_count = 5,     ///< expect_tx and the copies disagree
  wrong_phase = 6,          ///< a wait asks for another phase than the next
  too_many_arrivals = 7,    ///< more arrivals in a phase than the barrier was made for
  unfinished_copy = 8,      ///< all actors have ended and a copy is in flight
  bad_access = 9,           ///< outside shared memory, or a copy failed
  stopped = 10,             ///< an actor reported a failure of its own
  endless = 11,             ///< more steps than allowed
  invalid = 12,             ///< the program itself makes no sense: no such barrier, parity 2
};

[[nodiscard]] constexpr const char* name(Fault fault) noexcept {
  switch (fault) {
    case Fault::none: return "none";
    case Fault::deadlock: return "deadlock";
    case Fault::overwrite_before_release: return "overwrite before release";
    case Fault::overwrite_before_arrival: return "overwrite before arrival";
    case Fault::read_before_arrival: return "read before arrival";
    case Fault::wrong_byte_count: return "wrong byte count";
    case Fault::wrong_phase: return "wrong phase";
    case Fault::too_many_arrivals: return "too many arrivals";
    case Fault::unfinished_copy: return "unfinished copy";
    case Fault::bad_access: return "bad access";
    case Fault::stopped: return "stopped";
    case Fault::endless: return "endless";
    case Fault::invalid: return "invalid program";
  }
  return "none";
}

class Mbarrier {
 public:
  static constexpr int64_t max_bytes = (int64_t{1} << 20) - 1;  ///< of tx-count, either sign

  /// mbarrier.init: `arrivals` >= 1 complete a phase.
  constexpr explicit Mbarrier(int32_t arrivals) noexcept
      : arrivals_(arrivals), pending_(arrivals) {}

  /// The open phase; phases before it have completed.
  [[nodiscard]] constexpr int64_t phase() const noexcept { return phase_; }
  [[nodiscard]] constexpr int32_t arrivals() const noexcept { return arrivals_; }
  [[nodiscard]] constexpr int32_t pending() const noexcept { return pending_; }
  /// Bytes that are expected and have not landed; negative: landed and not expected.
  [[nodiscard]] constexpr int64_t missing_bytes() const noexcept { return bytes_; }
  [[nodiscard]] constexpr int32_t copies_in_flight() const noexcept { return in_flight_; }
  /// try_wait.parity
  [[nodiscard]] constexpr bool passes(int32_t parity) const noexcept {
    return (phase_ & 1) != parity;
  }

  /// Each returns the fault that it caused. `completes` is set when the phase does.
  constexpr Fault arrive(bool& completes) noexcept {
    if (pending_ == 0) return Fault::too_many_arrivals;
    --pending_;
    return advance(completes);
  }
  /// Only ever makes a phase wait longer, unless bytes have landed early.
  constexpr Fault expect_tx(int64_t bytes, bool& completes) noexcept {
    bytes_ += bytes;
    if (bytes_ > max_bytes) return Fault::wrong_byte_count;
    return advance(completes);
  }
  /// A copy is issued that will report to this barrier's open phase.
  constexpr void begin_copy() noexcept { ++in_flight_; }
  constexpr Fault complete_tx(int64_t bytes, bool& completes) noexcept {
    --in_flight_;
    bytes_ -= bytes;
    if (bytes_ < -max_bytes) return Fault::wrong_byte_count;
    return advance(completes);
  }

 private:
  constexpr Fault advance(bool& completes) noexcept {
    if (pending_ != 0 || bytes_ != 0) return Fault::none;
    // the rest of the bytes would be taken from the next phase
    if (in_flight_ != 0) return Fault::wrong_byte_count;
    ++phase_;
    pending_ = arrivals_;
    completes = true;
    return Fault::none;
  }

  int32_t arrivals_;
  int32_t pending_;
  int32_t in_flight_ = 0;
  int64_t bytes_ = 0;
  int64_t phase_ = 0;
};

}  // namespace folio::inline v1::emulator
