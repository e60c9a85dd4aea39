// SPDX-License-Identifier: Apache-2.0
/// tests/cli/watch/engine.cpp: tells events as vLLM and SGLang do, from recordings of theirs.
///
/// watch_engine [ENDPOINT [REPLAY_ENDPOINT]]    prints where it is bound, then takes a command a
/// line and prints "done" behind each:
///     play FILE COUNT    the next COUNT batches of a recording (tests/tier/events/streams)
///     miss FILE COUNT    the same, but on request alone: on their way they were lost
///     payload HEX        a batch of these bytes
///     forget             nobody can ask for batches until now
///     skip COUNT         so many numbers that nobody ever gets
/// Answers requests as vLLM's publisher does: what it has from a number on, and an end.
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tier/events/wire.h"
#include "tier/events/zmq_library.h"
#include "tier/events/zmq_socket.h"

namespace folio {
namespace {

using tier::Json;
using tier::SharedBytes;

/// As on the wire: of token ids a recording has the number.
std::vector<uint8_t> batch_of(const Json& line) {
  Json events = line["batch"];
  for (Json& event : events)
    if (event.contains("token_ids"))
      event["token_ids"] = std::vector<int32_t>(event["token_ids"].get<size_t>());
  return Json::to_msgpack(Json::array({1.5, events, 0}));
}

class Engine {
 public:
  Engine(const std::string& endpoint, const std::string& replay) {
    using Way = tier::ZmqSocket::Way;
    live_ = tier::ZmqSocket::open(context_, ZMQ_PUB).value();
    live_.attach(Way::bind, endpoint, "watch_engine", "ENDPOINT").or_throw();
    replay_ = tier::ZmqSocket::open(context_, ZMQ_ROUTER).value();
    replay_.attach(Way::bind, replay, "watch_engine", "REPLAY_ENDPOINT").or_throw();
    std::printf("%s\n%s\n", live_.last_endpoint().c_str(), replay_.last_endpoint().c_str());
    std::fflush(stdout);
  }

  /// Until the input ends.
  void run() {
    for (;;) {
      zmq_pollitem_t items[] = {{replay_.get(), 0, ZMQ_POLLIN, 0},
                                {nullptr, STDIN_FILENO, ZMQ_POLLIN, 0}};
      tier::zmq().poll(items, 2, -1);
      while (const auto request = replay_.receive()) answer(*request);
      if (items[1].revents == 0) continue;
      std::string line;
      if (!std::getline(std::cin, line)) return;
      obey(line);
      std::printf("done\n");
      std::fflush(stdout);
    }
  }

 private:
  void obey(const std::string& line) {
    std::istringstream words(line);
    std::string command, file;
    words >> command;
    uint64_t count = 0;
    if (command == "play" || command == "miss") {
      words >> file >> count;
      for (; count > 0; --count) tell(next_of(file), command == "play");
    } else if (command == "payload") {
      words >> file;
      std::vector<uint8_t> bytes;
      for (size_t i = 0; i + 1 < file.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoi(file.substr(i, 2), nullptr, 16)));
      tell(bytes, true);
    } else if (command == "forget") {
      kept_.clear();
    } else if (command == "skip") {
      words >> count;
      number_ += count;
    }
  }

  std::vector<uint8_t> next_of(const std::string& file) {
    std::ifstream& recording = recordings_.try_emplace(file, file).first->second;
    for (std::string text; std::getline(recording, text);)
      if (const Json line = Json::parse(text); line.contains("batch")) return batch_of(line);
    return Json::to_msgpack(Json::array({1.5, Json::array(), 0}));
  }

  void tell(const std::vector<uint8_t>& payload, bool is_live) {
    const SharedBytes bytes = std::make_shared<const std::vector<uint8_t>>(payload);
    kept_[number_] = bytes;
    const std::string number = tier::bytes_of(number_++);
    const std::string_view frames[] = {"kv@test", number};
    if (is_live) live_.send(frames, bytes);
  }

  void answer(const std::vector<std::string>& request) {
    const auto wanted = tier::number_of(request.back());
    if (request.size() != 3 || !wanted) return;
    const auto send = [&](uint64_t number, const SharedBytes& bytes) {
      const std::string text = tier::bytes_of(number);
      const std::string_view frames[] = {request[0], "", "kv@test", text};
      replay_.send(frames, bytes);
    };
    for (const auto& [number, bytes] : kept_)
      if (number >= *wanted) send(number, bytes);
    send(tier::no_batch, std::make_shared<const std::vector<uint8_t>>());
  }

  tier::ZmqContext context_;
  tier::ZmqSocket live_, replay_;
  uint64_t number_ = 0;
  std::map<uint64_t, SharedBytes> kept_;
  std::map<std::string, std::ifstream> recordings_;
};

}  // namespace
}  // namespace folio

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::setvbuf(stdin, nullptr, _IONBF, 0);  // what waits is what poll says
  const std::string any = "tcp://127.0.0.1:*";
  folio::tier::load_zmq("watch_engine").or_throw();
  folio::Engine(argc > 1 ? argv[1] : any, argc > 2 ? argv[2] : any).run();
  return 0;
}
