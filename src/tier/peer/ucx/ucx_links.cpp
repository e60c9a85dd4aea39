// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/ucx_links.cpp: links to peers, and the frames that go over them.
#include <cstring>
#include <string_view>
#include <utility>

#include "tier/peer/bytes.h"
#include "tier/peer/ucx/ucx_wire.h"

namespace folio::inline v1::tier {

// ---- Links

UcxWire::Link* UcxWire::find(uint64_t connection) noexcept {
  for (Link& link : links_)
    if (link.connection == connection && link.state < Link::State::closing) return &link;
  return nullptr;
}

UcxWire::Link* UcxWire::link_to(PeerId peer) noexcept {
  for (Link& link : links_)
    if (link.peer == peer && link.state < Link::State::closing) return &link;
  return nullptr;
}

Status UcxWire::open_endpoint(Link& link, std::span<const std::byte> endpoint) {
  ByteReader reader(endpoint);
  const auto segment = reader.get_all<char>();
  const auto address = reader.get_all<std::byte>();
  if (!reader.is_at_end()) return protocol_fault("its address is of no worker");
  if (const std::string_view theirs(segment.data(), segment.size()); theirs != tcp_segment())
    return fail(Errc::io, "Transport: a peer has UCX_TCP_RX_SEG_SIZE={}, expected {} as here",
                theirs, tcp_segment());
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = &on_error, .arg = this};
  const ucs_status_t status = ucx_.ep_create(worker_, &params, &link.ep);
  if (status == UCS_OK) return {};
  link.ep = nullptr;
  return fault("no way to a peer", status);
}

void UcxWire::connect(PeerId peer, std::span<const std::byte> endpoint) noexcept {
  const auto number = random_end_id();
  if (!number) return book_.lost(peer, number.error());
  try {
    Link& link = links_.emplace_back();
    std::memcpy(&link.connection, number->data(), sizeof(link.connection));
    link.peer = peer;
    guard(link, [&]() -> Status {
      if (Status s = open_endpoint(link, endpoint); !s.is_ok()) return s;
      put_now(link, {.kind = FrameKind::hello, .bytes = encode(book_.address(address_))}, 0);
      return {};
    });
  } catch (const std::bad_alloc&) {
    book_.lost(peer, fail(Errc::out_of_memory, "Transport: no memory for a peer"));
  }
}

Status UcxWire::accept(uint64_t connection, const Frame& frame) {
  auto address = decode_address(frame.bytes, WireKind::ucx);
  if (!address) return address.error();
  // an end connects once; who does so again has closed what was there
  for (Link& old : links_)
    if (old.is_accepted && old.end == address->end)
      close(old, fail(Errc::io, "Transport: a peer has connected anew"), Farewell::none);
  const auto peer = book_.accepted(frame.bytes);
  Link& link = links_.emplace_back();
  link.connection = connection;
  link.end = address->end;
  link.is_accepted = true;
  link.state = Link::State::open;
  link.next_in = 1;
  if (peer) link.peer = *peer;
  guard(link, [&]() -> Status {
    if (Status s = open_endpoint(link, address->endpoint); !s.is_ok()) return s;
    put(link, peer ? Frame{.kind = FrameKind::welcome}
                   : Frame{.kind = FrameKind::refused, .bytes = bytes_of(peer.error().message())});
    return {};
  });
  return {};
}

void UcxWire::disconnect(PeerId peer) noexcept {
  Link* const link = link_to(peer);
  if (link != nullptr)
    close(*link, fail(Errc::io, "Transport: peer {} is given up", peer.value), Farewell::said);
}

// ---- The end of a link

void UcxWire::fail_link(Link& link, const Status& why) noexcept {
  if (!link.failed.is_ok()) return;
  link.failed = why;
  link.farewell = Farewell::said;
}

void UcxWire::close(Link& link, const Status& why, Farewell farewell) noexcept {
  if (link.state >= Link::State::closing) return;
  link.state = Link::State::closing;
  link.closing_since = Clock::now();
  link.why = why;
  link.sources.clear();
  for (const Link::Held& held : link.held) book_.left(link.peer, held.message_bytes);
  link.held.clear();
  if (farewell == Farewell::said && link.ep != nullptr) {
    try {
      put_now(link, {.kind = FrameKind::gone}, 0);
      ucp_request_param_t how = {};
      link.flush_request = ucx_.ep_flush_nbx(link.ep, &how);
    } catch (const std::bad_alloc&) {  // it hears of it otherwise
    }
  }
  if (!UCS_PTR_IS_PTR(link.flush_request)) force(link);
  if (link.peer == PeerId{}) return;
  book_.lost(link.peer, why);
  for (Link& other : links_)
    if (other.peer == link.peer) close(other, why, farewell);
}

