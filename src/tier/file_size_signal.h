// SPDX-License-Identifier: Apache-2.0
/// tier/file_size_signal.h: SIGXFSZ held back: a file that may not grow (RLIMIT_FSIZE) is a write
/// that fails as EFBIG, not the end of the process.
///
/// The system sends it to the thread that writes, so a mask of that thread is all it takes: what
/// the process does with the signal elsewhere is its own affair.
#pragma once

#include <csignal>
#include <ctime>

namespace folio::inline v1::tier {

/// In a thread of our own, for good.
inline void hold_back_file_size_signal() noexcept {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

/// In a thread of the caller's, while it lives. What has come meanwhile is taken away, unless one
/// waited already.
class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld() noexcept {
    sigset_t pending;
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGXFSZ);
    waited_ = sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  FileSizeSignalHeld(const FileSizeSignalHeld&) = delete;
  FileSizeSignalHeld& operator=(const FileSizeSignalHeld&) = delete;
  ~FileSizeSignalHeld() {
    const timespec at_once{};
    if (!waited_) sigtimedwait(&signals_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signals_, before_;
  bool waited_;
};

}  // namespace folio::inline v1::tier
