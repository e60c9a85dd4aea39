// SPDX-License-Identifier: Apache-2.0
/// tier/peer/shared_memory/socket_link.h: frames over a local socket that never waits.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "tier/peer/descriptor.h"
#include "tier/peer/frame.h"

namespace folio::inline v1::tier {

/// Both ways a frame is its length, 8 bytes, and what `encode` made.
class SocketLink {
 public:
  SocketLink(Descriptor socket, int64_t max_frame_bytes) noexcept
      : socket_(std::move(socket)), max_frame_bytes_(max_frame_bytes) {}

  /// `message_bytes`: what `flush` counts when the frame has left. Throws bad_alloc
  void put(const Frame& frame, int64_t message_bytes = 0);
  /// Writes what the socket takes; messages' bytes that have left are added. Errors: io
  [[nodiscard]] Status flush(int64_t* message_bytes) noexcept;
  [[nodiscard]] bool has_output() const noexcept { return !output_.empty(); }
  /// Of messages that have not left.
  [[nodiscard]] int64_t queued_message_bytes() const noexcept;

  /// Reads what the socket has, some of it. Errors: io, also at its end
  [[nodiscard]] Status fill() noexcept;
  /// The next frame that is whole; `*is_there` says whether there was one. Errors: io for what is
  /// none, out_of_memory
  [[nodiscard]] Result<Frame> take(bool* is_there) noexcept;

  /// Whether the other side has closed it, whatever it had sent before.
  [[nodiscard]] bool is_hung_up() const noexcept;
  /// The process at the other side, 0 where it has none that this one can name; and its user.
  [[nodiscard]] pid_t process() const noexcept;
  [[nodiscard]] bool is_same_user() const noexcept;
  void close() noexcept { socket_.close(); }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  struct Output {
    std::vector<std::byte> bytes;
    int64_t message_bytes = 0;
  };
  Descriptor socket_;
  int64_t max_frame_bytes_;
  std::deque<Output> output_;
  size_t written_ = 0;  ///< of the first one
  std::vector<std::byte> input_;
  size_t taken_ = 0;
};

/// Abstract names, which go with the socket. Errors: io
[[nodiscard]] Result<Descriptor> listen_at(std::span<const uint8_t> name) noexcept;
[[nodiscard]] Result<Descriptor> connect_to(std::span<const uint8_t> name) noexcept;

}  // namespace folio::inline v1::tier