void UcxWire::force(Link& link) noexcept {
  if (UCS_PTR_IS_PTR(link.flush_request)) ucx_.request_free(link.flush_request);
  link.flush_request = nullptr;
  if (link.ep == nullptr) return;
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  link.close_request = ucx_.ep_close_nbx(std::exchange(link.ep, nullptr), &how);
}

void UcxWire::move_on(Link& link) noexcept {
  constexpr auto patience = std::chrono::milliseconds(300);
  const auto is_pending = [&](void* request) {
    return UCS_PTR_IS_PTR(request) && ucx_.request_check_status(request) == UCS_INPROGRESS;
  };
  if (link.ep != nullptr && (!link.failed.is_ok() || !is_pending(link.flush_request) ||
                             Clock::now() - link.closing_since > patience))
    force(link);
  if (link.ep != nullptr || is_pending(link.close_request) || link.operations > 0) return;
  if (UCS_PTR_IS_PTR(link.close_request)) ucx_.request_free(link.close_request);
  link.close_request = nullptr;
  finish(link);
}

void UcxWire::finish(Link& link) noexcept {
  link.state = Link::State::closed;
  for (const auto& [key, flow] : link.flows) {
    book_.unpin(flow.runs);
    if (!key.is_own) continue;
    asked_.erase(TransferId{key.transfer});
    book_.ended(TransferId{key.transfer}, TransferState::failed, link.why);
  }
  link.flows.clear();
}

// ---- Frames

void UcxWire::put(Link& link, const Frame& frame, int64_t message_bytes) {
  if (link.state == Link::State::open) return put_now(link, frame, message_bytes);
  if (link.state == Link::State::greeting) {
    link.held.push_back({frame, message_bytes});
  } else {
    book_.left(link.peer, message_bytes);
  }
}

void UcxWire::put_now(Link& link, const Frame& frame, int64_t message_bytes) {
  auto operation = std::make_unique<Operation>();
  operation->wire = this;
  operation->link = &link;
  operation->kind = Operation::Kind::frame_out;
  operation->frame_header = {.connection = link.connection, .number = link.next_out};
  operation->bytes = message_bytes;
  operation->body = encode(frame);
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = &on_sent;
  how.user_data = operation.get();
  ++link.next_out;
  ++link.operations;
  link.sent = Clock::now();
  link.has_heard = false;
  const Operation& o = *operation;
  const ucs_status_ptr_t request =
      ucx_.am_send_nbx(link.ep, frame_message, &o.frame_header, sizeof(o.frame_header),
                       o.body.data(), o.body.size(), &how);
  started(std::move(operation), request);
}

void UcxWire::send(PeerId peer, std::vector<std::byte> message) noexcept {
  const auto bytes = static_cast<int64_t>(message.size());
  Link* const link = link_to(peer);
  if (link == nullptr) return book_.left(peer, bytes);
  guard(*link, [&]() -> Status {
    put(*link, {.kind = FrameKind::message, .bytes = std::move(message)}, bytes);
    return {};
  });
}

void UcxWire::take_all() noexcept {
  while (!arrived_.empty()) {
    Arrived arrived = std::move(arrived_.front());
    arrived_.pop_front();
    take(std::move(arrived));
  }
}

void UcxWire::take(Arrived arrived) noexcept {
  constexpr size_t most_early = 4096;
  Link* const link = find(arrived.header.connection);
  if (link == nullptr) {
    if (arrived.header.number != 0) return;
    try {
      const auto frame = decode_frame(arrived.body);
      if (frame && frame->kind == FrameKind::hello) (void)accept(arrived.header.connection, *frame);
    } catch (const std::bad_alloc&) {  // it waits for an answer in vain
    }
    return;
  }
  guard(*link, [&]() -> Status {
    if (arrived.header.number < link->next_in || link->early.size() > most_early)
      return fail(Errc::io, "Transport: a peer breaks the protocol: frame {} where {} is next",
                  arrived.header.number, link->next_in);
    link->early[arrived.header.number] = std::move(arrived.body);
    while (!link->early.empty() && link->early.begin()->first == link->next_in &&
           link->state < Link::State::closing && link->failed.is_ok()) {
      const std::vector<std::byte> body = std::move(link->early.begin()->second);
      link->early.erase(link->early.begin());
      ++link->next_in;
      auto frame = decode_frame(body);
      if (!frame) return frame.error();
      if (Status s = on_frame(*link, std::move(*frame)); !s.is_ok()) return s;
    }
    return {};
  });
}

}  // namespace folio::inline v1::tier
