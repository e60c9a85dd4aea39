// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_supervise.h: runs cases in a process of their own and goes on behind one that
/// hangs or dies, in a new process: a faulty kernel ends a CUDA context, not a stage.
///
///   supervise(limits, [&](Cases& cases) {        // in the child
///     for (...) if (cases.begin(name)) do_it();  // false: an earlier child has
///     return 0;                                  // the exit status
///   }, [&](name, reason) { record(); });         // in the parent: a case that is lost
///
/// The parent must not touch CUDA: a forked child cannot use its context.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

namespace folio::test {

/// A child's exit status after a case that spoils its process, which it has recorded itself.
inline constexpr int spoiled = 99;

/// Where a child is: lies in memory that parent and child share.
class Cases {
 public:
  /// Whether the case is to be run now.
  bool begin(const std::string& name) {
    const int number = next_++;
    if (number < from_) return false;
    std::snprintf(name_, sizeof name_, "%s", name.c_str());
    begun_.store(number + 1, std::memory_order_release);
    return true;
  }
  /// Of the case under way.
  [[nodiscard]] const char* name() const { return name_; }

 private:
  template <class Child, class Lost>
  friend int supervise(int, int, Child, Lost);
  int from_ = 0, next_ = 0;
  std::atomic<int> begun_ = 0;  // cases that were begun, in the child under way
  char name_[256] = "the beginning";
};

/// The worst exit status of the children; 1 if a case was lost. A child is killed when it begins no
/// case for `seconds`; after `most` lost ones no other is started.
template <class Child, class Lost>
int supervise(int seconds, int most, Child child, Lost lost) {
  void* memory =
      mmap(nullptr, sizeof(Cases), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  Cases* const cases = new (memory) Cases;
  int worst = 0;
  for (int times = 0;; ++times) {
    cases->next_ = 0;
    cases->begun_.store(cases->from_);
    std::fflush(nullptr);
    const pid_t id = fork();
    if (id < 0) return 2;
    if (id == 0) {
      const int status = child(*cases);
      std::fflush(nullptr);
      _exit(status);
    }
    int status = 0, seen = -1, quiet = 0;
    bool hangs = false;
    constexpr int checks_per_second = 50;
    while (waitpid(id, &status, WNOHANG) == 0) {
      const timespec pause = {0, 1000000000 / checks_per_second};
      nanosleep(&pause, nullptr);
      const int begun = cases->begun_.load(std::memory_order_acquire);
      quiet = begun == seen ? quiet + 1 : 0;
      seen = begun;
      if (quiet < seconds * checks_per_second) continue;
      hangs = true;
      kill(id, SIGKILL);
      waitpid(id, &status, 0);
      break;
    }
    const bool is_spoiled = !hangs && WIFEXITED(status) && WEXITSTATUS(status) == spoiled;
    if (!hangs && WIFEXITED(status) && !is_spoiled) {
      worst = worst > WEXITSTATUS(status) ? worst : WEXITSTATUS(status);
      break;
    }
    worst = 1;
    if (hangs)
      lost(std::string(cases->name_), "hangs: nothing for " + std::to_string(seconds) + " s");
    else if (!is_spoiled)
      lost(std::string(cases->name_), "dies with signal " + std::to_string(WTERMSIG(status)));
    const int begun = cases->begun_.load();
    if (begun == cases->from_ || times + 1 == most) {
      lost("the rest", "not run: too many cases were lost, or the beginning");
      break;
    }
    cases->from_ = begun;
  }
  munmap(memory, sizeof(Cases));
  return worst;
}

}  // namespace folio::test
