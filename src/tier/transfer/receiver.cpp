// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/receiver.cpp: sequences that come: their ends, their deadlines.
#include "tier/transfer/receiver.h"

#include <algorithm>
#include <new>
#include <thread>

#include "tier/transfer/names.h"

namespace folio::inline v1::tier {

namespace {

/// Of messages that a peer does not take: it is cut off then.
constexpr int64_t max_outbox_bytes = int64_t{16} << 20;

Status no_memory(const char* call) {
  return fail(Errc::out_of_memory, "HandoverReceiver::{}: no memory", call);
}

}  // namespace

// ---- Ends

void HandoverReceiver::State::take(PartId id, Part& part, Done& done) {
  Incoming& sequence = sequences.at(part.request);
  if (part.open_pieces != 0) return refuse_part(id, "the last message before all has landed");
  if (done.pieces != static_cast<uint64_t>(part.pieces) ||
      done.num_tokens != sequence.tokens.size() || done.token_crc != crc_of_tokens(sequence.tokens))
    return refuse_part(id, "a last message of other tokens");
  PageName name;
  const NamedTokens named{sequence.tokens, sequence.spans, sequence.salt, sequence.adapter};
  if (done.is_named != 0 && last_name(options.end.name, named, own.layout.page_size(), name) &&
      name != done.name)
    return refuse_part(id, "a last message of another name");
  part.step = Step::done;
  if (sequence.output.empty()) sequence.output = std::move(done.output);
  commit_if_whole(part.request);
}

void HandoverReceiver::State::commit_if_whole(uint64_t request) {
  Incoming& sequence = sequences.at(request);
  for (const PartId& id : sequence.parts)
    if (parts.at(id).step != Step::done) return;
  if (layers_ready(sequence) != static_cast<int32_t>(own.layout.num_layers())) return;
  const auto tokens =
      std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.cached_tokens));
  if (Status s =
          has_groups ? pool.commit_load(sequence.id, tokens) : pool.commit(sequence.id, tokens);
      !s.is_ok())
    return fail_sequence(request, AbortCode::failed, s);
  received.push_back({.request = request,
                      .id = sequence.id,
                      .tokens = std::move(sequence.tokens),
                      .output = std::move(sequence.output),
                      .cached_tokens = sequence.cached_tokens});
  ++figures.committed;
  for (const PartId& id : sequence.parts) {
    static_cast<void>(outbox.send(id.first, Committed{.id = id.second}));
    remove_part(id);
  }
  sequences.erase(request);
}

/// Nothing of it is committed. Its parts that may still write keep what they write to.
void HandoverReceiver::State::fail_sequence(uint64_t request, AbortCode code, const Status& why) {
  const auto at = sequences.find(request);
  if (at == sequences.end()) return;
  fault = why;
  for (const PartId& id : at->second.parts) {
    Part& part = parts.at(id);
    part.step = Step::fencing;
    part.heard_ms = now_ms;
    ++figures.failed;
    static_cast<void>(outbox.send(id.first, Abort{.id = id.second,
                                                  .code = static_cast<uint8_t>(code),
                                                  .reason = std::string(why.message())}));
  }
  static_cast<void>(pool.release(at->second.id));
  sequences.erase(at);
}

void HandoverReceiver::State::take(PartId id, Part& part, const Ended&) {
  if (is_open(part))
    fail_sequence(part.request, AbortCode::cancelled, fail(Errc::io, "its sender has given up"));
  remove_part(id);
}

void HandoverReceiver::State::remove_part(PartId id) {
  const auto at = parts.find(id);
  for (const uint32_t slot : at->second.slots) staging.give_back(slot);
  parts.erase(at);
}

/// It is lost: nothing that it wrote is under way.
void HandoverReceiver::State::drop_peer(PeerId peer) {
  const auto first = [&] { return parts.lower_bound({peer, 0}); };
  for (auto at = first(); at != parts.end() && at->first.first == peer; at = first()) {
    if (at->second.step == Step::cut_off) break;  // all of them
    if (is_open(at->second))
      fail_sequence(at->second.request, AbortCode::failed, fail(Errc::io, "a sender is lost"));
    remove_part(at->first);
  }
  outbox.forget(peer);
  peers.erase(peer);
}

