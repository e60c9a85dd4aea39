// SPDX-License-Identifier: Apache-2.0
/// tier/events/event_subscriber.cpp: batches in the order of their numbers, whatever was missed.
#include "folio/tier/event_subscriber.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <limits>
#include <new>
#include <optional>
#include <string>

#include "tier/events/zmq_socket.h"

namespace folio::inline v1 {
namespace {

using Clock = std::chrono::steady_clock;
using tier::no_batch;

constexpr auto creating = "EventSubscriber::create";

/// What the replay socket is asked for, until one of them helps.
enum class Request : uint8_t {
  none,
  first_snapshot,  ///< then `rest`
  missing,         ///< batches from the expected one on, without a hole; then `snapshot`
  snapshot,        ///< then `rest`
  rest,            ///< batches from the expected one on, with holes
};

struct Held {
  uint64_t number;
  std::string payload;
};

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

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

struct EventSubscriber::State {
  State(const EventSubscriberOptions& given, EventIndex given_index)
      : options(given), replay_endpoint(given.replay_endpoint), index(std::move(given_index)) {}

  EventSubscriberOptions options;
  std::string replay_endpoint;
  EventIndex index;
  tier::ZmqContext context;
  tier::ZmqSocket live, replay;
  EventSubscriberFigures figures;

  bool has_begun = false;  ///< `next` is known
  uint64_t next = 0;
  std::optional<uint64_t> last_live;
  Request request = Request::none;
  bool has_hole = false, has_snapshot = false;  ///< of the request's answers
  Clock::time_point answer_due, idle_until;
  std::deque<Held> held;

