// SPDX-License-Identifier: Apache-2.0
/// tier/peer/shared_memory/shared_memory_protocol.cpp: frames, and bytes that are copied.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "tier/peer/shared_memory/shared_memory_wire.h"

namespace folio::inline v1::tier {
namespace {

/// Copies from memory of a process.
Status copy(pid_t process, std::span<const iovec> here, std::span<const iovec> there,
            int64_t bytes) {
  const ssize_t got =
      ::process_vm_readv(process, here.data(), here.size(), there.data(), there.size(), 0);
  if (got == bytes) return {};
  return fail(Errc::io, "Transport: process {} cannot be read from: {} of {} bytes: {}", process,
              static_cast<int64_t>(got), bytes, got < 0 ? std::strerror(errno) : "no more");
}

}  // namespace

// ---- Acquaintance

Extent SharedMemoryWire::own_end() const noexcept {
  auto* const end = const_cast<uint8_t*>(book_.end().data());  // others read it
  return {reinterpret_cast<std::byte*>(end), static_cast<int64_t>(book_.end().size())};
}

Status SharedMemoryWire::check_process(Link& link, const Frame& frame, const EndId& end) noexcept {
  EndId seen = {};
  if (frame.extents.size() != 1 || frame.extents[0].bytes != static_cast<int64_t>(seen.size()))
    return protocol_fault("it does not say where its end is");
  if (link.process <= 0)
    return fail(Errc::io, "Transport: a peer is in another name space of processes");
  const iovec here{.iov_base = seen.data(), .iov_len = seen.size()};
  const iovec there{.iov_base = frame.extents[0].data, .iov_len = seen.size()};
  if (Status s = copy(link.process, {&here, 1}, {&there, 1}, static_cast<int64_t>(seen.size()));
      !s.is_ok())
    return s;
  return seen == end ? Status() : protocol_fault("it is not who it says");
}

Status SharedMemoryWire::on_hello(Link& link, const Frame& frame) {
  Status s = welcome(link, frame);
  if (!s.is_ok()) put(link, {.kind = FrameKind::refused, .bytes = bytes_of(s.message())});
  return s;
}

Status SharedMemoryWire::welcome(Link& link, const Frame& frame) {
  if (link.state != Link::State::unknown) return protocol_fault("it connects twice");
  const auto address = decode_address(frame.bytes, WireKind::shared_memory);
  if (!address) return address.error();
  if (Status s = check_process(link, frame, address->end); !s.is_ok()) return s;
  // an earlier connection of that end, which it has closed, is over first
  for (Link& other : links_)
    while (other.state == Link::State::open && other.socket.is_hung_up()) read(other);
  const auto peer = book_.accepted(frame.bytes);
  if (!peer) return peer.error();
  link.peer = *peer;
  link.state = Link::State::open;
  by_peer_.emplace(*peer, &link);
  put(link, {.kind = FrameKind::welcome, .extents = {own_end()}});
  return {};
}

Status SharedMemoryWire::on_frame(Link& link, Frame frame) {
  if (frame.kind == FrameKind::hello) return on_hello(link, frame);
  if (link.state == Link::State::unknown) return protocol_fault("it does not say who it is");
  book_.heard(link.peer);
  if (frame.kind == FrameKind::refused)
    return fail(Errc::io, "Transport: a peer refuses: {}", text_of(frame.bytes));
  if (link.state == Link::State::greeting) {
    if (frame.kind != FrameKind::welcome) return protocol_fault("it does not welcome");
    if (Status s = check_process(link, frame, link.end); !s.is_ok()) return s;
    link.state = Link::State::open;
    book_.connected(link.peer);
    return {};
  }
  switch (frame.kind) {
    case FrameKind::message: return book_.arrived(link.peer, frame.bytes);
    case FrameKind::write: return on_write(link, std::move(frame));
    case FrameKind::read: return on_read(link, std::move(frame));
    case FrameKind::granted: return on_granted(link, std::move(frame));
    case FrameKind::ended: return on_ended(link, frame);
    case FrameKind::fetched: return on_fetched(link, frame);
    case FrameKind::dropped: on_dropped(link, frame.transfer); return {};
    case FrameKind::alive: return {};
    default: return protocol_fault("it welcomes twice");
  }
}

// ---- What peers ask for

Status SharedMemoryWire::on_write(Link& link, Frame frame) {
  const int64_t bytes = sum_of(frame.runs);
  if (bytes < 1 || bytes != sum_of(frame.extents)) return protocol_fault("sums that differ");
  Job job{.transfer = frame.transfer,
          .there = std::move(frame.extents),
          .message = std::move(frame.bytes)};
  if (Status s = book_.pin(link.peer, frame.runs, &job.here); !s.is_ok()) {
    if (s.code() == Errc::io) return {};
    put(link, {.kind = FrameKind::ended,
               .outcome = TransferState::failed,
               .transfer = frame.transfer,
               .bytes = bytes_of(s.message())});
    return {};
  }
  job.runs = std::move(frame.runs);
  job.pieces = Pieces(job.here, job.there);
  try {
    link.jobs.push_back(std::move(job));
  } catch (...) {
    book_.unpin(job.runs);
    throw;
  }
  return {};
}

Status SharedMemoryWire::on_read(Link& link, Frame frame) {
  constexpr size_t most_lent = size_t{1} << 16;
  if (sum_of(frame.runs) < 1 || link.lent.contains(frame.transfer) || link.lent.size() >= most_lent)
    return protocol_fault("a read that cannot be");
  auto& lent = link.lent[frame.transfer];
  Frame answer{.kind = FrameKind::granted, .transfer = frame.transfer};
  if (Status s = book_.pin(link.peer, frame.runs, &answer.extents); s.is_ok()) {
    lent = std::move(frame.runs);
  } else {
    link.lent.erase(frame.transfer);
    if (s.code() == Errc::io) return {};
    answer.kind = FrameKind::ended;
    answer.outcome = TransferState::failed;
    answer.bytes = bytes_of(s.message());
  }
  put(link, answer);
  return {};
}

Status SharedMemoryWire::on_fetched(Link& link, const Frame& frame) {
  const auto found = link.lent.find(frame.transfer);
  if (found == link.lent.end()) return protocol_fault("it has read what it was not given");
  book_.unpin(found->second);
  link.lent.erase(found);
  return frame.bytes.empty() ? Status() : book_.arrived(link.peer, frame.bytes);
}

void SharedMemoryWire::on_dropped(Link& link, uint64_t transfer) {
  if (const auto found = link.lent.find(transfer); found != link.lent.end()) {
    book_.unpin(found->second);
    link.lent.erase(found);
  }
  const auto job = std::find_if(link.jobs.begin(), link.jobs.end(),
                                [&](const Job& j) { return !j.is_own && j.transfer == transfer; });
  if (job == link.jobs.end()) return;  // it has ended, and that has been said
  book_.unpin(job->runs);
  link.jobs.erase(job);
  put(link, {.kind = FrameKind::ended, .outcome = TransferState::cancelled, .transfer = transfer});
}

// ---- What this end asks for

void SharedMemoryWire::post(const TransferRecord& transfer) noexcept {
  Link* const link = link_to(transfer.peer);
  if (link == nullptr)
    return book_.ended(transfer.id, TransferState::failed,
                       fail(Errc::io, "Transport: peer {} is lost", transfer.peer.value));
  const bool is_write = transfer.direction == TransferDirection::write;
  try {
    asked_[transfer.id] = {.transfer = &transfer, .link = link};
  } catch (const std::bad_alloc&) {
    return book_.ended(transfer.id, TransferState::failed,
                       fail(Errc::out_of_memory, "Transport: no memory for a transfer"));
  }
  guard(*link, [&]() -> Status {
    Frame frame{.kind = is_write ? FrameKind::write : FrameKind::read,
                .transfer = transfer.id.value,
                .runs = transfer.remote};
    if (is_write) {
      frame.extents = transfer.memory;
      frame.bytes = transfer.message;
    }
    put(*link, frame);
    return {};
  });
}

void SharedMemoryWire::cancel(TransferId transfer) noexcept {
  const auto found = asked_.find(transfer);
  if (found == asked_.end()) return;
  Link& link = *found->second.link;
  guard(link, [&]() -> Status {
    put(link, {.kind = FrameKind::dropped, .transfer = transfer.value});
    return {};
  });
  // a write ends when the peer says that it does not copy any more; a read is this end's alone
  const auto still = asked_.find(transfer);
  if (still == asked_.end() || still->second.transfer->direction == TransferDirection::write)
    return;
  std::erase_if(link.jobs,
                [&](const Job& job) { return job.is_own && job.transfer == transfer.value; });
  asked_.erase(still);
  book_.ended(transfer, TransferState::cancelled);
}

void SharedMemoryWire::send(PeerId peer, std::vector<std::byte> message) noexcept {
  const auto bytes = static_cast<int64_t>(message.size());
  Link* const link = link_to(peer);
  if (link == nullptr) return book_.left(peer, bytes);
  guard(*link, [&]() -> Status {
    put(*link, {.kind = FrameKind::message, .bytes = std::move(message)}, bytes);
    return {};
  });
}

Status SharedMemoryWire::on_granted(Link& link, Frame frame) {
  const auto found = asked_.find(TransferId{frame.transfer});
  if (found == asked_.end()) return {};  // it was cancelled
  Asked& asked = found->second;
  const TransferRecord& transfer = *asked.transfer;
  if (asked.link != &link || asked.is_granted || transfer.direction != TransferDirection::read ||
      sum_of(frame.extents) != transfer.bytes)
    return protocol_fault("it gives what was not asked for");
  asked.is_granted = true;
  Job job{.transfer = frame.transfer,
          .is_own = true,
          .here = transfer.memory,
          .there = std::move(frame.extents)};
  job.pieces = Pieces(job.here, job.there);
  link.jobs.push_back(std::move(job));
  return {};
}

Status SharedMemoryWire::on_ended(Link& link, const Frame& frame) {
  const auto found = asked_.find(TransferId{frame.transfer});
  if (found == asked_.end()) return {};
  const bool is_write = found->second.transfer->direction == TransferDirection::write;
  const bool can_be =
      is_write ? frame.outcome != TransferState::pending : frame.outcome == TransferState::failed;
  if (found->second.link != &link || found->second.is_granted || !can_be)
    return protocol_fault("it ends what it cannot end");
  asked_.erase(found);
  book_.ended(TransferId{frame.transfer}, frame.outcome,
              fail(Errc::io, "Transport: a peer says: {}", text_of(frame.bytes)));
  return {};
}

// ---- Bytes

Status SharedMemoryWire::copy_some(Link& link) {
  constexpr int64_t most_bytes = int64_t{4} << 20;
  constexpr size_t most_pieces = 512;
  Job& job = link.jobs.front();
  std::array<iovec, most_pieces> here, there;
  size_t count = 0;
  int64_t bytes = 0;
  while (count < most_pieces && bytes < most_bytes && !job.pieces.is_at_end()) {
    const Piece piece = job.pieces.next(most_bytes - bytes);
    here[count] = {.iov_base = piece.here, .iov_len = static_cast<size_t>(piece.bytes)};
    there[count] = {.iov_base = piece.there, .iov_len = static_cast<size_t>(piece.bytes)};
    bytes += piece.bytes;
    ++count;
  }
  if (Status s =
          copy(link.process, std::span(here).first(count), std::span(there).first(count), bytes);
      !s.is_ok())
    return s;
  book_.heard(link.peer);
  if (job.pieces.is_at_end()) return finish(link);
  if (Clock::now() - link.sent > std::chrono::milliseconds(100))
    put(link, {.kind = FrameKind::alive});
  return {};
}

Status SharedMemoryWire::finish(Link& link) {
  if (link.socket.is_hung_up())
    return fail(Errc::io, "Transport: a peer has gone while its memory was read");
  Job job = std::move(link.jobs.front());
  link.jobs.pop_front();
  watch(link);
  const TransferId id{job.transfer};
  if (job.is_own) {
    Frame frame{.kind = FrameKind::fetched, .transfer = job.transfer};
    frame.bytes = asked_.at(id).transfer->message;
    asked_.erase(id);
    put(link, frame);
    book_.ended(id, TransferState::done);
    return {};
  }
  book_.unpin(job.runs);
  if (!job.message.empty())
    if (Status s = book_.arrived(link.peer, job.message); !s.is_ok()) return s;
  put(link, {.kind = FrameKind::ended, .transfer = job.transfer});
  return {};
}

void SharedMemoryWire::put(Link& link, const Frame& frame, int64_t message_bytes) {
  if (link.state == Link::State::closed) return book_.left(link.peer, message_bytes);
  link.socket.put(frame, message_bytes);
  link.sent = Clock::now();
  flush(link);
}

}  // namespace folio::inline v1::tier
