// SPDX-License-Identifier: Apache-2.0
/// tier/events/zmq_socket.h: sockets of ZeroMQ that close themselves, and messages of several
/// frames.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/core/status.h"
#include "tier/events/zmq_library.h"

namespace folio::inline v1::tier {

/// Bytes that messages share.
using SharedBytes = std::shared_ptr<const std::vector<uint8_t>>;

/// Where ZeroMQ is loaded, as it must be for all that is here.
class ZmqContext {
 public:
  ZmqContext() : context_(zmq().ctx_new()) {}
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  ~ZmqContext() {
    if (context_ != nullptr) zmq().ctx_term(context_);
  }
  [[nodiscard]] void* get() const { return context_; }

 private:
  void* context_;
};

/// Of one thread at a time. Nothing waits: what cannot be sent or received now is not.
class ZmqSocket {
 public:
  ZmqSocket() = default;
  ZmqSocket(ZmqSocket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  ZmqSocket& operator=(ZmqSocket&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  ~ZmqSocket() {
    if (socket_ != nullptr) zmq().close(socket_);
  }

  /// Errors: io
  [[nodiscard]] static Result<ZmqSocket> open(const ZmqContext& context, int type);
  [[nodiscard]] void* get() const { return socket_; }
  void set(int option, int value) {
    static_cast<void>(zmq().setsockopt(socket_, option, &value, sizeof value));
  }
  void set(int option, int64_t value) {
    static_cast<void>(zmq().setsockopt(socket_, option, &value, sizeof value));
  }
  void set(int option, std::string_view value) {
    static_cast<void>(zmq().setsockopt(socket_, option, value.data(), value.size()));
  }
  enum class Way : uint8_t { bind, connect };
  /// `call` and `argument` name it in errors: invalid_argument, busy, io
  [[nodiscard]] Status attach(Way way, const std::string& endpoint, const char* call,
                              const char* argument);
  [[nodiscard]] std::string last_endpoint() const;

  /// False where the receiver, or each of them, has no room: nothing was sent then. Throws
  /// std::bad_alloc.
  bool send(std::span<const std::string_view> frames, const SharedBytes& last);
  /// A message; none where none waits. Throws std::bad_alloc.
  [[nodiscard]] std::optional<std::vector<std::string>> receive();

 private:
  void* socket_ = nullptr;
};

/// Errors: invalid_argument
/// An empty `replay_endpoint` is none.
[[nodiscard]] Status check_sockets(const char* call, std::string_view endpoint,
                                   std::string_view replay_endpoint, std::string_view topic);

/// What an option is, and what it may be.
struct Range {
  const char* argument;
  int64_t value, first, last;
};
[[nodiscard]] Status check_ranges(const char* call, std::span<const Range> ranges);

/// Numbers as they are sent: 8 bytes, the highest first.
[[nodiscard]] std::string bytes_of(uint64_t number);
[[nodiscard]] std::optional<uint64_t> number_of(std::string_view bytes);
/// A request for a snapshot, to which a vLLM publisher answers with the end alone; and the end of
/// answers.
inline constexpr uint64_t no_batch = ~uint64_t{0};

}  // namespace folio::inline v1::tier
