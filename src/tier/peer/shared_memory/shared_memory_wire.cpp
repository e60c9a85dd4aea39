// SPDX-License-Identifier: Apache-2.0
/// tier/peer/shared_memory/shared_memory_wire.cpp: connections; what goes over them is in
/// shared_memory_protocol.cpp.
#include "tier/peer/shared_memory/shared_memory_wire.h"

#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "folio/tier/transports.h"
#include "tier/peer/booked_transport.h"
#include "tier/peer/bytes.h"

namespace folio::inline v1::tier {

// ---- Beginning and end

Status SharedMemoryWire::open() noexcept {
  auto listener = listen_at(book_.end());
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  poller_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event on_listener{.events = EPOLLIN, .data = {.ptr = &listener_}};
  epoll_event on_waker{.events = EPOLLIN, .data = {.ptr = &waker_}};
  if (poller_.get() < 0 || waker_.get() < 0 ||
      ::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, listener_.get(), &on_listener) != 0 ||
      ::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, waker_.get(), &on_waker) != 0)
    return fail(Errc::io, "Transport: the system gives no poller: {}", std::strerror(errno));
  return {};
}

SharedMemoryWire::~SharedMemoryWire() {
  for (Link& link : links_) flush(link);  // what was sent last, as far as the socket takes it
  for (Link& link : links_) close(link, fail(Errc::io, "Transport: this end is destroyed"));
}

std::vector<std::byte> SharedMemoryWire::endpoint() const {
  ByteWriter writer;
  writer.put(book_.end());
  return std::move(writer.bytes());
}

// ---- Links

SharedMemoryWire::Link* SharedMemoryWire::add(SocketLink socket, Link::State state) noexcept {
  try {
    Link& link = links_.emplace_back(std::move(socket));
    link.state = state;
    link.process = link.socket.process();
    link.watched = EPOLLIN;
    epoll_event event{.events = link.watched, .data = {.ptr = &link}};
    if (::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, link.socket.fd(), &event) == 0) return &link;
    links_.pop_back();
  } catch (const std::bad_alloc&) {  // as if the system had no more
  }
  return nullptr;
}

void SharedMemoryWire::accept_all() noexcept {
  const size_t most = size_t{2} * book_.options().max_peers + 16;
  for (;;) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) return;
    SocketLink link(std::move(socket), max_frame_bytes(book_.options()));
    if (links_.size() < most && link.is_same_user())
      (void)add(std::move(link), Link::State::unknown);
  }
}

SharedMemoryWire::Link* SharedMemoryWire::link_to(PeerId peer) noexcept {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : found->second;
}

void SharedMemoryWire::connect(PeerId peer, std::span<const std::byte> endpoint) noexcept {
  ByteReader reader(endpoint);
  const auto end = reader.get<EndId>();
  if (!reader.is_at_end())
    return book_.lost(peer, fail(Errc::io, "Transport: peer {} has no socket", peer.value));
  auto socket = connect_to(end);
  if (!socket) return book_.lost(peer, socket.error());
  Link* const link =
      add(SocketLink(std::move(*socket), max_frame_bytes(book_.options())), Link::State::greeting);
  if (link == nullptr)
    return book_.lost(peer, fail(Errc::io, "Transport: no more connections to be had"));
  link->peer = peer;
  link->end = end;
  guard(*link, [&]() -> Status {
    if (!link->socket.is_same_user())
      return fail(Errc::io, "Transport: peer {} is another user's", peer.value);
    by_peer_[peer] = link;
    put(*link, {.kind = FrameKind::hello,
                .extents = {own_end()},
                .bytes = encode(book_.address(this->endpoint()))});
    return {};
  });
}

void SharedMemoryWire::disconnect(PeerId peer) noexcept {
  Link* const link = link_to(peer);
  if (link != nullptr) close(*link, fail(Errc::io, "Transport: peer {} is given up", peer.value));
}

void SharedMemoryWire::close(Link& link, const Status& why) noexcept {
  if (link.state == Link::State::closed) return;
  link.state = Link::State::closed;
  // in this order: while the socket stands, the other side takes what it reads here for ours. A
  // child between fork and exec has it, too: closing alone would end neither events nor connection
  (void)::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, link.socket.fd(), nullptr);
  (void)::shutdown(link.socket.fd(), SHUT_RDWR);
  link.socket.close();
  for (auto at = asked_.begin(); at != asked_.end();) {
    const TransferRecord& transfer = *at->second.transfer;
    if (at->second.link != &link) {
      ++at;
      continue;
    }
    at = asked_.erase(at);
    book_.ended(transfer.id, TransferState::failed, why);
  }
  book_.left(link.peer, link.socket.queued_message_bytes());
  for (const Job& job : link.jobs) book_.unpin(job.runs);
  for (const auto& [id, runs] : link.lent) book_.unpin(runs);
  link.jobs.clear();
  link.lent.clear();
  by_peer_.erase(link.peer);
  if (link.peer == PeerId{}) return;
  book_.lost(link.peer, why);
  for (Link& other : links_)
    if (other.peer == link.peer) close(other, why);
}

