// SPDX-License-Identifier: Apache-2.0
/// tier/redis/stream.h: bytes to and from a server, over a socket that does not block, plain or
/// encrypted.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "tier/redis/settings.h"

namespace folio::inline v1::tier::redis {

/// A file descriptor that is closed with it.
class Socket {
 public:
  explicit Socket(int fd = -1) noexcept : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

enum class Until : uint8_t { readable, readable_or_writable };

class Stream {
 public:
  virtual ~Stream() = default;
  /// How many bytes came or went; 0: none for now. Errors: io, and it is of no more use
  [[nodiscard]] virtual Result<size_t> read(std::span<const iovec> to) noexcept = 0;
  [[nodiscard]] virtual Result<size_t> write(std::span<const iovec> from) noexcept = 0;
  /// Until a call that has given 0 may give more. Errors: io; busy when the deadline has passed
  [[nodiscard]] virtual Status wait(Until until, Clock::time_point deadline) noexcept = 0;
};

/// Certificates and checks of all connections of a tier.
class Encryption {
 public:
  virtual ~Encryption() = default;
  /// A connection over `socket` to `host`, when both sides are content. Errors: io, busy
  [[nodiscard]] virtual Result<std::unique_ptr<Stream>> shake_hands(
      Socket socket, const std::string& host, Clock::time_point deadline) const = 0;
};

/// Errors: io for files that cannot be used, naming them
[[nodiscard]] Result<std::unique_ptr<Encryption>> make_encryption(const Settings& settings);

/// Connects; `encryption` may be null. Errors: io, busy; out_of_memory for want of a socket
[[nodiscard]] Result<std::unique_ptr<Stream>> connect(const Address& address,
                                                      const Encryption* encryption,
                                                      Clock::time_point deadline);

/// Errc::busy: a deadline has passed.
[[nodiscard]] Status too_late() noexcept;
/// Polls for `events`. Errors: io; busy when the deadline has passed
[[nodiscard]] Status wait_for(int fd, short events, Clock::time_point deadline) noexcept;
/// `what: the text of errno`.
[[nodiscard]] Status failed(const char* what, int error) noexcept;

}  // namespace folio::inline v1::tier::redis
