// SPDX-License-Identifier: Apache-2.0
/// tier/redis/connection.h: a connection to one server, logged in. One thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tier/redis/pipeline.h"

namespace folio::inline v1::tier::redis {

class Connection {
 public:
  /// Errors: io, busy, saying what the server said; out_of_memory for want of a socket. Blocks, up
  /// to the timeouts.
  [[nodiscard]] static Result<std::unique_ptr<Connection>> open(const Settings& settings,
                                                                const Address& address,
                                                                const Encryption* encryption);

  /// Sends all commands and waits for their answers. Errors: io; busy where the next answer has not
  /// come in time. The connection is of no more use then, and commands that have no answer may or
  /// may not have been done.
  [[nodiscard]] Status exchange(std::span<Command* const> commands);
  /// Whether it has served an exchange: one that has may have been closed by the server meanwhile.
  [[nodiscard]] bool was_used() const noexcept { return was_used_; }

 private:
  Connection(std::unique_ptr<Stream> stream, const Settings& settings)
      : stream_(std::move(stream)),
        receiver_(*stream_),
        timeout_(settings.command_timeout),
        depth_(settings.depth) {}
  [[nodiscard]] Status log_in(const Settings& settings);

  std::unique_ptr<Stream> stream_;
  Receiver receiver_;
  std::chrono::milliseconds timeout_;
  size_t depth_;  ///< commands without an answer, at most
  bool was_used_ = false;
};

/// The text without what a terminal or a log should not be given, and not long.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace folio::inline v1::tier::redis
