// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_device.cuh: device memory and launches of the test programs, by the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "cuda/gpu_records.h"

namespace folio::test {

inline constexpr int max_shared_bytes = 200 * 1024;

/// Throws: behind an error the context is of no use any more.
inline void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// Device memory for the life of the object.
class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    must(cudaMalloc(&data_, bytes_), "cudaMalloc");
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }
  void upload(const void* from, int64_t bytes) {
    must(cudaMemcpy(data_, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "upload");
  }
  void download(void* to, int64_t bytes) const {
    must(cudaMemcpy(to, data_, static_cast<size_t>(bytes), cudaMemcpyDefault), "download");
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

/// One block, waited for.
template <class... Parameters, class... Args>
void launch_block(void (*kernel)(Parameters...), int threads, int shared_bytes,
                  const Args&... args) {
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, max_shared_bytes),
       "cudaFuncSetAttribute");
  kernel<<<1, threads, static_cast<size_t>(shared_bytes)>>>(args...);
  must(cudaGetLastError(), "launch");
  must(cudaDeviceSynchronize(), "kernel");
}

/// The first device. An empty name: there is none.
inline GpuHead first_gpu() {
  GpuHead head;
  int count = 0;
  cudaDeviceProp properties;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0 ||
      cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
    return head;
  head.gpu = properties.name;
  head.major = properties.major;
  head.minor = properties.minor;
  must(cudaDriverGetVersion(&head.driver_version), "cudaDriverGetVersion");
  return head;
}

}  // namespace folio::test
