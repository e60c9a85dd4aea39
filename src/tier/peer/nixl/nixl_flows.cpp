// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_flows.cpp: transfers: what is asked, granted, written and ended.
#include <new>
#include <utility>

#include "tier/peer/bytes.h"
#include "tier/peer/nixl/nixl_runs.h"
#include "tier/peer/nixl/nixl_wire.h"

namespace folio::inline v1::tier {

// ---- Memory

Status NixlWire::ready(Link& link, std::span<const RegionRun> runs) {
  for (const RegionRun& run : runs) {
    if (link.agent->has_region(run.region)) continue;
    const auto found = regions_.find(run.region);
    if (found == regions_.end())
      return fail(Errc::io, "Transport: region {} is not there yet", run.region.value);
    if (Status s = link.agent->add_region(run.region, found->second); !s.is_ok()) return s;
    link.is_told = false;
  }
  if (link.is_told) return {};
  link.own.clear();
  const std::vector<NixlRegion> regions = link.agent->regions();
  for (const NixlRegion& region : regions) link.own.add(region);
  const auto about = link.agent->about();
  if (!about) return about.error();
  ByteWriter writer;
  writer.put_all(std::span<const NixlRegion>(regions));
  writer.put_all(std::span<const std::byte>(*about));
  put(link, {.kind = NoteKind::regions, .body = std::move(writer.bytes())});
  link.is_told = true;
  return {};
}

// ---- What this end asks for

void NixlWire::post(const TransferRecord& transfer) noexcept {
  const std::lock_guard lock(mutex_);
  Link* const link = link_to(transfer.peer);
  if (link == nullptr)
    return book_.ended(transfer.id, TransferState::failed,
                       fail(Errc::io, "Transport: peer {} is lost", transfer.peer.value));
  try {
    asked_[transfer.id] = {.transfer = &transfer, .link = link};
  } catch (const std::bad_alloc&) {
    return book_.ended(transfer.id, TransferState::failed,
                       fail(Errc::out_of_memory, "Transport: no memory for a transfer"));
  }
  busy_ = Clock::now();
  guard(*link, [&] { return ask(*link, transfer); });
}

Status NixlWire::ask(Link& link, const TransferRecord& transfer) {
  const bool is_write = transfer.direction == TransferDirection::write;
  if (Status s = ready(link, transfer.local); !s.is_ok()) {
    asked_.erase(transfer.id);
    book_.ended(transfer.id, TransferState::failed, s);
    return {};
  }
  Frame frame{.kind = is_write ? FrameKind::write : FrameKind::read, .transfer = transfer.id.value};
  put_runs(transfer.remote, &frame.bytes);
  if (!is_write) put_runs(transfer.local, &frame.bytes);
  put(link, frame);
  return {};
}

void NixlWire::cancel(TransferId transfer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = asked_.find(transfer);
  if (found == asked_.end() || found->second.is_dropped) return;
  Asked& asked = found->second;
  Link& link = *asked.link;
  asked.is_dropped = true;
  if (asked.is_granted) {  // ends when what NIXL has of it has ended
    for (Push& push : link.pushes)
      if (push.is_own && push.transfer == transfer.value) push.is_dropped = true;
    return;
  }
  guard(link, [&]() -> Status {
    put(link, {.kind = FrameKind::dropped, .transfer = transfer.value});
    return {};
  });
  // a read ends when the peer says that it does not write any more; a write is this end's alone
  if (asked.transfer->direction == TransferDirection::read) return;
  asked_.erase(found);
  book_.ended(transfer, TransferState::cancelled);
}

Status NixlWire::on_granted(Link& link, const Frame& frame) {
  const auto found = asked_.find(TransferId{frame.transfer});
  if (found == asked_.end()) return {};  // it was cancelled, and that was said
  Asked& asked = found->second;
  const TransferRecord& transfer = *asked.transfer;
  std::vector<Extent> there;
  if (asked.link != &link || asked.is_granted || transfer.direction != TransferDirection::write ||
      !link.theirs.locate(transfer.remote, &there))
    return protocol_fault("it gives what was not asked for");
  asked.is_granted = true;
  Push& push = link.pushes.emplace_back(Push{.transfer = frame.transfer,
                                             .is_own = true,
                                             .here = transfer.memory,
                                             .there = std::move(there)});
  push.pieces = Pieces(push.here, push.there);
  return {};
}

Status NixlWire::on_ended(Link& link, const Frame& frame) {
  const TransferId id{frame.transfer};
  const auto found = asked_.find(id);
  if (found == asked_.end()) return {};
  const Asked& asked = found->second;
  const bool is_read = asked.transfer->direction == TransferDirection::read;
  const bool can_be = is_read ? frame.outcome != TransferState::pending
                              : frame.outcome == TransferState::failed && !asked.is_granted;
  if (asked.link != &link || !can_be) return protocol_fault("it ends what it cannot end");
  if (frame.outcome == TransferState::done && !asked.transfer->message.empty())
    put(link, {.kind = FrameKind::message, .bytes = asked.transfer->message});
  asked_.erase(found);
  book_.ended(id, frame.outcome,
              fail(Errc::io, "Transport: a peer says: {}", text_of(frame.bytes)));
  return {};
}

// ---- What peers ask for

Status NixlWire::on_frame(Link& link, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::message: return book_.arrived(link.peer, frame.bytes);
    case FrameKind::write: return on_write(link, frame);
    case FrameKind::read: return on_read(link, frame);
    case FrameKind::granted: return on_granted(link, frame);
    case FrameKind::ended: return on_ended(link, frame);
    case FrameKind::fetched: return on_fetched(link, frame);
    case FrameKind::dropped: on_dropped(link, frame.transfer); return {};
    case FrameKind::alive: return {};
    case FrameKind::gone:
      say(link, NoteKind::answer);
      return fail(Errc::io, "Transport: a peer has gone");
    default: return protocol_fault("it greets twice");
  }
}

