// SPDX-License-Identifier: Apache-2.0
/// tier/device/cuda_copies.cpp: copies of pages between a CUDA device and pinned memory.
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "folio/tier/device_copies.h"
#include "tier/device/cuda_driver.h"

namespace folio::inline v1::tier {
namespace {

/// The device's primary context is current for the life of the object.
class Current {
 public:
  Current(const CudaDriver& driver, void* context) noexcept
      : driver_(driver), result_(driver.context_push(context)) {}
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    void* context = nullptr;
    if (result_ == 0) driver_.context_pop(&context);
  }
  [[nodiscard]] Status status() const noexcept {
    return result_ == 0 ? Status() : driver_.failure("cuCtxPushCurrent", result_);
  }

 private:
  const CudaDriver& driver_;
  const int result_;
};

class CudaCopies final : public DeviceCopies {
 public:
  CudaCopies(const CudaDriver& driver, int device, void* stream) noexcept
      : driver_(driver), device_(device), followed_(stream) {}
  ~CudaCopies() override;
  [[nodiscard]] Status open() noexcept;

  Result<std::byte*> allocate(int64_t bytes) noexcept override;
  void release(std::byte* memory) noexcept override;
  Status copy(CopyDirection direction, std::span<const DeviceCopy> copies) noexcept override;

 private:
  /// What one call has at a time.
  struct Lane {
    void* stream = nullptr;
    void* event = nullptr;
  };
  [[nodiscard]] Status check(const char* call, int result) const noexcept {
    return result == 0 ? Status() : driver_.failure(call, result);
  }
  [[nodiscard]] Result<Lane> take_lane() noexcept;
  void give_back(Lane lane) noexcept;
  [[nodiscard]] Status check_capture() const noexcept;
  [[nodiscard]] Status follow(const Lane& lane) const noexcept;
  [[nodiscard]] Status put(const Lane& lane, CopyDirection direction,
                           std::span<const DeviceCopy> copies) const noexcept;

  const CudaDriver& driver_;
  const int device_;
  void* const followed_;
  void* context_ = nullptr;
  std::mutex mutex_;
  std::vector<Lane> lanes_;  ///< that nobody has
};

Status CudaCopies::open() noexcept {
  void* context = nullptr;
  Status status = check("cuDevicePrimaryCtxRetain", driver_.context_retain(&context, device_));
  if (status.is_ok()) context_ = context;
  return status;
}

CudaCopies::~CudaCopies() {
  if (context_ == nullptr) return;
  {
    const Current current(driver_, context_);
    for (const Lane& lane : lanes_) {
      driver_.event_destroy(lane.event);
      driver_.stream_destroy(lane.stream);
    }
  }
  driver_.context_release(device_);
}

Result<std::byte*> CudaCopies::allocate(int64_t bytes) noexcept {
  constexpr unsigned portable = 1;
  const Current current(driver_, context_);
  if (Status s = current.status(); !s.is_ok()) return s;
  void* memory = nullptr;
  const int result = driver_.host_alloc(&memory, static_cast<size_t>(bytes), portable);
  if (result != 0) return driver_.failure("cuMemHostAlloc", result);
  return static_cast<std::byte*>(memory);
}

void CudaCopies::release(std::byte* memory) noexcept {
  const Current current(driver_, context_);
  driver_.host_free(memory);
}

Result<CudaCopies::Lane> CudaCopies::take_lane() noexcept {
  constexpr unsigned non_blocking = 1, without_timing = 2;
  {
    const std::lock_guard lock(mutex_);
    if (!lanes_.empty()) {
      const Lane lane = lanes_.back();
      lanes_.pop_back();
      return lane;
    }
  }
  Lane lane;
  if (Status s = check("cuStreamCreate", driver_.stream_create(&lane.stream, non_blocking));
      !s.is_ok())
    return s;
  if (Status s = check("cuEventCreate", driver_.event_create(&lane.event, without_timing));
      !s.is_ok()) {
    driver_.stream_destroy(lane.stream);
    return s;
  }
  return lane;
}

void CudaCopies::give_back(Lane lane) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    lanes_.push_back(lane);
  } catch (const std::bad_alloc&) {
    driver_.event_destroy(lane.event);
    driver_.stream_destroy(lane.stream);
  }
}

/// Before anything that would spoil a capture.
Status CudaCopies::check_capture() const noexcept {
  int capture = 0;
  if (Status s = check("cuStreamIsCapturing", driver_.stream_capture(followed_, &capture));
      !s.is_ok())
    return s;
  if (capture == 0) return {};
  return fail(Errc::device,
              "make_cuda_copies: options.stream is being captured, expected no copy meanwhile");
}

Status CudaCopies::follow(const Lane& lane) const noexcept {
  if (Status s = check("cuEventRecord", driver_.event_record(lane.event, followed_)); !s.is_ok())
    return s;
  return check("cuStreamWaitEvent", driver_.stream_wait(lane.stream, lane.event, 0));
}

Status CudaCopies::put(const Lane& lane, CopyDirection direction,
                       std::span<const DeviceCopy> copies) const noexcept {
  for (const DeviceCopy& c : copies) {
    const auto at = reinterpret_cast<uint64_t>(c.device);
    const auto bytes = static_cast<size_t>(c.bytes);
    Status s = direction == CopyDirection::to_host
                   ? check("cuMemcpyDtoHAsync", driver_.to_host(c.host, at, bytes, lane.stream))
                   : check("cuMemcpyHtoDAsync", driver_.to_device(at, c.host, bytes, lane.stream));
    if (!s.is_ok()) return s;
  }
  return {};
}

Status CudaCopies::copy(CopyDirection direction, std::span<const DeviceCopy> copies) noexcept {
  const Current current(driver_, context_);
  if (Status s = current.status(); !s.is_ok()) return s;
  if (Status s = check_capture(); !s.is_ok()) return s;
  const Result<Lane> lane = take_lane();
  if (!lane) return lane.error();
  Status status = follow(*lane);
  if (status.is_ok()) status = put(*lane, direction, copies);
  // those that were put there still use their bytes, whatever became of the others
  const Status end = check("cuStreamSynchronize", driver_.stream_synchronize(lane->stream));
  give_back(*lane);
  return status.is_ok() ? end : status;
}

}  // namespace
}  // namespace folio::inline v1::tier

namespace folio::inline v1::tier {

Result<std::shared_ptr<DeviceCopies>> make_cuda_copies(const CudaCopiesOptions& options) noexcept {
  const auto no_device = [&] {
    return fail(Errc::invalid_argument,
                "make_cuda_copies: options.device is {}, expected a device of this machine",
                options.device);
  };
  if (options.device < 0) return no_device();
  const Result<const tier::CudaDriver*> driver = tier::load_cuda_driver();
  if (!driver) return driver.error();
  int device = 0;
  if ((*driver)->device_get(&device, options.device) != 0) return no_device();
  try {
    auto copies = std::make_shared<tier::CudaCopies>(**driver, device, options.stream);
    if (Status s = copies->open(); !s.is_ok()) return s;
    return std::shared_ptr<DeviceCopies>(std::move(copies));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_cuda_copies: no memory");
  }
}

}  // namespace folio::inline v1::tier
