// SPDX-License-Identifier: Apache-2.0
/// tier/peer/descriptor.h: descriptors of the system that close with their owner, and one that
/// wakes who waits for others.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace folio::inline v1::tier {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// Readable from `wake`, by any thread, to `clear`. Who waits looks for work after `clear`.
class Waker {
 public:
  Waker() noexcept : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  [[nodiscard]] int get() const noexcept { return descriptor_.get(); }  ///< -1: there is none
  void wake() noexcept {
    if (is_woken_.exchange(true)) return;
    const uint64_t one = 1;
    (void)!::write(descriptor_.get(), &one, sizeof(one));
  }
  void clear() noexcept {
    uint64_t calls = 0;
    (void)!::read(descriptor_.get(), &calls, sizeof(calls));
    is_woken_ = false;
  }

 private:
  Descriptor descriptor_;
  std::atomic<bool> is_woken_ = false;
};

}  // namespace folio::inline v1::tier
