// SPDX-License-Identifier: Apache-2.0
/// tier/redis/stream.cpp: sockets as the kernel has them.
#include "tier/redis/stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

namespace folio::inline v1::tier::redis {
namespace {

Status closed() { return fail(Errc::io, "the server has closed the connection"); }

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket socket) noexcept : socket_(std::move(socket)) {}

  Result<size_t> read(std::span<const iovec> to) noexcept override {
    msghdr message = message_of(to);
    const ssize_t got = recvmsg(socket_.fd(), &message, 0);
    if (got == 0) return closed();
    return counted(got, "cannot receive");
  }
  Result<size_t> write(std::span<const iovec> from) noexcept override {
    const msghdr message = message_of(from);
    return counted(sendmsg(socket_.fd(), &message, MSG_NOSIGNAL), "cannot send");
  }
  Status wait(Until until, Clock::time_point deadline) noexcept override {
    return wait_for(socket_.fd(),
                    until == Until::readable ? POLLIN : static_cast<short>(POLLIN | POLLOUT),
                    deadline);
  }

 private:
  static msghdr message_of(std::span<const iovec> runs) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(runs.data());  // the call's type has no const
    message.msg_iovlen = runs.size();
    return message;
  }
  static Result<size_t> counted(ssize_t bytes, const char* what) {
    if (bytes >= 0) return static_cast<size_t>(bytes);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return size_t{0};
    return failed(what, errno);
  }

  Socket socket_;
};

/// Which says nothing of the server.
Status no_socket(int error) {
  return fail(Errc::out_of_memory, "no socket to be had: {}", std::strerror(error));
}

/// Begins to connect and waits for the end of it.
Result<Socket> connect_to(const sockaddr* to, socklen_t bytes, int family,
                          Clock::time_point deadline) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return no_socket(errno);
  if (::connect(socket.fd(), to, bytes) != 0) {
    if (errno != EINPROGRESS) return failed("cannot connect", errno);
    if (Status s = wait_for(socket.fd(), POLLOUT, deadline); !s.is_ok()) return s;
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return failed("cannot connect", error);
  }
  return socket;
}

Result<Socket> connect_to_path(const std::string& path, Clock::time_point deadline) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof(to.sun_path))
    return fail(Errc::io, "a path of {} bytes, at most {} can be connected to", path.size(),
                sizeof(to.sun_path) - 1);
  std::memcpy(to.sun_path, path.c_str(), path.size() + 1);
  Result<Socket> socket =
      connect_to(reinterpret_cast<const sockaddr*>(&to), sizeof(to), AF_UNIX, deadline);
  if (!socket) return socket;
  // Such a socket is writable again when three quarters of its buffer are free; by then a server
  // may wait. The system allows less. (TCP's buffers grow by themselves, if nobody sets them.)
  const int bytes = 1 << 20;
  setsockopt(socket->fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  return socket;
}

Result<Socket> connect_to_host(const std::string& host, uint16_t port, Clock::time_point deadline) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (error == EAI_SYSTEM && (errno == EMFILE || errno == ENFILE)) return no_socket(errno);
  if (error != 0) return fail(Errc::io, "no address of that name: {}", gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  Status last = fail(Errc::io, "no address of that name");
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Result<Socket> socket = connect_to(at->ai_addr, at->ai_addrlen, at->ai_family, deadline);
    if (!socket) {
      last = socket.error();
      continue;
    }
    const int on = 1;
    setsockopt(socket->fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(socket->fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    return socket;
  }
  return last;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Status failed(const char* what, int error) noexcept {
  return fail(Errc::io, "{}: {}", what, std::strerror(error));
}

Status too_late() noexcept { return fail(Errc::busy, "no answer in time"); }

Status wait_for(int fd, short events, Clock::time_point deadline) noexcept {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return too_late();
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 0x7fffffff)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return failed("cannot poll", errno);
  }
}

Result<std::unique_ptr<Stream>> connect(const Address& address, const Encryption* encryption,
                                        Clock::time_point deadline) {
  Result<Socket> socket = address.path.empty()
                              ? connect_to_host(address.host, address.port, deadline)
                              : connect_to_path(address.path, deadline);
  if (!socket) return socket.error();
  if (encryption != nullptr)
    return encryption->shake_hands(std::move(*socket), address.host, deadline);
  return std::unique_ptr<Stream>(std::make_unique<PlainStream>(std::move(*socket)));
}

}  // namespace folio::inline v1::tier::redis
