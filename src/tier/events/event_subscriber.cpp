// SPDX-License-Identifier: Apache-2.0
/// tier/events/event_subscriber.cpp: sockets and calls; batches are in subscriber_batches.cpp.
#include "folio/tier/event_subscriber.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "tier/checks.h"
#include "tier/events/subscriber_state.h"

namespace folio::inline v1::tier {
namespace {

constexpr auto creating = "EventSubscriber::create";

Status check(const EventSubscriberOptions& o) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (Status s = tier::check_sockets(creating, o.endpoint, o.replay_endpoint, o.topic); !s.is_ok())
    return s;
  const tier::Range ranges[] = {
      {"high_water_mark", o.high_water_mark, 1, most},
      {"max_message_bytes", o.max_message_bytes, 1, std::numeric_limits<int64_t>::max()},
      {"max_held_batches", o.max_held_batches, 1, most},
      {"request_timeout_ms", o.request_timeout_ms, 1, most},
      {"idle_check_ms", o.idle_check_ms, 0, most},
  };
  return tier::check_ranges(creating, ranges);
}

}  // namespace

// ---- Sockets

Status EventSubscriber::State::open() {
  Result<tier::ZmqSocket> socket = tier::ZmqSocket::open(context, ZMQ_SUB);
  if (!socket) return socket.error();
  socket->set(ZMQ_RCVHWM, options.high_water_mark);
  socket->set(ZMQ_MAXMSGSIZE, options.max_message_bytes);
  socket->set(ZMQ_SUBSCRIBE, options.topic);
  live = std::move(*socket);
  if (Status s = open_monitor(); !s.is_ok()) return s;
  if (Status s = live.attach(tier::ZmqSocket::Way::connect, std::string(options.endpoint), creating,
                             "endpoint");
      !s.is_ok())
    return s;
  be_idle_from_now();
  return replay_endpoint.empty() ? Status() : open_replay();
}

/// Before the live socket connects, so that no event is missed.
Status EventSubscriber::State::open_monitor() {
  constexpr auto address = "inproc://monitor";  // the context is this subscriber's alone
  Result<tier::ZmqSocket> socket = tier::ZmqSocket::open(context, ZMQ_PAIR);
  if (!socket) return socket.error();
  monitor = std::move(*socket);
  constexpr int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
  if (zmq().socket_monitor(live.get(), address, events) != 0)
    return fail(Errc::io, "{}: cannot watch connections: {}", creating, zmq().strerror(errno));
  return monitor.attach(tier::ZmqSocket::Way::connect, address, creating, "monitor");
}

/// [event as 2 bytes and its value, endpoint]
void EventSubscriber::State::take_connections() {
  for (;;) {
    const auto frames = monitor.receive();
    if (!frames) return;
    uint16_t event = 0;
    if (frames->front().size() < sizeof event) continue;
    frames->front().copy(reinterpret_cast<char*>(&event), sizeof event);
    is_connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
  }
}

/// Anew after a request that was given up: what comes of it goes with the socket.
Status EventSubscriber::State::open_replay() {
  Result<tier::ZmqSocket> socket = tier::ZmqSocket::open(context, ZMQ_DEALER);
  if (!socket) return socket.error();
  socket->set(ZMQ_RCVHWM, options.high_water_mark);
  socket->set(ZMQ_MAXMSGSIZE, options.max_message_bytes);
  replay = std::move(*socket);
  return replay.attach(tier::ZmqSocket::Way::connect, replay_endpoint, creating, "replay_endpoint");
}

Status EventSubscriber::State::ask(Request what) {
  const std::string number = tier::bytes_of(is_for_snapshot(what) ? tier::no_batch : next);
  const std::string_view frames[] = {std::string_view()};
  request = what;
  has_hole = has_snapshot = false;
  answer_due = Clock::now() + std::chrono::milliseconds(options.request_timeout_ms);
  // One that cannot be sent is late in time.
  static_cast<void>(replay.send(
      frames, std::make_shared<const std::vector<uint8_t>>(number.begin(), number.end())));
  return {};
}

Status EventSubscriber::State::wait(int32_t timeout_ms) {
  zmq_pollitem_t items[] = {{live.get(), -1, ZMQ_POLLIN, 0}, {replay.get(), -1, ZMQ_POLLIN, 0}};
  if (zmq().poll(items, replay.get() == nullptr ? 1 : 2, std::max(timeout_ms, 0)) >= 0 ||
      errno == EINTR)
    return {};
  return fail(Errc::io, "EventSubscriber::poll: cannot wait: {}", zmq().strerror(errno));
}

// ---- Calls

Result<EventSubscriber> EventSubscriber::create(const EventSubscriberOptions& options) noexcept {
  if (Status s = check(options); !s.is_ok()) return s;
  if (Status s = tier::load_zmq(creating); !s.is_ok()) return s;
  Result<EventIndex> index = EventIndex::create(options.index);
  if (!index) return index.error();
  try {
    auto state = std::make_unique<State>(options, std::move(*index));
    if (Status s = state->open(); !s.is_ok()) return s;
    state->options.endpoint = state->options.replay_endpoint = state->options.topic = {};
    if (state->replay.get() != nullptr)
      if (Status s = state->ask(State::Request::first_snapshot); !s.is_ok()) return s;
    return EventSubscriber(state.release());
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory", creating);
  }
}

EventSubscriber::~EventSubscriber() { delete state_; }

Status EventSubscriber::poll(int32_t timeout_ms) noexcept {
  if (state_ == nullptr) return tier::moved_from("EventSubscriber::poll");
  State& s = *state_;
  try {
    if (Status status = s.wait(timeout_ms); !status.is_ok()) return status;
    s.take_connections();
    if (Status status = s.take_live(); !status.is_ok()) return status;
    if (Status status = s.take_answers(); !status.is_ok()) return status;
    if (Status status = s.give_up_late_request(); !status.is_ok()) return status;
    if (s.request != State::Request::none || s.replay.get() == nullptr ||
        s.options.idle_check_ms == 0 || State::Clock::now() < s.idle_until)
      return {};
    s.be_idle_from_now();
    return s.ask(s.has_begun ? State::Request::missing : State::Request::first_snapshot);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventSubscriber::poll: no memory");
  }
}

bool EventSubscriber::is_connected() const noexcept {
  return state_ != nullptr && state_->is_connected;
}

bool EventSubscriber::is_current() const noexcept {
  return state_ == nullptr || state_->request == State::Request::none;
}

uint64_t EventSubscriber::next_batch() const noexcept {
  return state_ == nullptr ? 0 : state_->next;
}

const EventIndex& EventSubscriber::index() const noexcept {
  static const EventIndex nothing(nullptr);
  return state_ == nullptr ? nothing : state_->index;
}

EventSubscriberFigures EventSubscriber::figures() const noexcept {
  return state_ == nullptr ? EventSubscriberFigures{} : state_->figures;
}

}  // namespace folio::inline v1::tier
