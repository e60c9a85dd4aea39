// SPDX-License-Identifier: Apache-2.0
/// tier/events/zmq_socket.cpp: calls of ZeroMQ, and what is asked of their arguments.
#include "tier/events/zmq_socket.h"

#include <cerrno>
#include <charconv>
#include <new>

namespace folio::inline v1::tier {
namespace {

class Message {
 public:
  Message() { zmq().msg_init(&message_); }
  explicit Message(std::string_view bytes) {
    if (zmq().msg_init_size(&message_, bytes.size()) != 0) throw std::bad_alloc();
    bytes.copy(static_cast<char*>(zmq().msg_data(&message_)), bytes.size());
  }
  explicit Message(const SharedBytes& bytes) {
    auto hint = std::make_unique<SharedBytes>(bytes);
    // ZeroMQ only reads it.
    auto* const data = const_cast<uint8_t*>(bytes->data());
    const auto release = [](void*, void* owner) { delete static_cast<SharedBytes*>(owner); };
    if (zmq().msg_init_data(&message_, data, bytes->size(), release, hint.get()) != 0)
      throw std::bad_alloc();
    static_cast<void>(hint.release());
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { zmq().msg_close(&message_); }

  bool send(void* socket, int flags) {
    int sent = -1;
    do sent = zmq().msg_send(&message_, socket, flags | ZMQ_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
  }
  bool receive(void* socket) {
    int got = -1;
    do got = zmq().msg_recv(&message_, socket, ZMQ_DONTWAIT);
    while (got < 0 && errno == EINTR);
    return got >= 0;
  }
  [[nodiscard]] bool has_more() { return zmq().msg_more(&message_) != 0; }
  [[nodiscard]] std::string_view bytes() {
    return {static_cast<const char*>(zmq().msg_data(&message_)), zmq().msg_size(&message_)};
  }

 private:
  zmq_msg_t message_;
};

}  // namespace

Result<ZmqSocket> ZmqSocket::open(const ZmqContext& context, int type) {
  ZmqSocket socket;
  if (context.get() != nullptr) socket.socket_ = zmq().socket(context.get(), type);
  if (socket.socket_ == nullptr)
    return fail(Errc::io, "ZeroMQ: no socket to be had: {}", zmq().strerror(errno));
  socket.set(ZMQ_LINGER, 0);
  return socket;
}

Status ZmqSocket::attach(Way way, const std::string& endpoint, const char* call,
                         const char* argument) {
  const bool binds = way == Way::bind;
  if (endpoint.find('[') != std::string::npos) set(ZMQ_IPV6, 1);
  if ((binds ? zmq().bind(socket_, endpoint.c_str()) : zmq().connect(socket_, endpoint.c_str())) ==
      0)
    return {};
  Errc code = Errc::io;
  if (errno == EADDRINUSE) code = Errc::busy;
  if (errno == EINVAL || errno == EPROTONOSUPPORT || errno == ENAMETOOLONG || errno == ENODEV)
    code = Errc::invalid_argument;
  return fail(code, "{}: {} is {}, expected one that can be {}: {}", call, argument,
              endpoint.c_str(), binds ? "bound" : "connected", zmq().strerror(errno));
}

std::string ZmqSocket::last_endpoint() const {
  char text[1100] = {};
  size_t size = sizeof text;
  if (zmq().getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) != 0) return {};
  return text;
}

bool ZmqSocket::send(std::span<const std::string_view> frames, const SharedBytes& last) {
  for (const std::string_view frame : frames)
    if (!Message(frame).send(socket_, ZMQ_SNDMORE)) return false;
  return Message(last).send(socket_, 0);
}

std::optional<std::vector<std::string>> ZmqSocket::receive() {
  std::vector<std::string> frames;
  for (;;) {
    Message message;
    if (!message.receive(socket_)) return {};
    // A message of many frames is nobody's we know: it is read, and not kept.
    if (frames.size() < 8) frames.emplace_back(message.bytes());
    if (!message.has_more()) return frames;
  }
}

namespace {

/// ZeroMQ takes 99999 for 34463.
bool has_port(std::string_view endpoint) {
  const std::string_view port = endpoint.substr(endpoint.rfind(':') + 1);
  if (port == "*") return true;
  int number = -1;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  return error == std::errc() && end == port.data() + port.size() && number >= 0 && number <= 65535;
}

Status check_endpoint(const char* call, const char* argument, std::string_view endpoint) {
  if (endpoint.data() != nullptr && endpoint.size() <= 1024 &&
      endpoint.find('\0') == std::string_view::npos &&
      ((endpoint.starts_with("tcp://") && has_port(endpoint)) || endpoint.starts_with("ipc://")))
    return {};
  return fail(Errc::invalid_argument,
              "{}: {} is {}, expected tcp://HOST:PORT, PORT 0 .. 65535 or *, or ipc://PATH of at "
              "most 1024 bytes, none of them 0",
              call, argument, endpoint.data() == nullptr ? "null" : endpoint.substr(0, 200));
}

}  // namespace

Status check_sockets(const char* call, std::string_view endpoint, std::string_view replay_endpoint,
                     std::string_view topic) {
  if (Status s = check_endpoint(call, "endpoint", endpoint); !s.is_ok()) return s;
  if (!replay_endpoint.empty())
    if (Status s = check_endpoint(call, "replay_endpoint", replay_endpoint); !s.is_ok()) return s;
  if (topic.size() <= 1024 && (topic.data() != nullptr || topic.empty())) return {};
  return fail(Errc::invalid_argument, "{}: topic has {} bytes, expected at most 1024", call,
              topic.size());
}

Status check_ranges(const char* call, std::span<const Range> ranges) {
  for (const Range& r : ranges) {
    if (r.value < r.first || r.value > r.last)
      return fail(Errc::invalid_argument, "{}: {} is {}, expected {} .. {}", call, r.argument,
                  r.value, r.first, r.last);
  }
  return {};
}

std::string bytes_of(uint64_t number) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

std::optional<uint64_t> number_of(std::string_view bytes) {
  if (bytes.size() != 8) return {};
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

}  // namespace folio::inline v1::tier
