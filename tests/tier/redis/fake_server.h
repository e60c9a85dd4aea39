// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/fake_server.h: a server that says what a test wants it to say.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace folio::test {

/// To one command.
struct Saying {
  std::string bytes = {};
  size_t piece = SIZE_MAX;  ///< bytes at a time
  useconds_t pause_us = 0;  ///< before each piece
  enum class Then : uint8_t { serve, hang_up, silence } then = Then::serve;
};

class FakeServer {
 public:
  using Words = std::vector<std::string>;
  using Answers = std::function<Saying(const Words&)>;  ///< called by one thread at a time

  explicit FakeServer(Answers answers) : answers_(std::move(answers)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(at);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&at), bytes) != 0 ||
        listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
      throw std::runtime_error("no fake server");
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : connections_) close(fd);
  }

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::vector<Words> commands() {
    const std::lock_guard lock(mutex_);
    return commands_;
  }
  [[nodiscard]] size_t connections() {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }

 private:
  void accept_all() {
    for (;;) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      const int at_once = 1;  // no reply waits until the one before has been acknowledged
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
      const std::lock_guard lock(mutex_);
      connections_.push_back(fd);
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string bytes;
    while (const std::optional<Words> words = read_command(fd, bytes)) {
      Saying saying;
      {
        const std::lock_guard lock(mutex_);
        commands_.push_back(*words);
        saying = answers_(*words);
      }
      for (size_t at = 0; at < saying.bytes.size();) {
        if (saying.pause_us != 0) usleep(saying.pause_us);
        const size_t part = std::min(saying.piece, saying.bytes.size() - at);
        const ssize_t sent = send(fd, saying.bytes.data() + at, part, MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += static_cast<size_t>(sent);
      }
      if (saying.then == Saying::Then::serve) continue;
      if (saying.then == Saying::Then::hang_up) shutdown(fd, SHUT_RDWR);
      return;
    }
  }

  static bool read_more(int fd, std::string& bytes) {
    char some[4096];
    const ssize_t got = recv(fd, some, sizeof(some), 0);
    if (got > 0) bytes.append(some, static_cast<size_t>(got));
    return got > 0;
  }
  static std::optional<std::string> take(int fd, std::string& bytes, size_t count) {
    while (bytes.size() < count)
      if (!read_more(fd, bytes)) return std::nullopt;
    std::string taken = bytes.substr(0, count);
    bytes.erase(0, count);
    return taken;
  }
  static std::optional<size_t> take_number(int fd, std::string& bytes) {
    while (bytes.find('\n') == std::string::npos)
      if (!read_more(fd, bytes)) return std::nullopt;
    const size_t end = bytes.find('\n');
    size_t number = 0;
    const auto [last, error] = std::from_chars(bytes.data() + 1, bytes.data() + end, number);
    bytes.erase(0, end + 1);
    if (error != std::errc()) return std::nullopt;  // no command: it is left without an answer
    return number;
  }
  static std::optional<Words> read_command(int fd, std::string& bytes) {
    const std::optional<size_t> count = take_number(fd, bytes);
    if (!count) return std::nullopt;
    Words words;
    while (words.size() < *count) {
      const std::optional<size_t> size = take_number(fd, bytes);
      std::optional<std::string> word;
      if (size) word = take(fd, bytes, *size + 2);
      if (!word) return std::nullopt;
      words.push_back(word->substr(0, *size));
    }
    return words;
  }

  const Answers answers_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<int> connections_;
  std::list<std::thread> threads_;
  std::vector<Words> commands_;
  std::thread thread_;
};

}  // namespace folio::test
