// SPDX-License-Identifier: Apache-2.0
/// tier/events/subscriber_batches.cpp: batches in the order of their numbers, whatever was missed.
#include <span>

#include "tier/events/subscriber_state.h"

namespace folio::inline v1::tier {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

// ---- Batches

void EventSubscriber::State::apply(uint64_t number, const std::string& payload) {
  // One that cannot be read is counted by the index, and no reason to ask for it again.
  static_cast<void>(index.apply(as_bytes(payload)));
  next = number + 1;
  has_begun = true;
}

/// What stands between has gone for good.
void EventSubscriber::State::skip_to(uint64_t number) {
  int64_t& missed = has_begun ? figures.lost_batches : figures.earlier_batches;
  if (number > next) missed += static_cast<int64_t>(number - next);
  next = number;
}

Status EventSubscriber::State::take_live() {
  for (int32_t taken = 0; taken < options.high_water_mark; ++taken) {
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
  return {};
}

/// The publisher is another one, which knows nothing of what was.
Status EventSubscriber::State::begin_anew() {
  ++figures.restarts;
  index.clear();
  held.clear();
  last_live.reset();
  has_begun = false;
  figures.earlier_batches = 0;
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
  if (*number == tier::no_batch) return end_answers();
  if (*number >= uint64_t{1} << 63) {
    ++figures.malformed_messages;
  } else if (is_for_snapshot(request)) {
    if (!has_snapshot) index.clear();
    has_snapshot = true;
    figures.earlier_batches = 0;
    apply(*number, frames.back());
  } else if (request == Request::missing && *number < next) {
    if (Status s = begin_anew(); !s.is_ok()) return s;
    return ask(Request::first_snapshot);
  } else if (*number >= next) {
    has_hole = has_hole || *number > next;
    if (has_hole && request != Request::holes) return {};
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
      if (has_hole || is_short) return ask(Request::last_snapshot);
      break;
    case Request::last_snapshot:
      if (!has_snapshot) return ask(Request::holes);
      break;
    case Request::holes:
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

}  // namespace folio::inline v1::tier
