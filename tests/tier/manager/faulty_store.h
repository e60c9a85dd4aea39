// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/faulty_store.h: a server that keeps values as Redis does, on a bad day.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "support/random.h"
#include "tier/redis/fake_server.h"

namespace folio::test {

/// Chances are out of 1000, of each command.
struct StoreFaults {
  int lose = 0;     ///< the value, before the command
  int flip = 0;     ///< a bit of a value that is read
  int refuse = 0;   ///< as a server that is full, or loading
  int cut = 0;      ///< hangs up in the middle of a reply
  int swallow = 0;  ///< says that a value is stored which is not
  int slow = 0;     ///< up to 2 ms
};

class FaultyStore {
 public:
  FaultyStore(const StoreFaults& faults, uint64_t seed)
      : faults_(faults),
        rng_(seed),
        server_([this](const Words& words) { return answer(words); }) {}
  [[nodiscard]] uint16_t port() const { return server_.port(); }

 private:
  using Words = FakeServer::Words;

  static std::string bulk(const std::string& value) {
    return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }
  bool hits(int chance) { return chance > 0 && rng_.between(1, 1000) <= chance; }

  Saying answer(const Words& words) {
    if (words.size() > 1 && hits(faults_.lose)) values_.erase(words[1]);
    Saying saying{.bytes = reply(words)};
    if (hits(faults_.slow)) saying.pause_us = static_cast<useconds_t>(rng_.between(1, 2000));
    if (!hits(faults_.cut)) return saying;
    saying.bytes.resize(static_cast<size_t>(rng_.between(0, std::ssize(saying.bytes) - 1)));
    saying.then = Saying::Then::hang_up;
    return saying;
  }

  std::string reply(const Words& words) {
    if (hits(faults_.refuse))
      return rng_.chance(0.5) ? "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
                              : "-LOADING Redis is loading the dataset in memory\r\n";
    const std::string& verb = words[0];
    const auto at = words.size() > 1 ? values_.find(words[1]) : values_.end();
    const bool is_there = at != values_.end();
    if (verb == "SET") {
      if (!hits(faults_.swallow)) values_[words[1]] = words[2];
      return "+OK\r\n";
    }
    if (verb == "GET") return is_there ? bulk(spoiled(at->second)) : "$-1\r\n";
    if (verb == "GETRANGE") {
      if (!is_there) return bulk({});
      const size_t first = std::stoul(words[2]), last = std::stoul(words[3]);
      return bulk(spoiled(first >= at->second.size() ? std::string()
                                                     : at->second.substr(first, last - first + 1)));
    }
    if (verb == "UNLINK" && is_there) values_.erase(at);
    if (verb == "UNLINK" || verb == "EXISTS") return is_there ? ":1\r\n" : ":0\r\n";
    return "-ERR unknown command\r\n";
  }
  std::string spoiled(std::string value) {
    if (!value.empty() && hits(faults_.flip))
      value[static_cast<size_t>(rng_.between(0, std::ssize(value) - 1))] ^= 0x10;
    return value;
  }

  const StoreFaults faults_;
  Rng rng_;
  std::map<std::string, std::string> values_;
  FakeServer server_;
};

}  // namespace folio::test
