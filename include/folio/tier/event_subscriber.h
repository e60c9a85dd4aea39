// SPDX-License-Identifier: Apache-2.0
/// folio/tier/event_subscriber.h: an index that follows an engine's events over ZeroMQ.
///
/// Whoever comes late begins with a snapshot, which a folio publisher gives; a vLLM publisher gives
/// what it still has. Batches have numbers: where some are missing the replay socket is asked for
/// them, and for a snapshot if it has them no more. What comes meanwhile waits, bounded. A
/// publisher whose numbers go back is taken for a new one.
///
/// Thread safety: externally synchronised. No thread of its own but ZeroMQ's. A subscriber that was
/// moved from refuses `poll` as invalid_argument, and has an index of nothing.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "folio/tier/event_index.h"

namespace folio::inline v1::tier {

/// Texts are copied.
struct EventSubscriberOptions {
  std::string_view endpoint = "tcp://127.0.0.1:5557";  ///< tcp:// or ipc://, is connected
  std::string_view replay_endpoint = {};               ///< likewise; none: what is missed is lost
  std::string_view topic = {};                         ///< what topics begin with: <= 1024 bytes
  int32_t high_water_mark = 100'000;                   ///< batches that wait to be polled, >= 1
  int64_t max_message_bytes = int64_t{256}
                              << 20;  ///< >= 1; ZeroMQ drops the sender of a longer one
  int32_t max_held_batches = 10'000;  ///< while others are asked for, >= 1
  int32_t request_timeout_ms = 1000;  ///< for each answer, >= 1
  /// After so long without a batch the replay socket is asked whether the last ones were lost;
  /// 0: never
  int32_t idle_check_ms = 1000;
  EventIndexOptions index = {};
};

struct EventSubscriberFigures {
  int64_t live_batches = 0, replayed_batches = 0, snapshots = 0;
  int64_t gaps = 0;                ///< that were seen
  int64_t lost_batches = 0;        ///< that nobody had any more: the index may be wrong since
  int64_t malformed_messages = 0;  ///< frames that are no batch's
  int64_t restarts = 0;            ///< of the publisher
  int64_t timeouts = 0;
  /// Before the first batch that was taken of this publisher, and in no snapshot: what they stored
  /// is not in the index
  int64_t earlier_batches = 0;
  bool operator==(const EventSubscriberFigures&) const = default;
};

class FOLIO_EXPORT EventSubscriber {
 public:
  /// Errors: invalid_argument for options out of range and endpoints that are none; io;
  /// out_of_memory; unsupported in a build without ZeroMQ or nlohmann-json, and where ZeroMQ
  /// cannot be loaded
  [[nodiscard]] static Result<EventSubscriber> create(
      const EventSubscriberOptions& options = {}) noexcept;
  EventSubscriber(EventSubscriber&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  EventSubscriber& operator=(EventSubscriber&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~EventSubscriber();

  /// Takes what has come, at most high_water_mark batches, and waits at most so long for the first
  /// of it; not at all where that is negative. Errors: out_of_memory; io
  [[nodiscard]] Status poll(int32_t timeout_ms) noexcept;
  /// A publisher is there, as of the last poll: whether it has batches or not. ZeroMQ goes on
  /// trying where none is.
  [[nodiscard]] bool is_connected() const noexcept;
  /// No request is under way, so that the index is what the last batch says.
  [[nodiscard]] bool is_current() const noexcept;
  /// The number of the batch that is expected next; 0 before the first one.
  [[nodiscard]] uint64_t next_batch() const noexcept;

  [[nodiscard]] const EventIndex& index() const noexcept;
  [[nodiscard]] EventSubscriberFigures figures() const noexcept;

 private:
  struct FOLIO_LOCAL State;
  explicit EventSubscriber(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::EventSubscriber;
using tier::EventSubscriberFigures;
using tier::EventSubscriberOptions;
}  // namespace folio::inline v1
