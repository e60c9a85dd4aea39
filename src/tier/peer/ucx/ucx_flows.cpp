// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/ucx_flows.cpp: transfers: what is asked, granted and ended; bytes are in
/// ucx_bytes.cpp.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tier/peer/ucx/ucx_wire.h"

namespace folio::inline v1::tier {
namespace {

template <class Run>
std::vector<int64_t> starts_of(std::span<const Run> runs) {
  std::vector<int64_t> starts;
  starts.reserve(runs.size());
  int64_t at = 0;
  for (const Run& run : runs) {
    starts.push_back(at);
    at += run.bytes;
  }
  return starts;
}

}  // namespace

// ---- What this end asks for

void UcxWire::post(const TransferRecord& transfer) noexcept {
  Link* const link = link_to(transfer.peer);
  if (link == nullptr)
    return book_.ended(transfer.id, TransferState::failed,
                       fail(Errc::io, "Transport: peer {} is lost", transfer.peer.value));
  const bool is_write = transfer.direction == TransferDirection::write;
  const FlowKey key{.is_own = true, .transfer = transfer.id.value};
  try {
    Flow flow;
    flow.record = &transfer;
    flow.is_source = is_write;
    flow.memory = transfer.memory;
    flow.starts = starts_of(std::span<const Extent>(flow.memory));
    if (is_write) flow.remote_starts = starts_of(std::span<const RegionRun>(transfer.remote));
    flow.bytes = transfer.bytes;
    asked_[transfer.id] = link;
    link->flows.emplace(key, std::move(flow));
  } catch (const std::bad_alloc&) {
    asked_.erase(transfer.id);
    return book_.ended(transfer.id, TransferState::failed,
                       fail(Errc::out_of_memory, "Transport: no memory for a transfer"));
  }
  guard(*link, [&]() -> Status {
    Frame frame{.kind = is_write ? FrameKind::write : FrameKind::read,
                .transfer = transfer.id.value,
                .runs = transfer.remote};
    if (is_write) frame.bytes = transfer.message;
    put(*link, frame);
    return {};
  });
}

void UcxWire::cancel(TransferId transfer) noexcept {
  const auto found = asked_.find(transfer);
  if (found == asked_.end() || found->second->state >= Link::State::closing) return;
  Link& link = *found->second;
  const auto flow = link.flows.find({.is_own = true, .transfer = transfer.value});
  if (flow == link.flows.end() || flow->second.is_dropped || flow->second.is_over) return;
  flow->second.is_dropped = true;
  std::erase(link.sources, flow->first);
  guard(link, [&]() -> Status {
    put(link, {.kind = FrameKind::dropped, .transfer = transfer.value});
    return {};
  });
}

Status UcxWire::on_granted(Link& link, const Frame& frame) {
  const FlowKey key{.is_own = true, .transfer = frame.transfer};
  const auto found = link.flows.find(key);
  if (found == link.flows.end() || !found->second.is_source || found->second.is_moving)
    return protocol_fault("it grants what was not asked for");
  if (found->second.is_dropped) return {};
  found->second.is_moving = true;
  link.sources.push_back(key);
  return {};
}

Status UcxWire::on_ended(Link& link, const Frame& frame) {
  const FlowKey key{.is_own = true, .transfer = frame.transfer};
  const auto found = link.flows.find(key);
  if (found == link.flows.end()) return protocol_fault("it ends what was not asked for");
  Flow& flow = found->second;
  const bool can_be_done = flow.is_source && flow.moved == flow.bytes;
  if (flow.is_over || frame.outcome == TransferState::pending ||
      (frame.outcome == TransferState::done && !can_be_done))
    return protocol_fault("it ends what cannot end");
  flow.is_over = true;
  flow.outcome = frame.outcome;
  flow.why = fail(Errc::io, "Transport: a peer says: {}", text_of(frame.bytes));
  std::erase(link.sources, key);
  return settle(link, key);
}

// ---- What peers ask for

Status UcxWire::on_frame(Link& link, Frame frame) {
  book_.heard(link.peer);
  if (frame.kind == FrameKind::gone) {
    close(link, fail(Errc::io, "Transport: a peer has gone"), Farewell::none);
    return {};
  }
  if (frame.kind == FrameKind::refused)
    return fail(Errc::io, "Transport: a peer refuses: {}", text_of(frame.bytes));
  if (link.state == Link::State::greeting) {
    if (frame.kind != FrameKind::welcome) return protocol_fault("it does not welcome");
    link.state = Link::State::open;
    book_.connected(link.peer);
    while (!link.held.empty()) {
      const Link::Held held = std::move(link.held.front());
      link.held.pop_front();
      put(link, held.frame, held.message_bytes);
    }
    return {};
  }
  switch (frame.kind) {
    case FrameKind::message: return book_.arrived(link.peer, frame.bytes);
    case FrameKind::write:
    case FrameKind::read: return on_asked(link, std::move(frame));
    case FrameKind::granted: return on_granted(link, frame);
    case FrameKind::ended: return on_ended(link, frame);
    case FrameKind::fetched: return on_fetched(link, std::move(frame));
    case FrameKind::dropped: return on_dropped(link, frame);
    case FrameKind::alive: return {};
    default: return protocol_fault("it greets twice");
  }
}

Status UcxWire::on_asked(Link& link, Frame frame) {
  constexpr size_t most_flows = size_t{1} << 17;
  const FlowKey key{.is_own = false, .transfer = frame.transfer};
  const int64_t bytes = sum_of(frame.runs);
  if (bytes < 1 || link.flows.contains(key) || link.flows.size() >= most_flows)
    return protocol_fault("a transfer that cannot be");
  Flow flow;
  flow.is_source = frame.kind == FrameKind::read;
  flow.bytes = bytes;
  flow.message = std::move(frame.bytes);
  if (Status s = book_.pin(link.peer, frame.runs, &flow.memory); !s.is_ok()) {
    put(link, {.kind = FrameKind::ended,
               .outcome = TransferState::failed,
               .transfer = frame.transfer,
               .bytes = bytes_of(s.message())});
    return {};
  }
  const std::vector<RegionRun> runs = std::move(frame.runs);
  try {
    flow.starts = starts_of(std::span<const Extent>(flow.memory));
    flow.is_moving = flow.is_source;
    flow.runs = runs;
    if (flow.is_source) link.sources.push_back(key);
    link.flows.emplace(key, std::move(flow));
  } catch (...) {
    book_.unpin(runs);
    throw;
  }
  if (frame.kind == FrameKind::write)
    put(link, {.kind = FrameKind::granted, .transfer = frame.transfer});
  return {};
}

Status UcxWire::on_fetched(Link& link, Frame frame) {
  const FlowKey key{.is_own = false, .transfer = frame.transfer};
  const auto found = link.flows.find(key);
  if (found == link.flows.end() || !found->second.is_source || found->second.is_over ||
      found->second.moved != found->second.bytes)
    return protocol_fault("it has read what it was not given");
  found->second.is_over = true;
  if (!frame.bytes.empty())
    if (Status s = book_.arrived(link.peer, frame.bytes); !s.is_ok()) return s;
  return settle(link, key);
}

Status UcxWire::on_dropped(Link& link, const Frame& frame) {
  const FlowKey key{.is_own = false, .transfer = frame.transfer};
  const auto found = link.flows.find(key);
  if (found == link.flows.end()) return {};  // it has ended, and that has been said
  found->second.is_dropped = true;
  std::erase(link.sources, key);
  return settle(link, key);
}

// ---- Ends

Status UcxWire::settle(Link& link, FlowKey key) {
  const auto found = link.flows.find(key);
  if (found == link.flows.end() || link.state >= Link::State::closing) return {};
  Flow& flow = found->second;
  if (flow.operations > 0) return {};
  const TransferId id{key.transfer};
  const bool is_whole = !flow.is_source && flow.moved == flow.bytes && !flow.is_dropped;
  if (key.is_own) {
    if (!flow.is_over && !is_whole) return {};
    const TransferState outcome = flow.is_over ? flow.outcome : TransferState::done;
    const Status why = flow.why;
    const Frame fetched{.kind = FrameKind::fetched,
                        .transfer = key.transfer,
                        .bytes = flow.is_source ? std::vector<std::byte>() : flow.record->message};
    erase(link, key);
    book_.ended(id, outcome, why);
    if (is_whole) put(link, fetched);
    return {};
  }
  if (flow.is_source ? !flow.is_over && !flow.is_dropped : !is_whole && !flow.is_dropped) return {};
  const bool is_source = flow.is_source, is_cancelled = flow.is_dropped && !flow.is_over;
  const std::vector<std::byte> message = std::move(flow.message);
  erase(link, key);
  if (is_whole && !message.empty())
    if (Status s = book_.arrived(link.peer, message); !s.is_ok()) return s;
  if (is_cancelled || !is_source)
    put(link, {.kind = FrameKind::ended,
               .outcome = is_cancelled ? TransferState::cancelled : TransferState::done,
               .transfer = key.transfer});
  return {};
}

void UcxWire::erase(Link& link, FlowKey key) noexcept {
  const auto found = link.flows.find(key);
  book_.unpin(found->second.runs);
  if (key.is_own) asked_.erase(TransferId{key.transfer});
  link.flows.erase(found);
}

}  // namespace folio::inline v1::tier