/// It does what no sender does, or does not answer.
void HandoverReceiver::State::cut_off_peer(PeerId peer) {
  for (auto at = parts.lower_bound({peer, 0}); at != parts.end() && at->first.first == peer; ++at) {
    if (is_open(at->second))
      fail_sequence(at->second.request, AbortCode::failed, fail(Errc::io, "a sender is cut off"));
    at->second.step = Step::cut_off;
    at->second.heard_ms = now_ms;
  }
  outbox.forget(peer);
  peers.erase(peer);
  static_cast<void>(transport.disconnect(peer));
  ++figures.lost_peers;
}

void HandoverReceiver::State::check_peers() {
  std::vector<PeerId> lost, deaf;
  for (const auto& [id, peer] : peers) {
    const Result<PeerState> state = transport.peer_state(id);
    if (!state || *state == PeerState::lost)
      lost.push_back(id);
    else if (outbox.bytes(id) > max_outbox_bytes)
      deaf.push_back(id);
  }
  for (const PeerId id : lost) {
    drop_peer(id);
    static_cast<void>(transport.disconnect(id));
    ++figures.lost_peers;
  }
  for (const PeerId id : deaf) cut_off_peer(id);
}

void HandoverReceiver::State::check_deadlines() {
  std::vector<uint64_t> late;
  for (const auto& [request, sequence] : sequences)
    if (now_ms - sequence.heard_ms > options.end.idle_ms ||
        now_ms - sequence.begun_ms > options.total_ms)
      late.push_back(request);
  for (const uint64_t request : late)
    fail_sequence(request, AbortCode::late,
                  fail(Errc::io, "nothing has come of request {} in time", request));
  std::vector<PartId> over;
  std::set<PeerId> silent;
  for (const auto& [id, part] : parts) {
    if (now_ms - part.heard_ms <= options.end.idle_ms) continue;
    if (part.step == Step::fencing) silent.insert(id.first);
    if (part.step == Step::cut_off) over.push_back(id);
  }
  for (const PartId& id : over) remove_part(id);
  for (const PeerId peer : silent) cut_off_peer(peer);
}

void HandoverReceiver::State::poll() {
  outbox.flush();
  // a lost peer's last messages are received first
  receive();
  check_peers();
  check_deadlines();
  give_slots();
}

// ---- Calls

namespace {

Status check(const HandoverReceiverOptions& o) {
  constexpr int64_t most = int64_t{1} << 40;
  const struct {
    const char* name;
    int64_t is, first, last;
  } ranges[] = {{"staging_slots", o.staging_slots, 1, 1 << 20},
                {"staging_slot_bytes", o.staging_slot_bytes, 0, int64_t{1} << 36},
                {"max_handovers", o.max_handovers, 1, most},
                {"max_tokens", o.max_tokens, 1, most},
                {"total_ms", o.total_ms, 1, most},
                {"landing", static_cast<int64_t>(o.landing), 0, 1}};
  for (const auto& r : ranges)
    if (r.is < r.first || r.is > r.last)
      return fail(Errc::invalid_argument, "HandoverReceiver::create: {} is {}, expected {} .. {}",
                  r.name, r.is, r.first, r.last);
  if ((o.executor.parallel_for == nullptr) == (o.executor.concurrency == nullptr)) return {};
  return fail(Errc::invalid_argument,
              "HandoverReceiver::create: executor has no {}, expected both functions or none",
              o.executor.parallel_for == nullptr ? "parallel_for" : "concurrency");
}

}  // namespace