  [[nodiscard]] Status open();
  [[nodiscard]] Status open_replay();
  [[nodiscard]] Status ask(Request what);
  [[nodiscard]] Status wait(int32_t timeout_ms);
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

// ---- Sockets

Status EventSubscriber::State::open() {
  Result<tier::ZmqSocket> socket = tier::ZmqSocket::open(context, ZMQ_SUB);
  if (!socket) return socket.error();
  socket->set(ZMQ_RCVHWM, options.high_water_mark);
  socket->set(ZMQ_MAXMSGSIZE, options.max_message_bytes);
  socket->set(ZMQ_SUBSCRIBE, options.topic);
  live = std::move(*socket);
  if (Status s = live.attach(tier::ZmqSocket::Way::connect, std::string(options.endpoint), creating,
                             "endpoint");
      !s.is_ok())
    return s;
  be_idle_from_now();
  return replay_endpoint.empty() ? Status() : open_replay();
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
  const bool for_snapshot = what == Request::first_snapshot || what == Request::snapshot;
  const std::string number = tier::bytes_of(for_snapshot ? no_batch : next);
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
  if (zmq_poll(items, replay.get() == nullptr ? 1 : 2, std::max(timeout_ms, 0)) >= 0 ||
      errno == EINTR)
    return {};
  return fail(Errc::io, "EventSubscriber::poll: cannot wait: {}", zmq_strerror(errno));
}

// ---- Batches

void EventSubscriber::State::apply(uint64_t number, const std::string& payload) {
  // One that cannot be read is counted by the index, and no reason to ask for it again.
  static_cast<void>(index.apply(as_bytes(payload)));
  next = number + 1;
  has_begun = true;
}

/// What stands between has gone for good.
void EventSubscriber::State::skip_to(uint64_t number) {
  if (has_begun && number > next) figures.lost_batches += static_cast<int64_t>(number - next);
  next = number;
}

Status EventSubscriber::State::take_live() {
  for (;;) {
    const auto frames = live.receive();
    if (!frames) return {};
    const std::optional<uint64_t> number =
        frames->size() == 3 ? tier::number_of((*frames)[1]) : std::nullopt;
    if (!number || *number >= uint64_t{1} << 63) {
      ++figures.malformed_messages;
      continue;
    }
    ++figures.live_batches;
    // A publisher's numbers only grow.
    if (last_live && *number <= *last_live)
      if (Status s = begin_anew(); !s.is_ok()) return s;
    last_live = *number;
    held.push_back({*number, frames->back()});
    if (std::ssize(held) > options.max_held_batches) held.pop_front();
    if (request == Request::none)
      if (Status s = take_held(); !s.is_ok()) return s;
  }
}

/// The publisher is another one, which knows nothing of what was.
Status EventSubscriber::State::begin_anew() {
  ++figures.restarts;
  index.clear();
  held.clear();
  has_begun = false;
  next = 0;
  request = Request::none;
  return replay.get() == nullptr ? Status() : open_replay();
}

/// Until one is missing.
Status EventSubscriber::State::take_held() {
  while (!held.empty()) {
    const uint64_t number = held.front().number;
    if (has_begun && number < next) {
      held.pop_front();  // an answer had it, too
      continue;
    }
    if (number > next) {
      if (has_begun) ++figures.gaps;
      if (replay.get() != nullptr)
        return ask(has_begun ? Request::missing : Request::first_snapshot);
      skip_to(number);
    }
    apply(number, held.front().payload);
    held.pop_front();
  }
  be_idle_from_now();
  return {};
}

// ---- Answers

Status EventSubscriber::State::take_answers() {
  if (replay.get() == nullptr) return {};
  for (;;) {
    auto frames = replay.receive();
    if (!frames) return {};
    if (Status s = take_answer(std::move(*frames)); !s.is_ok()) return s;
  }
}

/// [nothing, topic, number, payload]; of older vLLM: without a topic.
Status EventSubscriber::State::take_answer(std::vector<std::string> frames) {
  const bool has_shape = (frames.size() == 3 || frames.size() == 4) && frames[0].empty();
  const std::optional<uint64_t> number =
      has_shape ? tier::number_of(frames[frames.size() - 2]) : std::nullopt;
  if (!number || request == Request::none) {
    ++figures.malformed_messages;
    return {};
  }
  answer_due = Clock::now() + std::chrono::milliseconds(options.request_timeout_ms);
  if (*number == no_batch) return end_answers();
  if (*number >= uint64_t{1} << 63) {
    ++figures.malformed_messages;
  } else if (request == Request::first_snapshot || request == Request::snapshot) {
    if (!has_snapshot) index.clear();
    has_snapshot = true;
    apply(*number, frames.back());
  } else if (request == Request::missing && *number < next) {
    if (Status s = begin_anew(); !s.is_ok()) return s;
    return ask(Request::first_snapshot);
  } else if (*number >= next) {
    has_hole = has_hole || *number > next;
    if (has_hole && request == Request::missing) return {};
    skip_to(*number);
    apply(*number, frames.back());
    ++figures.replayed_batches;
  }
  return {};
}

Status EventSubscriber::State::end_answers() {
  const Request ended = request;
  request = Request::none;
  if (has_snapshot) ++figures.snapshots;
  const bool is_short = !held.empty() && held.front().number > next;
  switch (ended) {
    case Request::first_snapshot:
    case Request::snapshot:
      if (!has_snapshot) return ask(Request::rest);
      break;
    case Request::missing:
      if (has_hole || is_short) return ask(Request::snapshot);
      break;
    case Request::rest:
      if (is_short) skip_to(held.front().number);
      break;
    case Request::none: break;
  }
  return take_held();
}

Status EventSubscriber::State::give_up_late_request() {
  if (request == Request::none || Clock::now() < answer_due) return {};
  ++figures.timeouts;
  request = Request::none;
  if (Status s = open_replay(); !s.is_ok()) return s;
  if (!held.empty() && held.front().number > next) skip_to(held.front().number);
  return take_held();
}

// ---- Calls

Result<EventSubscriber> EventSubscriber::create(const EventSubscriberOptions& options) noexcept {
  if (Status s = check(options); !s.is_ok()) return s;
  Result<EventIndex> index = EventIndex::create(options.index);
  if (!index) return index.error();
  try {
    auto state = std::make_unique<State>(options, std::move(*index));
    if (Status s = state->open(); !s.is_ok()) return s;
    state->options.endpoint = state->options.replay_endpoint = state->options.topic = {};
    if (state->replay.get() != nullptr)
      if (Status s = state->ask(Request::first_snapshot); !s.is_ok()) return s;
    return EventSubscriber(state.release());
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory", creating);
  }
}

EventSubscriber::~EventSubscriber() { delete state_; }

Status EventSubscriber::poll(int32_t timeout_ms) noexcept {
  State& s = *state_;
  try {
    if (Status status = s.wait(timeout_ms); !status.is_ok()) return status;
    if (Status status = s.take_live(); !status.is_ok()) return status;
    if (Status status = s.take_answers(); !status.is_ok()) return status;
    if (Status status = s.give_up_late_request(); !status.is_ok()) return status;
    if (s.request != Request::none || s.replay.get() == nullptr || s.options.idle_check_ms == 0 ||
        Clock::now() < s.idle_until)
      return {};
    s.be_idle_from_now();
    return s.ask(s.has_begun ? Request::missing : Request::first_snapshot);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventSubscriber::poll: no memory");
  }
}

bool EventSubscriber::is_current() const noexcept { return state_->request == Request::none; }

uint64_t EventSubscriber::next_batch() const noexcept { return state_->next; }

const EventIndex& EventSubscriber::index() const noexcept { return state_->index; }

EventSubscriberFigures EventSubscriber::figures() const noexcept { return state_->figures; }

}  // namespace folio::inline v1
