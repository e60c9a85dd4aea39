// SPDX-License-Identifier: Apache-2.0
/// tests/support/cuda_device.h: memory, streams, graphs and events of CUDA device 0 for test
/// programs and benches, by the driver that is found at run time: they build where no toolkit is,
/// and run on the tests' own driver too.
///
/// Every failure throws std::runtime_error with the driver's words. Not thread safe.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "folio/core/execution.h"

namespace folio::test {

class CudaDevice {
 public:
  /// Null: no driver, or no device.
  static CudaDevice* find() {
    static CudaDevice device;
    return device.is_there_ ? &device : nullptr;
  }

  [[nodiscard]] Device device() const { return {Device::Kind::cuda, 0}; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int driver_version() const { return driver_version_; }
  /// CUdevice_attribute
  [[nodiscard]] int attribute(int which) const {
    int value = 0;
    call("cuDeviceGetAttribute", &value, which, id_);
    return value;
  }
  [[nodiscard]] int major() const { return attribute(75); }
  [[nodiscard]] int minor() const { return attribute(76); }
  [[nodiscard]] int64_t l2_bytes() const { return attribute(38); }

  /// Calls a function of the driver, found by its name.
  template <class... Args>
  void call(const char* function, Args... args) const {
    using Function = int(Args...);
    auto* const found = reinterpret_cast<Function*>(dlsym(library_, function));
    if (found == nullptr) throw std::runtime_error(std::string("the driver lacks ") + function);
    const int result = found(args...);
    if (result == 0) return;
    const char* words = nullptr;
    using Words = int(int, const char**);
    if (auto* const ask = reinterpret_cast<Words*>(dlsym(library_, "cuGetErrorName")))
      ask(result, &words);
    throw std::runtime_error(std::string(function) + ": " +
                             (words != nullptr ? words : std::to_string(result).c_str()));
  }
  void synchronise() const { call("cuCtxSynchronize"); }

 private:
  CudaDevice() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    try {
      call("cuInit", 0u);
      call("cuDeviceGet", &id_, 0);
      void* context = nullptr;
      call("cuDevicePrimaryCtxRetain", &context, id_);
      call("cuCtxPushCurrent_v2", context);
      is_there_ = true;
      call("cuDriverGetVersion", &driver_version_);
      char text[256] = "";
      call("cuDeviceGetName", static_cast<char*>(text), int{sizeof text}, id_);
      name_ = text;
    } catch (const std::runtime_error& error) {
      if (!is_there_) name_ = error.what();
    }
  }

  void* library_ = nullptr;
  int id_ = 0;
  int driver_version_ = 0;
  bool is_there_ = false;
  std::string name_ = "a device without a name";
};

/// Device memory for the life of the object.
class CudaMemory {
 public:
  CudaMemory() = default;
  CudaMemory(const CudaDevice& device, int64_t bytes) : device_(&device), bytes_(bytes) {
    device.call("cuMemAlloc_v2", &data_, static_cast<size_t>(bytes < 16 ? 16 : bytes));
  }
  CudaMemory(CudaMemory&& other) noexcept { *this = std::move(other); }
  CudaMemory& operator=(CudaMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CudaMemory() {
    try {
      if (data_ != nullptr) device_->call("cuMemFree_v2", data_);
    } catch (const std::runtime_error&) {  // behind a fault nothing is left to free
    }
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] MemorySpan span() const { return {data_, bytes_}; }
  void upload(const void* from, int64_t bytes, int64_t to = 0) const {
    device_->call("cuMemcpyHtoD_v2", static_cast<void*>(data() + to), from,
                  static_cast<size_t>(bytes));
  }
  void download(void* to, int64_t bytes) const {
    device_->call("cuMemcpyDtoH_v2", to, data_, static_cast<size_t>(bytes));
  }
  /// Copies the first `bytes` over and over.
  void repeat(int64_t bytes) const {
    for (int64_t done = bytes; done < bytes_; done *= 2)
      device_->call("cuMemcpyDtoD_v2", static_cast<void*>(data() + done), data_,
                    static_cast<size_t>(done < bytes_ - done ? done : bytes_ - done));
  }

 private:
  const CudaDevice* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Host memory that the device reaches, for the life of the object.
class PinnedMemory {
 public:
  PinnedMemory(const CudaDevice& device, int64_t bytes) : device_(device), bytes_(bytes) {
    device.call("cuMemHostAlloc", &data_, static_cast<size_t>(bytes), 0u);
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    try {
      device_.call("cuMemFreeHost", data_);
    } catch (const std::runtime_error&) {  // behind a fault nothing is left to free
    }
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] MemorySpan span() const { return {data_, bytes_}; }

 private:
  const CudaDevice& device_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// What was put on a stream once, to be run again and again.
class CudaGraph {
 public:
  template <class Work>
  CudaGraph(const CudaDevice& device, Work work) : device_(device) {
    device.call("cuStreamCreate", &stream_, 1u);  // non-blocking
    device.call("cuEventCreate", &begin_, 0u);
    device.call("cuEventCreate", &end_, 0u);
    constexpr int thread_local_mode = 1;
    void* graph = nullptr;
    device.call("cuStreamBeginCapture_v2", stream_, thread_local_mode);
    work(Stream{stream_});
    device.call("cuStreamEndCapture", stream_, &graph);
    device.call("cuGraphInstantiateWithFlags", &replay_, graph, uint64_t{0});
    device.call("cuGraphDestroy", graph);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() {
    try {
      device_.call("cuGraphExecDestroy", replay_);
      device_.call("cuEventDestroy_v2", begin_);
      device_.call("cuEventDestroy_v2", end_);
      device_.call("cuStreamDestroy_v2", stream_);
    } catch (const std::runtime_error&) {  // behind a fault nothing is left to free
    }
  }
  /// Seconds from the first to the last of its work.
  double run() {
    device_.call("cuEventRecord", begin_, stream_);
    device_.call("cuGraphLaunch", replay_, stream_);
    device_.call("cuEventRecord", end_, stream_);
    device_.call("cuEventSynchronize", end_);
    float milliseconds = 0;
    device_.call("cuEventElapsedTime", &milliseconds, begin_, end_);
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  const CudaDevice& device_;
  void* stream_ = nullptr;
  void* begin_ = nullptr;
  void* end_ = nullptr;
  void* replay_ = nullptr;
};

}  // namespace folio::test
