// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/reserved_port.h: a port for a server that another process binds.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace folio::test {

/// Nobody is given it while this lives: it is bound, so that the system hands it to no other, and
/// does not listen, so that a server that reuses addresses (SO_REUSEADDR, as Redis does) may.
class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(at);
    if (setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(socket_, reinterpret_cast<sockaddr*>(&at), bytes) != 0 ||
        getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
      throw std::runtime_error("no free port");
    number_ = ntohs(at.sin_port);
  }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  ~ReservedPort() { close(socket_); }

  [[nodiscard]] uint16_t number() const { return number_; }
  [[nodiscard]] std::string text() const { return std::to_string(number_); }

 private:
  int socket_;
  uint16_t number_ = 0;
};

}  // namespace folio::test