Result<HandoverReceiver> HandoverReceiver::create(const HandoverReceiverOptions& options) noexcept {
  const char* const function = "HandoverReceiver::create";
  if (Status s = check(options); !s.is_ok()) return s;
  Result<EndPages> pages = pages_of(function, options.end);
  if (!pages) return pages.error();
  Result<std::vector<Place>> places = std::vector<Place>();
  if (options.landing == Landing::direct) places = places_of(function, options.end, *pages);
  if (!places) return places.error();
  HandoverReceiverOptions given = options;
  if (given.executor.parallel_for == nullptr) given.executor = serial_executor();
  if (given.staging_slot_bytes == 0)
    for (const GroupLayout& group : pages->layout.groups)
      given.staging_slot_bytes = std::max(
          given.staging_slot_bytes,
          (group.is_state() ? 1 : 4) * slot_layout(group.pages, group.pages.num_heads).bytes);
  given.staging_slot_bytes = (given.staging_slot_bytes + 63) / 64 * 64;
  Transport& transport = *options.end.transport;
  Result<Staging> staging =
      Staging::create(transport, given.staging_slots, given.staging_slot_bytes);
  if (!staging) return staging.error();
  const RegionId region = staging->region();
  try {
    return HandoverReceiver(
        new State(given, std::move(*pages), std::move(*places), std::move(*staging)));
  } catch (const std::bad_alloc&) {
    static_cast<void>(transport.remove_region(region));
    return no_memory("create");
  }
}

HandoverReceiver::~HandoverReceiver() {
  if (state_ == nullptr) return;
  while (!state_->sequences.empty())
    state_->fail_sequence(state_->sequences.begin()->first, AbortCode::cancelled,
                          fail(Errc::io, "the receiver is gone"));
  while (!state_->peers.empty()) state_->cut_off_peer(state_->peers.begin()->first);
  for (const ReceivedSequence& sequence : state_->received)
    static_cast<void>(state_->pool.release(sequence.id));
  PeerMessage message[1];
  while (state_->transport.remove_region(state_->staging.region()).code() == Errc::busy) {
    static_cast<void>(state_->transport.receive(message));
    std::this_thread::yield();
  }
  state_->parts.clear();
  delete state_;
}

void HandoverReceiver::poll(int64_t now_ms) noexcept {
  if (state_ == nullptr) return;
  state_->now_ms = std::max(state_->now_ms, now_ms);
  try {
    state_->poll();
  } catch (const std::bad_alloc&) {  // what was to come is late
    state_->fault = no_memory("poll");
  }
}

size_t HandoverReceiver::take(std::span<ReceivedSequence> sequences) noexcept {
  if (state_ == nullptr || sequences.data() == nullptr) return 0;
  const size_t count = std::min(sequences.size(), state_->received.size());
  for (ReceivedSequence& sequence : sequences.first(count)) {
    sequence = std::move(state_->received.front());
    state_->received.pop_front();
  }
  return count;
}

size_t HandoverReceiver::arriving(std::span<ArrivingSequence> sequences) const noexcept {
  if (state_ == nullptr || sequences.data() == nullptr) return 0;
  size_t count = 0;
  for (const auto& [request, sequence] : state_->sequences) {
    if (count == sequences.size()) break;
    sequences[count++] = {.request = request,
                          .id = sequence.id,
                          .tokens = sequence.tokens,
                          .cached_tokens = sequence.cached_tokens,
                          .layers_ready = state_->layers_ready(sequence)};
  }
  return count;
}

void HandoverReceiver::cancel(uint64_t request) noexcept {
  if (state_ == nullptr) return;
  try {
    state_->fail_sequence(request, AbortCode::cancelled,
                          fail(Errc::io, "cancelled by the receiver"));
  } catch (const std::bad_alloc&) {
    state_->fault = no_memory("cancel");
  }
}

HandoverReceiverFigures HandoverReceiver::figures() const noexcept {
  if (state_ == nullptr) return {};
  HandoverReceiverFigures figures = state_->figures;
  figures.handovers = std::ssize(state_->parts);
  figures.sequences = std::ssize(state_->sequences);
  figures.used_slots = state_->staging.slots() - state_->staging.free_slots();
  std::set<const State::Pins*> pins;
  for (const auto& [id, part] : state_->parts)
    if (part.pins != nullptr && pins.insert(part.pins.get()).second)
      figures.pinned_pages += std::ssize(part.pins->pins);
  return figures;
}

Status HandoverReceiver::last_fault() const noexcept {
  return state_ == nullptr ? Status() : state_->fault;
}

}  // namespace folio::inline v1::tier
