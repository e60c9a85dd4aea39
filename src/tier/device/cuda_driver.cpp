// SPDX-License-Identifier: Apache-2.0
/// tier/device/cuda_driver.cpp: looks the functions up in libcuda.so.1.
#include "tier/device/cuda_driver.h"

#include <string>

#include "tier/shared_library.h"

namespace folio::inline v1::tier {
namespace {

std::string look_up(CudaDriver& d) {
  // never closed: the driver does not survive it
  SharedLibrary library("libcuda.so.1");
  library.find("cuInit", &d.init);
  library.find("cuGetErrorName", &d.error_name);
  library.find("cuDeviceGet", &d.device_get);
  library.find("cuDevicePrimaryCtxRetain", &d.context_retain);
  library.find("cuDevicePrimaryCtxRelease_v2", &d.context_release);
  library.find("cuCtxPushCurrent_v2", &d.context_push);
  library.find("cuCtxPopCurrent_v2", &d.context_pop);
  library.find("cuMemHostAlloc", &d.host_alloc);
  library.find("cuMemFreeHost", &d.host_free);
  library.find("cuMemcpyHtoDAsync_v2", &d.to_device);
  library.find("cuMemcpyDtoHAsync_v2", &d.to_host);
  library.find("cuStreamCreate", &d.stream_create);
  library.find("cuStreamDestroy_v2", &d.stream_destroy);
  library.find("cuStreamWaitEvent", &d.stream_wait);
  library.find("cuStreamSynchronize", &d.stream_synchronize);
  library.find("cuStreamIsCapturing", &d.stream_capture);
  library.find("cuEventCreate", &d.event_create);
  library.find("cuEventDestroy_v2", &d.event_destroy);
  library.find("cuEventRecord", &d.event_record);
  if (!library.fault().empty()) return library.fault();
  if (const int result = d.init(0); result != 0)
    return std::string(d.failure("cuInit", result).message());
  return {};
}

using Driver = LibraryOnce<CudaDriver, look_up>;

}  // namespace

Result<const CudaDriver*> load_cuda_driver() noexcept {
  if (Status is = Driver::load("make_cuda_copies", "no CUDA driver", Errc::device); !is.is_ok())
    return is;
  return &Driver::functions();
}

Status CudaDriver::failure(const char* call, int result) const noexcept {
  constexpr int cuda_out_of_memory = 2;
  const char* name = nullptr;
  if (error_name(result, &name) != 0 || name == nullptr) name = "unknown error";
  return fail(result == cuda_out_of_memory ? Errc::out_of_memory : Errc::device,
              "make_cuda_copies: {} failed with {} ({})", call, result, name);
}

}  // namespace folio::inline v1::tier
