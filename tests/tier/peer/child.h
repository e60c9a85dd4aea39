// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/child.h: a process that ends with the test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace folio::test {

/// `traffic_peer` or another program that says its address on standard output.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int to_child[2], from_child[2];
    EXPECT_EQ(::pipe2(to_child, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from_child, O_CLOEXEC), 0);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to_child[0], STDIN_FILENO);
      ::dup2(from_child[1], STDOUT_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    in_ = to_child[1];
    out_ = from_child[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill();
    ::close(out_);
  }

  /// Its number, as the system's files name it.
  [[nodiscard]] std::string process() const { return std::to_string(pid_); }
  /// What it says first; empty: nothing.
  [[nodiscard]] std::vector<std::byte> address() {
    uint64_t size = 0;
    if (!read_all(&size, sizeof(size))) return {};
    std::vector<std::byte> bytes(size);
    if (!read_all(bytes.data(), size)) return {};
    return bytes;
  }
  void tell(std::span<const std::byte> address) {
    const uint64_t size = address.size();
    EXPECT_EQ(::write(in_, &size, sizeof(size)), static_cast<ssize_t>(sizeof(size)));
    EXPECT_EQ(::write(in_, address.data(), size), static_cast<ssize_t>(size));
  }
  /// Returns how it has ended, as `finish`.
  int kill() { return end(SIGKILL); }
  /// It does nothing any more when this returns.
  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void go_on() const { ::kill(pid_, SIGCONT); }
  /// Its exit status, once its input has ended; -1: a signal.
  int finish() { return end(0); }
  /// By itself.
  [[nodiscard]] bool has_ended() {
    if (!has_status_) has_status_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return has_status_;
  }

 private:
  bool read_all(void* to, size_t bytes) const {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = ::read(out_, at, bytes);
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }
  int end(int signal) {
    if (pid_ <= 0) return -1;
    // in this order: it must not end by itself because its input does
    if (signal != 0 && !has_status_) ::kill(pid_, signal);
    ::close(in_);
    if (!has_status_) ::waitpid(pid_, &status_, 0);
    pid_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

  pid_t pid_ = -1;
  bool has_status_ = false;
  int status_ = 0;
  int in_ = -1, out_ = -1;
};

}  // namespace folio::test
