// SPDX-License-Identifier: Apache-2.0
/// folio/tier/device_copies.h: how tiers reach pages that lie in a device's memory.
///
/// A tier whose `TierOptions::device` is set takes extents for addresses of that device, which it
/// never touches itself: a host tier keeps its pages in host memory that the device copies from and
/// to, all others copy each page into such memory before it is stored, and out of it once it is
/// loaded and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1::tier {

enum class CopyDirection : uint8_t { to_host = 0, to_device = 1 };

struct DeviceCopy {
  std::byte* device = nullptr;
  std::byte* host = nullptr;  ///< in memory of `DeviceCopies::allocate`
  int64_t bytes = 0;
};

/// A device, to tiers. Implement it for devices that folio does not know. Threads: tiers call
/// everything from threads of theirs, several at once.
class FOLIO_EXPORT DeviceCopies {
 public:
  DeviceCopies() = default;
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;
  virtual ~DeviceCopies() = default;

  /// Host memory that the device copies from and to at its full rate: 64-byte aligned, never null.
  /// Errors: out_of_memory, device
  [[nodiscard]] virtual Result<std::byte*> allocate(int64_t bytes) noexcept = 0;
  /// What `allocate` gave and no copy uses.
  virtual void release(std::byte* memory) noexcept = 0;
  /// Behind all that the device was to do with these bytes when it was called; has been done when
  /// it returns. Errors: device, and then nothing is known of the bytes it was to write
  [[nodiscard]] virtual Status copy(CopyDirection direction,
                                    std::span<const DeviceCopy> copies) noexcept = 0;
};

struct CudaCopiesOptions {
  int32_t device = 0;
  /// Copies come behind what is on this stream when they begin: put there, or have it wait for, all
  /// work that writes or reads the pool's pages. Null: the legacy default stream, which itself
  /// waits for all streams but non-blocking ones. It stays as long as the copies do. While it is
  /// being captured, copies fail.
  void* stream = nullptr;  ///< a CUstream or cudaStream_t of the device's primary context
};

/// Copies on streams of their own, memory from cuMemHostAlloc, by the driver (libcuda.so.1) that is
/// looked up now. Errors: invalid_argument for a device that there is not; device where there is no
/// driver or it fails; out_of_memory
[[nodiscard]] FOLIO_EXPORT Result<std::shared_ptr<DeviceCopies>> make_cuda_copies(
    const CudaCopiesOptions& options = {}) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::CopyDirection;
using tier::CudaCopiesOptions;
using tier::DeviceCopies;
using tier::DeviceCopy;
using tier::make_cuda_copies;
}  // namespace folio::inline v1
