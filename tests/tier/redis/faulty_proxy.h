// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/faulty_proxy.h: a way to a server on which bytes change, are lost or come late,
/// and connections break.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/random.h"

namespace folio::test {

/// Chances are out of 1000, of each piece that passes: some KiB at most.
struct WayFaults {
  int flip = 0;   ///< of a bit
  int close = 0;  ///< of the connection, in the middle of the piece
  int lose = 0;   ///< of the piece
  int delay = 0;  ///< up to 2 ms
};

/// Between Unix sockets.
class FaultyProxy {
 public:
  FaultyProxy(std::string path, std::string server, uint64_t seed)
      : path_(std::move(path)), server_(std::move(server)), rng_(seed) {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un at = address(path_);
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 ||
        listen(listener_, 64) != 0)
      throw std::runtime_error("no proxy");
    thread_ = std::thread([this] { accept_all(); });
  }
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;
  ~FaultyProxy() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    close_all();
    for (Link& link : links_) link.join();
    unlink(path_.c_str());
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  void set(const WayFaults& faults) {
    const std::lock_guard lock(mutex_);
    faults_ = faults;
  }
  void close_all() {
    const std::lock_guard lock(mutex_);
    for (Link& link : links_) link.shut();
  }
  [[nodiscard]] int64_t flips() {
    const std::lock_guard lock(mutex_);
    return flips_;
  }

 private:
  struct Link {
    int client = -1, server = -1;
    std::thread up = {}, down = {};
    std::atomic<int> pumps = 2;
    void shut() const {
      shutdown(client, SHUT_RDWR);
      shutdown(server, SHUT_RDWR);
    }
    void join() {
      up.join();
      down.join();
      ::close(client);
      ::close(server);
    }
  };
  struct Fate {
    bool flips = false, closes = false, is_lost = false;
    int64_t delay_us = 0, draw = 0;
  };

  static sockaddr_un address(const std::string& path) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    if (path.size() >= sizeof(at.sun_path)) throw std::runtime_error("a path that is too long");
    std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
    return at;
  }

  void accept_all() {
    for (;;) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_un at = address(server_);
      if (connect(server, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) {
        close(client);
        close(server);
        continue;
      }
      const std::lock_guard lock(mutex_);
      for (auto link = links_.begin(); link != links_.end();) {
        if (link->pumps != 0) {
          ++link;
          continue;
        }
        link->join();
        link = links_.erase(link);
      }
      Link& link = links_.emplace_back();
      link.client = client;
      link.server = server;
      link.up = std::thread([this, &link] { pump(link, link.client, link.server); });
      link.down = std::thread([this, &link] { pump(link, link.server, link.client); });
    }
  }

  Fate draw() {
    const std::lock_guard lock(mutex_);
    const auto hits = [&](int chance) { return chance > 0 && rng_.between(1, 1000) <= chance; };
    Fate fate{.flips = hits(faults_.flip),
              .closes = hits(faults_.close),
              .is_lost = hits(faults_.lose),
              .delay_us = hits(faults_.delay) ? rng_.between(0, 2000) : 0,
              .draw = rng_.between(0, int64_t{1} << 40)};
    flips_ += fate.flips ? 1 : 0;
    return fate;
  }

  void pump(Link& link, int from, int to) {
    char bytes[8192];
    for (;;) {
      const ssize_t got = recv(from, bytes, sizeof(bytes), 0);
      if (got <= 0) break;
      const Fate fate = draw();
      ssize_t count = got;
      if (fate.flips) bytes[fate.draw / 8 % got] ^= static_cast<char>(1 << fate.draw % 8);
      if (fate.closes) count = fate.draw % got;
      if (fate.is_lost) count = 0;
      if (fate.delay_us != 0) usleep(static_cast<useconds_t>(fate.delay_us));
      if (!send_all(to, bytes, count) || fate.closes) break;
    }
    link.shut();
    --link.pumps;
  }
  static bool send_all(int to, const char* bytes, ssize_t count) {
    for (ssize_t at = 0; at < count;) {
      const ssize_t sent = send(to, bytes + at, static_cast<size_t>(count - at), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
    }
    return true;
  }

  const std::string path_, server_;
  std::mutex mutex_;
  Rng rng_;
  WayFaults faults_;
  int64_t flips_ = 0;
  int listener_ = -1;
  std::list<Link> links_;
  std::thread thread_;
};

}  // namespace folio::test
