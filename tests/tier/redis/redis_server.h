// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_server.h: a server of the test's own, gone with it.
#pragma once

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/comes_true.h"
#include "support/temporary_folder.h"
#include "tier/redis/reserved_port.h"

namespace folio::test {

/// Starts a program that ends with the thread that calls.
inline pid_t start_program(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

inline bool has_redis_server() {
  static const bool has = std::system("redis-server --version > /dev/null 2>&1") == 0;
  return has;
}

class RedisServer {
 public:
  struct Options {
    std::vector<std::string> arguments = {};  ///< of redis-server
    std::string password = {};                ///< that commands of the test log in with
  };

  RedisServer() : RedisServer(Options()) {}
  explicit RedisServer(Options options) : options_(std::move(options)) { start(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;
  ~RedisServer() { kill_it(); }

  [[nodiscard]] std::string socket() const { return folder_.path("socket"); }
  [[nodiscard]] std::string url() const { return "unix://" + socket(); }
  [[nodiscard]] uint16_t port() const { return port_.number(); }
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// From its next start on.
  void set_arguments(std::vector<std::string> arguments) {
    options_.arguments = std::move(arguments);
  }
  void start() {
    begin_to_start();
    const bool comes = comes_true([&] {
      usleep(1000);
      return is_ready();
    });
    if (!comes) throw std::runtime_error("redis-server does not come");
  }
  /// It may not answer yet.
  void begin_to_start() {
    std::vector<std::string> words{"redis-server",
                                   "--bind",
                                   "127.0.0.1",
                                   "--unixsocket",
                                   socket(),
                                   "--save",
                                   "",
                                   "--repl-diskless-sync-delay",
                                   "0",
                                   "--appendonly",
                                   "no",
                                   "--dir",
                                   folder_.path(),
                                   "--logfile",
                                   folder_.path("log")};
    words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
    if (std::find(words.begin(), words.end(), "--port") == words.end())
      words.insert(words.end(), {"--port", port_.text()});
    pid_ = start_program(words);
  }
  void kill_it() {
    context_.reset();
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;
  Reply command(std::initializer_list<std::string_view> words) {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const std::string_view word : words) {
      texts.push_back(word.data());
      sizes.push_back(word.size());
    }
    if (context_ == nullptr && !connect()) throw std::runtime_error("no connection to the server");
    Reply reply(static_cast<redisReply*>(redisCommandArgv(
                    context_.get(), static_cast<int>(words.size()), texts.data(), sizes.data())),
                freeReplyObject);
    if (reply == nullptr) throw std::runtime_error("the server does not answer");
    return reply;
  }
  std::string text(std::initializer_list<std::string_view> words) {
    const Reply reply = command(words);
    return reply->str == nullptr ? "" : std::string(reply->str, reply->len);
  }
  int64_t integer(std::initializer_list<std::string_view> words) { return command(words)->integer; }
  std::vector<std::string> keys() {
    const Reply reply = command({"KEYS", "*"});
    std::vector<std::string> all;
    for (size_t i = 0; i < reply->elements; ++i) all.emplace_back(reply->element[i]->str);
    return all;
  }

 private:
  struct Freer {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  bool connect() {
    context_.reset(redisConnectUnix(socket().c_str()));
    if (context_ == nullptr || context_->err != 0) {
      context_.reset();
      return false;
    }
    if (!options_.password.empty()) command({"AUTH", options_.password});
    return true;
  }
  bool is_ready() {
    try {
      return (context_ != nullptr || connect()) && text({"PING"}) == "PONG";
    } catch (const std::runtime_error&) {
      context_.reset();
      return false;
    }
  }

  Options options_;
  TemporaryFolder folder_;
  ReservedPort port_;
  pid_t pid_ = 0;
  std::unique_ptr<redisContext, Freer> context_;
};

}  // namespace folio::test
