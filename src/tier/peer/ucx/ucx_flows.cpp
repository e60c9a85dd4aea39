// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/ucx_flows.cpp: transfers: what is asked, granted, moved and ended.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tier/peer/ucx/ucx_wire.h"

namespace folio::inline v1::tier {
namespace {

constexpr unsigned data_message = 2;
constexpr uint32_t most_sends = 16;         ///< of a link, with UCX
constexpr int64_t most_at_once = 16 << 20;  ///< bytes of a message
constexpr int64_t least_alone = 8 << 10;    ///< shorter runs share a message
constexpr int64_t most_together = 64 << 10;

Status protocol_fault(const char* what) {
  return fail(Errc::io, "Transport: a peer breaks the protocol: {}", what);
}

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

/// Where the run ends that has `at`.
int64_t end_of_run(const std::vector<int64_t>& starts, int64_t bytes, int64_t at) {
  const auto next = std::upper_bound(starts.begin(), starts.end(), at);
  return next == starts.end() ? bytes : *next;
}

/// Calls `part(memory, bytes)` for [offset, offset + bytes) of what the extents make.
template <class Part>
void for_parts(std::span<const Extent> memory, const std::vector<int64_t>& starts, int64_t offset,
               int64_t bytes, Part part) {
  auto i =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) -
      1;
  while (bytes > 0) {
    const int64_t within = offset - starts[i];
    const int64_t count = std::min(bytes, memory[i].bytes - within);
    part(memory[i].data + within, count);
    offset += count;
    bytes -= count;
    ++i;
  }
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
  if (Status s = book_.pin(frame.runs, &flow.memory); !s.is_ok()) {
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

void UcxWire::ended(Operation& operation, ucs_status_t status) noexcept {
  using Kind = Operation::Kind;
  Link* const link = operation.link;
  if (link != nullptr) --link->operations;
  if (operation.kind == Kind::frame_out) {
    book_.left(link->peer, operation.bytes);
  } else if (operation.kind == Kind::frame_in && status == UCS_OK) {
    try {
      arrived_.push_back({operation.frame_header, std::move(operation.body)});
    } catch (const std::bad_alloc&) {
      status = UCS_ERR_NO_MEMORY;
    }
  }
  if (link == nullptr) return;
  if (status != UCS_OK && link->failed.is_ok()) link->failed = fault("a message is lost", status);
  if (operation.kind == Kind::frame_out || operation.kind == Kind::frame_in) return;
  if (operation.kind == Kind::data_out) --link->sends;
  Flow& flow = link->flows.at(operation.flow);  // which stays while it has operations
  --flow.operations;
  if (status != UCS_OK) return;
  if (operation.kind == Kind::data_in) {
    const std::byte* from = operation.body.data();
    if (!operation.body.empty())
      for_parts(flow.memory, flow.starts, operation.data_header.offset, operation.bytes,
                [&](std::byte* to, int64_t bytes) {
                  std::memcpy(to, from, static_cast<size_t>(bytes));
                  from += bytes;
                });
    flow.moved += operation.bytes;
  }
  book_.heard(link->peer);
  guard(*link, [&] { return settle(*link, operation.flow); });
}

// ---- Bytes

bool UcxWire::pump(Link& link) noexcept {
  bool has_sent = false;
  while (link.sends < most_sends && !link.sources.empty() && link.state == Link::State::open &&
         link.failed.is_ok()) {
    has_sent = true;
    guard(link, [&] {
      const FlowKey key = link.sources.front();
      Flow& flow = link.flows.at(key);
      return send_some(link, key, flow);
    });
  }
  // a peer that waits long for the end of what comes in pieces hears that somebody is there
  if (link.state == Link::State::open && link.has_heard &&
      Clock::now() - link.sent > std::chrono::milliseconds(100))
    guard(link, [&]() -> Status {
      put(link, {.kind = FrameKind::alive});
      return {};
    });
  return has_sent;
}

Status UcxWire::send_some(Link& link, FlowKey key, Flow& flow) {
  const auto run_at = [&](int64_t at) {
    int64_t end = end_of_run(flow.starts, flow.bytes, at);
    if (!flow.remote_starts.empty())
      end = std::min(end, end_of_run(flow.remote_starts, flow.bytes, at));
    return end - at;
  };
  auto operation = std::make_unique<Operation>();
  operation->wire = this;
  operation->link = &link;
  operation->kind = Operation::Kind::data_out;
  operation->flow = key;
  operation->data_header = {.connection = link.connection,
                            .transfer = key.transfer,
                            .offset = flow.moved,
                            .is_of_asker = static_cast<uint8_t>(key.is_own)};
  std::byte* from = nullptr;
  int64_t bytes = std::min(run_at(flow.moved), most_at_once);
  if (bytes >= least_alone || bytes == flow.bytes - flow.moved) {
    for_parts(flow.memory, flow.starts, flow.moved, 1, [&](std::byte* at, int64_t) { from = at; });
  } else {
    // short runs, up to one that goes alone
    while (flow.moved + bytes < flow.bytes) {
      const int64_t next = run_at(flow.moved + bytes);
      if (next >= least_alone || bytes + next > most_together) break;
      bytes += next;
    }
    operation->body.reserve(static_cast<size_t>(bytes));
    for_parts(flow.memory, flow.starts, flow.moved, bytes, [&](const std::byte* at, int64_t count) {
      operation->body.insert(operation->body.end(), at, at + count);
    });
    from = operation->body.data();
  }
  operation->bytes = bytes;
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = &on_sent;
  how.user_data = operation.get();
  flow.moved += bytes;
  ++flow.operations;
  ++link.operations;
  ++link.sends;
  if (flow.moved == flow.bytes) link.sources.pop_front();
  const Operation& o = *operation;
  const ucs_status_ptr_t request =
      ucx_.am_send_nbx(link.ep, data_message, &o.data_header, sizeof(o.data_header), from,
                       static_cast<size_t>(bytes), &how);
  started(std::move(operation), request);
  return {};
}

ucs_status_t UcxWire::receive(Link& link, const DataHeader& header, void* data, size_t size,
                              bool is_descriptor) noexcept {
  const FlowKey key{.is_own = header.is_of_asker == 0, .transfer = header.transfer};
  const auto found = link.flows.find(key);
  book_.heard(link.peer);
  link.has_heard = true;
  if (found == link.flows.end() || found->second.is_dropped) return UCS_OK;
  Flow& flow = found->second;
  const auto bytes = static_cast<int64_t>(size);
  if (flow.is_source || flow.is_over || bytes < 1 || header.offset < 0 ||
      header.offset > flow.bytes || bytes > flow.bytes - header.offset ||
      bytes > flow.bytes - flow.moved) {
    link.failed = protocol_fault("bytes that nobody asked for");
    return UCS_OK;
  }
  if (!is_descriptor) {
    const auto* from = static_cast<const std::byte*>(data);
    for_parts(flow.memory, flow.starts, header.offset, bytes, [&](std::byte* to, int64_t count) {
      std::memcpy(to, from, static_cast<size_t>(count));
      from += count;
    });
    flow.moved += bytes;
    guard(link, [&] { return settle(link, key); });
    return UCS_OK;
  }
  guard(link, [&]() -> Status {
    auto operation = std::make_unique<Operation>();
    operation->wire = this;
    operation->link = &link;
    operation->kind = Operation::Kind::data_in;
    operation->flow = key;
    operation->data_header = header;
    operation->bytes = bytes;
    void* to = nullptr;
    if (bytes <= end_of_run(flow.starts, flow.bytes, header.offset) - header.offset) {
      for_parts(flow.memory, flow.starts, header.offset, 1,
                [&](std::byte* at, int64_t) { to = at; });
    } else {
      operation->body.resize(size);
      to = operation->body.data();
    }
    ucp_request_param_t how = {};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.cb.recv_am = &on_received;
    how.user_data = operation.get();
    ++flow.operations;
    ++link.operations;
    started(std::move(operation), ucx_.am_recv_data_nbx(worker_, data, to, size, &how));
    return {};
  });
  return UCS_INPROGRESS;
}

}  // namespace folio::inline v1::tier
