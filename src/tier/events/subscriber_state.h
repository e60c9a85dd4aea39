// SPDX-License-Identifier: Apache-2.0
/// tier/events/subscriber_state.h: what a subscriber knows of the batches that it follows.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/event_subscriber.h"
#include "tier/events/zmq_socket.h"

namespace folio::inline v1::tier {

struct EventSubscriber::State {
  using Clock = std::chrono::steady_clock;
  /// What the replay socket is asked for, until one of them helps.
  enum class Request : uint8_t {
    none,
    first_snapshot,  ///< then `rest`
    missing,         ///< batches from the expected one on, without a hole; then `snapshot`
    snapshot,        ///< then `rest`
    rest,            ///< batches from the expected one on, without a hole; then `last_snapshot`
    last_snapshot,   ///< a publisher's oldest batches may have gone since it had none; then `holes`
    holes,           ///< batches from the expected one on, as many as there are
  };

  static bool is_for_snapshot(Request what) {
    return what == Request::first_snapshot || what == Request::snapshot ||
           what == Request::last_snapshot;
  }

  struct Held {
    uint64_t number;
    std::string payload;
  };

  State(const EventSubscriberOptions& given, EventIndex given_index)
      : options(given), replay_endpoint(given.replay_endpoint), index(std::move(given_index)) {}

  EventSubscriberOptions options;
  std::string replay_endpoint;
  EventIndex index;
  tier::ZmqContext context;
  tier::ZmqSocket live, replay;
  tier::ZmqSocket monitor;  ///< tells of the live one's connections
  bool is_connected = false;
  EventSubscriberFigures figures;

  bool has_begun = false;  ///< `next` is known
  uint64_t next = 0;
  std::optional<uint64_t> last_live;
  Request request = Request::none;
  bool has_hole = false, has_snapshot = false;  ///< of the request's answers
  Clock::time_point answer_due, idle_until;
  std::deque<Held> held;

  [[nodiscard]] Status open();
  [[nodiscard]] Status open_monitor();
  [[nodiscard]] Status open_replay();
  [[nodiscard]] Status ask(Request what);
  [[nodiscard]] Status wait(int32_t timeout_ms);
  void take_connections();
  [[nodiscard]] Status take_live();
  [[nodiscard]] Status take_answers();
  [[nodiscard]] Status take_answer(std::vector<std::string> frames);
  [[nodiscard]] Status end_answers();
  [[nodiscard]] Status take_held();
  [[nodiscard]] Status give_up_late_request();
  [[nodiscard]] Status begin_anew();
  void apply(uint64_t number, const std::string& payload);
  void skip_to(uint64_t number);
  void be_idle_from_now() {
    idle_until = Clock::now() + std::chrono::milliseconds(options.idle_check_ms);
  }
};

}  // namespace folio::inline v1::tier