Status NixlWire::on_write(Link& link, const Frame& frame) {
  constexpr size_t most_lent = size_t{1} << 16;
  std::span<const std::byte> bytes = frame.bytes;
  auto runs = take_runs(&bytes);
  if (!runs) return runs.error();
  if (!bytes.empty() || sum_of(*runs) < 1 || link.lent.contains(frame.transfer) ||
      link.lent.size() >= most_lent)
    return protocol_fault("a write that cannot be");
  auto& lent = link.lent[frame.transfer];
  std::vector<Extent> memory;
  Frame answer{.kind = FrameKind::granted, .transfer = frame.transfer};
  Status s = book_.pin(link.peer, *runs, &memory);
  const bool is_disconnected = s.code() == Errc::io;
  if (s.is_ok()) {
    lent = std::move(*runs);
    s = ready(link, lent);
  }
  if (!s.is_ok()) {
    book_.unpin(lent);
    link.lent.erase(frame.transfer);
    if (is_disconnected) return {};
    answer = {.kind = FrameKind::ended,
              .outcome = TransferState::failed,
              .transfer = frame.transfer,
              .bytes = bytes_of(s.message())};
  }
  put(link, answer);
  return {};
}

Status NixlWire::on_read(Link& link, const Frame& frame) {
  std::span<const std::byte> bytes = frame.bytes;
  auto runs = take_runs(&bytes);
  if (!runs) return runs.error();
  const auto theirs = take_runs(&bytes);
  if (!theirs) return theirs.error();
  Push& push = link.pushes.emplace_back(Push{.transfer = frame.transfer});
  if (!bytes.empty() || sum_of(*runs) < 1 || sum_of(*runs) != sum_of(*theirs) ||
      !link.theirs.locate(*theirs, &push.there))
    return protocol_fault("a read that cannot be");
  Status s = book_.pin(link.peer, *runs, &push.here);
  const bool is_disconnected = s.code() == Errc::io;
  if (s.is_ok()) {
    push.runs = std::move(*runs);
    push.pieces = Pieces(push.here, push.there);
    s = ready(link, push.runs);
  }
  if (s.is_ok()) return {};
  book_.unpin(push.runs);
  link.pushes.pop_back();
  if (is_disconnected) return {};
  put(link, {.kind = FrameKind::ended,
             .outcome = TransferState::failed,
             .transfer = frame.transfer,
             .bytes = bytes_of(s.message())});
  return {};
}

Status NixlWire::on_fetched(Link& link, const Frame& frame) {
  const auto found = link.lent.find(frame.transfer);
  if (found == link.lent.end()) return protocol_fault("it has written what it was not given");
  book_.unpin(found->second);
  link.lent.erase(found);
  return frame.bytes.empty() ? Status() : book_.arrived(link.peer, frame.bytes);
}

void NixlWire::on_dropped(Link& link, uint64_t transfer) {
  if (const auto found = link.lent.find(transfer); found != link.lent.end()) {
    book_.unpin(found->second);
    link.lent.erase(found);
    return;
  }
  for (Push& push : link.pushes)
    if (!push.is_own && push.transfer == transfer) push.is_dropped = true;
}

}  // namespace folio::inline v1::tier
