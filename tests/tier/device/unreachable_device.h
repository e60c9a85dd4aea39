// SPDX-License-Identifier: Apache-2.0
/// tests/tier/device/unreachable_device.h: a device whose memory this process has no right to
/// touch, as with a real one: who does, dies of SIGSEGV. Its copies reach it another way.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "folio/core/execution.h"
#include "folio/tier/device_copies.h"

namespace folio::test {

class UnreachableDevice final : public DeviceCopies {
 public:
  /// Of device memory in all.
  explicit UnreachableDevice(int64_t bytes) : bytes_(bytes) {
    const int file = memfd_create("device", MFD_CLOEXEC);
    const auto size = static_cast<size_t>(bytes);
    if (file < 0 || ftruncate(file, bytes) != 0) std::abort();
    device_ = static_cast<std::byte*>(mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0));
    seen_ =
        static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    if (device_ == MAP_FAILED || seen_ == MAP_FAILED) std::abort();
  }
  ~UnreachableDevice() override {
    munmap(device_, static_cast<size_t>(bytes_));
    munmap(seen_, static_cast<size_t>(bytes_));
  }

  /// Addresses of the device.
  [[nodiscard]] MemorySpan memory() const { return {device_, bytes_}; }
  /// The same bytes, as the device's own kernels see them.
  [[nodiscard]] MemorySpan seen() const { return {seen_, bytes_}; }
  [[nodiscard]] std::ptrdiff_t seen_by() const { return seen_ - device_; }
  [[nodiscard]] int64_t allocations() {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(taken_.size());
  }

  std::atomic<int> copies = 0;          ///< calls so far
  std::atomic<int> good_copies = 0;     ///< before those that fail
  std::atomic<int> failing_copies = 0;  ///< the next ones; they spoil what they were to write
  std::atomic<bool> has_no_memory = false;

  Result<std::byte*> allocate(int64_t bytes) noexcept override {
    if (has_no_memory) return fail(Errc::out_of_memory, "the host has no memory to pin");
    auto* const memory =
        static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((bytes + 63) & -64)));
    const std::lock_guard lock(mutex_);
    taken_.emplace(memory, bytes);
    return memory;
  }
  void release(std::byte* memory) noexcept override {
    const std::lock_guard lock(mutex_);
    if (taken_.erase(memory) != 1) std::abort();
    std::free(memory);
  }
  Status copy(CopyDirection direction, std::span<const DeviceCopy> runs) noexcept override {
    ++copies;
    for (const DeviceCopy& c : runs) {
      if (!is_taken(c.host, c.bytes)) return fail(Errc::device, "host memory that is not pinned");
      if (c.device < device_ || c.bytes > bytes_ - (c.device - device_))
        return fail(Errc::device, "memory that is not the device's");
    }
    const bool fails = failing_copies > 0 && good_copies-- <= 0 && failing_copies-- > 0;
    for (const DeviceCopy& c : runs) {
      std::byte* const there = seen_ + (c.device - device_);
      std::byte* const to = direction == CopyDirection::to_host ? c.host : there;
      const std::byte* const from = direction == CopyDirection::to_host ? there : c.host;
      if (fails)
        std::memset(to, 0xdb, static_cast<size_t>(c.bytes));
      else
        std::memcpy(to, from, static_cast<size_t>(c.bytes));
    }
    if (fails) return fail(Errc::device, "the bus is broken");
    return {};
  }

 private:
  bool is_taken(const std::byte* begin, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto at = taken_.upper_bound(const_cast<std::byte*>(begin));
    return at != taken_.begin() && bytes <= (--at)->second - (begin - at->first);
  }

  const int64_t bytes_;
  std::byte* device_ = nullptr;
  std::byte* seen_ = nullptr;
  std::mutex mutex_;
  std::map<std::byte*, int64_t> taken_;
};

}  // namespace folio::test
