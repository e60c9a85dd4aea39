// SPDX-License-Identifier: Apache-2.0
/// tier/device/cuda_driver.cpp: looks the functions up in libcuda.so.1.
#include "tier/device/cuda_driver.h"

#include <dlfcn.h>

#include <new>
#include <string>

namespace folio::inline v1::tier {
namespace {

struct Loaded {
  CudaDriver driver;
  std::string fault;
};

Loaded load() {
  Loaded loaded;
  // never closed: the driver does not survive it
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.fault = ::dlerror();
    return loaded;
  }
  const auto find = [&]<class F>(const char* name, F* function) {
    *function = reinterpret_cast<F>(::dlsym(library, name));
    if (*function == nullptr && loaded.fault.empty())
      loaded.fault = std::string("it has no ") + name;
  };
  CudaDriver& d = loaded.driver;
  find("cuInit", &d.init);
  find("cuGetErrorName", &d.error_name);
  find("cuDeviceGet", &d.device_get);
  find("cuDevicePrimaryCtxRetain", &d.context_retain);
  find("cuDevicePrimaryCtxRelease_v2", &d.context_release);
  find("cuCtxPushCurrent_v2", &d.context_push);
  find("cuCtxPopCurrent_v2", &d.context_pop);
  find("cuMemHostAlloc", &d.host_alloc);
  find("cuMemFreeHost", &d.host_free);
  find("cuMemcpyHtoDAsync_v2", &d.to_device);
  find("cuMemcpyDtoHAsync_v2", &d.to_host);
  find("cuStreamCreate", &d.stream_create);
  find("cuStreamDestroy_v2", &d.stream_destroy);
  find("cuStreamWaitEvent", &d.stream_wait);
  find("cuStreamSynchronize", &d.stream_synchronize);
  find("cuStreamIsCapturing", &d.stream_capture);
  find("cuEventCreate", &d.event_create);
  find("cuEventDestroy_v2", &d.event_destroy);
  find("cuEventRecord", &d.event_record);
  if (loaded.fault.empty())
    if (const int result = d.init(0); result != 0)
      loaded.fault = d.failure("cuInit", result).message();
  return loaded;
}

}  // namespace

Result<const CudaDriver*> load_cuda_driver() noexcept {
  try {
    static const Loaded loaded = load();
    if (!loaded.fault.empty())
      return fail(Errc::device, "make_cuda_copies: no CUDA driver: {}",
                  std::string_view(loaded.fault));
    return &loaded.driver;
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_cuda_copies: no memory");
  }
}

Status CudaDriver::failure(const char* call, int result) const noexcept {
  constexpr int cuda_out_of_memory = 2;
  const char* name = nullptr;
  if (error_name(result, &name) != 0 || name == nullptr) name = "unknown error";
  return fail(result == cuda_out_of_memory ? Errc::out_of_memory : Errc::device,
              "make_cuda_copies: {} failed with {} ({})", call, result, name);
}

}  // namespace folio::inline v1::tier