void SharedMemoryWire::erase_closed() noexcept {
  links_.remove_if([](const Link& link) { return link.state == Link::State::closed; });
}

// ---- Work

void SharedMemoryWire::wait(int64_t milliseconds) noexcept {
  num_events_ = ::epoll_wait(poller_.get(), events_.data(), static_cast<int>(events_.size()),
                             static_cast<int>(milliseconds));
}

bool SharedMemoryWire::progress() noexcept {
  if (num_events_ <= 0) wait(0);
  const int count = std::exchange(num_events_, 0);
  for (int i = 0; i < count; ++i) {
    void* const about = events_[static_cast<size_t>(i)].data.ptr;
    if (about == &listener_) {
      accept_all();
    } else if (about == &waker_) {
      waker_.clear();
    } else {
      on_event(*static_cast<Link*>(about), events_[static_cast<size_t>(i)].events);
    }
  }
  bool is_busy = count > 0;
  const auto patience = std::chrono::milliseconds(book_.options().timeout_ms);
  for (Link& link : links_) {
    if (!link.jobs.empty()) {
      is_busy = true;
      guard(link, [&] { return copy_some(link); });
    }
    if (link.state == Link::State::unknown && Clock::now() - link.opened > patience)
      close(link, fail(Errc::io, "Transport: somebody connected and said nothing"));
  }
  erase_closed();
  return is_busy;
}

void SharedMemoryWire::on_event(Link& link, uint32_t events) noexcept {
  if (link.state == Link::State::closed) return;
  if ((events & EPOLLOUT) != 0) flush(link);
  if (link.state == Link::State::closed) return;
  const bool is_reading = (link.watched & EPOLLIN) != 0;
  if (is_reading && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    read(link);
  } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    close(link, fail(Errc::io, "Transport: a peer has closed its connection"));
  }
}

void SharedMemoryWire::read(Link& link) noexcept {
  const Status filled = link.socket.fill();
  while (link.state != Link::State::closed) {
    bool is_there = false;
    auto frame = link.socket.take(&is_there);
    if (!frame) return close(link, frame.error());
    if (!is_there) break;
    guard(link, [&] { return on_frame(link, std::move(*frame)); });
  }
  if (!filled.is_ok()) close(link, filled);
  watch(link);
}

/// A peer that asks for much more than is copied waits with what it says next.
void SharedMemoryWire::watch(Link& link) noexcept {
  constexpr size_t most_jobs = 4096;
  if (link.state == Link::State::closed) return;
  uint32_t events = link.jobs.size() < most_jobs ? EPOLLIN : 0U;
  if (link.socket.has_output()) events |= EPOLLOUT;
  if (events == link.watched) return;
  epoll_event event{.events = link.watched = events, .data = {.ptr = &link}};
  (void)::epoll_ctl(poller_.get(), EPOLL_CTL_MOD, link.socket.fd(), &event);
}

void SharedMemoryWire::flush(Link& link) noexcept {
  if (link.state == Link::State::closed) return;
  int64_t message_bytes = 0;
  const Status s = link.socket.flush(&message_bytes);
  book_.left(link.peer, message_bytes);
  if (!s.is_ok()) return close(link, s);
  watch(link);
}

}  // namespace folio::inline v1::tier

namespace folio::inline v1::tier {

Result<std::unique_ptr<Transport>> make_shared_memory_transport(
    const TransportOptions& options, const SharedMemoryOptions& memory) noexcept {
  if (Status s = tier::check_options(options); !s.is_ok()) return s;
  if (memory.access > ReadAccess::same_user)
    return fail(Errc::invalid_argument,
                "make_shared_memory_transport: access is {}, expected as_system_says or same_user",
                static_cast<int>(memory.access));
  const auto id = tier::random_end_id();
  if (!id) return id.error();
  try {
    auto book = std::make_unique<tier::Book>(options, tier::WireKind::shared_memory, *id);
    auto wire = std::make_unique<tier::SharedMemoryWire>(*book);
    if (Status s = wire->open(); !s.is_ok()) return s;
    // refused where the system has no such rule, and nothing is needed then
    if (memory.access == ReadAccess::same_user) (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    return std::unique_ptr<Transport>(std::make_unique<tier::BookedTransport>(
        std::move(book), std::move(wire), tier::BookedTransport::Work::by_thread));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_shared_memory_transport: no memory");
  } catch (const std::system_error& e) {
    return fail(Errc::io, "make_shared_memory_transport: no thread to be had: {}", e.what());
  }
}

}  // namespace folio::inline v1::tier
