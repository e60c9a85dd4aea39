// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/child_side.h: what a process does that child.h has begun: it says its address on
/// standard output, reads those of others from standard input, and ends when that ends.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tier/peer/transport_helpers.h"

namespace folio::test {

inline void die_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

/// An address waits, or standard input has ended.
inline bool has_input() {
  pollfd entry{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

inline bool read_input(void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(STDIN_FILENO, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

/// Waits for it; none: the input has ended.
inline std::optional<std::vector<std::byte>> read_address() {
  uint64_t bytes = 0;
  if (!read_input(&bytes, sizeof(bytes))) return {};
  std::vector<std::byte> address(bytes);
  if (!read_input(address.data(), bytes)) return {};
  return address;
}

inline bool say_address(const Transport& transport) {
  const std::vector<std::byte> address = transport.address().value();
  const uint64_t size = address.size();
  return ::write(STDOUT_FILENO, &size, sizeof(size)) == sizeof(size) &&
         ::write(STDOUT_FILENO, address.data(), size) == static_cast<ssize_t>(size);
}

inline std::unique_ptr<Transport> make_transport(const std::string& kind) {
  return transport_kind(kind).make({}).value();
}

}  // namespace folio::test
