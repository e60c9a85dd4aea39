// SPDX-License-Identifier: Apache-2.0
/// examples/memory.h: memory where a device reaches it, for examples that run on a CPU or on a GPU.
///
/// On a GPU an engine has all this from its own run time (cudaMalloc, cudaMemcpy). Here it comes
/// from the driver, found when it is needed: the examples build where no CUDA toolkit is.
#pragma once

#include <dlfcn.h>
#include <folio/core/buffer.h>
#include <folio/core/execution.h>
#include <folio/core/status.h>

#include <cstring>
#include <span>
#include <utility>

namespace example {

/// Calls a function of the driver by its name. Throws folio::Error.
template <class... Args>
void call_driver(const char* name, Args... args) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* const function =
      library == nullptr ? nullptr : reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  const int result = function == nullptr ? -1 : function(args...);
  if (result == 0) return;
  folio::fail(folio::Errc::device, "{}: {}", name,
              function == nullptr ? "no CUDA driver has it" : "the driver refuses")
      .or_throw();
}

/// A GPU's context, current in this thread for the life of the object: the driver gives memory to
/// no other. A program on the CUDA run time has it from its first call. On a CPU: nothing.
class CurrentDevice {
 public:
  explicit CurrentDevice(folio::Device device) : is_gpu_(device.kind == folio::Device::Kind::cuda) {
    if (!is_gpu_) return;
    void* context = nullptr;
    call_driver("cuInit", 0u);
    call_driver("cuDeviceGet", &id_, int{device.index});
    call_driver("cuDevicePrimaryCtxRetain", &context, id_);
    call_driver("cuCtxPushCurrent_v2", context);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (!is_gpu_) return;
    try {
      void* context = nullptr;
      call_driver("cuCtxPopCurrent_v2", &context);
      call_driver("cuDevicePrimaryCtxRelease_v2", id_);
    } catch (const folio::Error&) {  // behind a failed kernel nothing is left to give back
    }
  }

 private:
  bool is_gpu_;
  int id_ = 0;
};

/// Bytes on the current device for the life of the object. Copies wait for the null stream's work.
class Memory {
 public:
  Memory(folio::Device device, int64_t bytes) : is_host_(device.kind == folio::Device::Kind::cpu) {
    if (is_host_) {
      host_ = folio::Buffer::allocate(bytes).value();
      span_ = host_.span();
    } else if (bytes > 0) {
      span_.bytes = bytes;
      call_driver("cuMemAlloc_v2", &span_.data, static_cast<size_t>(bytes));
    }
  }
  Memory(Memory&& other) noexcept
      : is_host_(other.is_host_),
        host_(std::move(other.host_)),
        span_(std::exchange(other.span_, {})) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (is_host_ || span_.data == nullptr) return;
    try {
      call_driver("cuMemFree_v2", span_.data);
    } catch (const folio::Error&) {  // behind a failed kernel nothing is left to free
    }
  }

  [[nodiscard]] folio::MemorySpan span() const { return span_; }
  template <class T>
  [[nodiscard]] T* data() const {
    return static_cast<T*>(span_.data);
  }
  /// The values, where the device reads them: they are copied to the front.
  template <class T>
  const T* take(std::span<const T> values) const {
    if (values.size_bytes() > static_cast<size_t>(span_.bytes))
      folio::fail(folio::Errc::internal, "Memory::take: {} bytes for {}", values.size_bytes(),
                  span_.bytes)
          .or_throw();
    if (values.empty()) return data<T>();
    if (is_host_)
      std::memcpy(span_.data, values.data(), values.size_bytes());
    else
      call_driver("cuMemcpyHtoD_v2", span_.data, static_cast<const void*>(values.data()),
                  values.size_bytes());
    return data<T>();
  }
  /// Fills `values` from the front, when all work is done.
  template <class T>
  void give(std::span<T> values) const {
    if (values.empty()) return;
    if (is_host_)
      std::memcpy(values.data(), span_.data, values.size_bytes());
    else
      call_driver("cuMemcpyDtoH_v2", static_cast<void*>(values.data()), span_.data,
                  values.size_bytes());
  }

 private:
  bool is_host_;
  folio::Buffer host_;
  folio::MemorySpan span_;
};

}  // namespace example
