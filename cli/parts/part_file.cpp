// SPDX-License-Identifier: Apache-2.0
/// cli/parts/part_file.cpp: parts, and the signals that remove them.
#include "parts/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace folio::cli {

/// Those that are there, for the handler of signals.
struct PartFiles {
  static inline PartFile* first = nullptr;
  static inline pid_t owner = 0;  ///< a child of the process has none
  static inline std::atomic_flag is_taken = {};

  static void take() {
    while (is_taken.test_and_set(std::memory_order_acquire)) {}
  }
  static void give() { is_taken.clear(std::memory_order_release); }

  /// What may be called in it: unlink, getpid, signal, raise. A thread that has the list takes no
  /// signal, so that the wait is for another one, and ends.
  static void die(int signal) {
    take();  // for good: nothing is made or renamed from now on
    if (::getpid() == owner)
      for (const PartFile* part = first; part != nullptr; part = part->next_)
        ::unlink(part->path_.c_str());
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // comes when this has returned
  }
};

namespace {

sigset_t deadly_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU})
    ::sigaddset(&signals, signal);
  return signals;
}

/// Has the list; meanwhile this thread takes no deadly signal.
class Locked {
 public:
  Locked() {
    const sigset_t signals = deadly_signals();
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    PartFiles::take();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() {
    PartFiles::give();
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
};

/// Once. What is ignored, as under nohup, stays so.
void catch_signals() {
  if (std::exchange(PartFiles::owner, ::getpid()) == ::getpid()) return;
  struct sigaction caught = {};
  caught.sa_handler = PartFiles::die;
  caught.sa_mask = deadly_signals();
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction before = {};
    if (::sigismember(&caught.sa_mask, signal) != 1) continue;
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      ::sigaction(signal, &caught, nullptr);
  }
}

}  // namespace

int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int PartFile::make(const std::string& target) {
  catch_signals();
  struct stat old = {};
  const bool is_there = ::stat(target.c_str(), &old) == 0;
  // The name is short, as the target's may be the longest there is, and drawn, as the folder may be
  // everybody's.
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) return errno;
  path_ = fmt::format("{}folio-{:016x}.part", target.substr(0, target.rfind('/') + 1), number);
  const Locked locked;
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_there ? 0600 : 0666);
  if (descriptor_ < 0) return errno;
  is_made_ = true;
  next_ = std::exchange(PartFiles::first, this);
  if (!is_there) return 0;
  (void)!::fchown(descriptor_, old.st_uid, old.st_gid);  // only some users may give files away
  return ::fchmod(descriptor_, old.st_mode & 07777) == 0 ? 0 : errno;
}

int PartFile::write(std::string_view text) {
  if (const int error = write_all(descriptor_, text); error != 0) return error;
  // A new name must not reach the device before what it names.
  if (::fsync(descriptor_) != 0) return errno;
  return ::close(std::exchange(descriptor_, -1)) == 0 ? 0 : errno;
}

int PartFile::replace(const std::string& target) {
  const Locked locked;
  const int error = std::rename(path_.c_str(), target.c_str()) == 0 ? 0 : errno;
  leave_list();
  return error;
}

void PartFile::remove() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!is_made_) return;
  const Locked locked;
  ::unlink(path_.c_str());
  leave_list();
}

void PartFile::leave_list() {
  PartFile** link = &PartFiles::first;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
  is_made_ = false;
}

}  // namespace folio::cli
