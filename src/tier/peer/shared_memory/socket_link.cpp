// SPDX-License-Identifier: Apache-2.0
/// src/tier/peer/shared_memory/socket_link.cpp: local sockets between the processes of one host.
#include "tier/peer/shared_memory/socket_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace folio::inline v1::tier {
namespace {

Status fault(const char* what) {
  return fail(Errc::io, "Transport: {}: {}", what, std::strerror(errno));
}

/// `folio.` and the name in hexadecimal digits, in the abstract name space.
socklen_t address_of(std::span<const uint8_t> name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  constexpr const char* digits = "0123456789abcdef";
  constexpr const char prefix[] = "folio.";
  char* at = address->sun_path + 1;
  std::memcpy(at, prefix, sizeof(prefix) - 1);
  at += sizeof(prefix) - 1;
  for (const uint8_t byte : name) {
    *at++ = digits[byte >> 4];
    *at++ = digits[byte & 15];
  }
  return static_cast<socklen_t>(at - reinterpret_cast<char*>(address));
}

Descriptor make_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

// ---- Out

void SocketLink::put(const Frame& frame, int64_t message_bytes) {
  std::vector<std::byte> body = encode(frame);
  const uint64_t size = body.size();
  const auto* const length = reinterpret_cast<const std::byte*>(&size);
  body.insert(body.begin(), length, length + sizeof(size));
  output_.push_back({std::move(body), message_bytes});
}

Status SocketLink::flush(int64_t* message_bytes) noexcept {
  while (!output_.empty()) {
    const Output& first = output_.front();
    const ssize_t sent = ::send(socket_.get(), first.bytes.data() + written_,
                                first.bytes.size() - written_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (sent < 0) return fault("a peer cannot be written to");
    written_ += static_cast<size_t>(sent);
    if (written_ < first.bytes.size()) continue;
    *message_bytes += first.message_bytes;
    output_.pop_front();
    written_ = 0;
  }
  return {};
}

int64_t SocketLink::queued_message_bytes() const noexcept {
  int64_t bytes = 0;
  for (const Output& output : output_) bytes += output.message_bytes;
  return bytes;
}

// ---- In

Status SocketLink::fill() noexcept {
  constexpr size_t step = size_t{64} << 10;
  try {
    if (taken_ > 0) input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(taken_));
    taken_ = 0;
    const size_t before = input_.size();
    input_.resize(before + step);
    const ssize_t got = ::recv(socket_.get(), input_.data() + before, step, 0);
    input_.resize(before + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) return fail(Errc::io, "Transport: a peer has closed its connection");
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      return fault("a peer cannot be read from");
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport: no memory for what a peer sends");
  }
}

Result<Frame> SocketLink::take(bool* is_there) noexcept {
  *is_there = false;
  uint64_t size = 0;
  const auto rest = std::span<const std::byte>(input_).subspan(taken_);
  if (rest.size() < sizeof(size)) return Frame{};
  std::memcpy(&size, rest.data(), sizeof(size));
  if (size > static_cast<uint64_t>(max_frame_bytes_))
    return fail(Errc::io, "Transport: a peer sends a frame of {} bytes, expected at most {}", size,
                max_frame_bytes_);
  if (rest.size() - sizeof(size) < size) return Frame{};
  *is_there = true;
  taken_ += sizeof(size) + static_cast<size_t>(size);
  try {
    return decode_frame(rest.subspan(sizeof(size), static_cast<size_t>(size)));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport: no memory for a frame of {} bytes", size);
  }
}

// ---- The other side

bool SocketLink::is_hung_up() const noexcept {
  pollfd entry{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) < 0 || entry.revents != 0;
}

pid_t SocketLink::process() const noexcept {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  const int rc = ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes);
  return rc == 0 ? credentials.pid : 0;
}

bool SocketLink::is_same_user() const noexcept {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  const int rc = ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes);
  return rc == 0 && credentials.uid == ::geteuid();
}

Result<Descriptor> listen_at(std::span<const uint8_t> name) noexcept {
  sockaddr_un address;
  const socklen_t bytes = address_of(name, &address);
  Descriptor socket = make_socket();
  constexpr int backlog = 128;
  if (socket.get() < 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::listen(socket.get(), backlog) != 0)
    return fault("no local socket to be had");
  return socket;
}

Result<Descriptor> connect_to(std::span<const uint8_t> name) noexcept {
  sockaddr_un address;
  const socklen_t bytes = address_of(name, &address);
  Descriptor socket = make_socket();
  if (socket.get() < 0 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    return fault("the peer is not there");
  return socket;
}

}  // namespace folio::inline v1::tier
