// SPDX-License-Identifier: Apache-2.0
/// src/no_cuda/launch.cpp: kernels of a build without CUDA: none, and every call says so.
#include "cuda/runtime/launch.h"

#include "cuda/runtime/kernel_table.h"
#include "cuda/runtime/pointer.h"

namespace folio::cuda {
namespace {

Status without_cuda(const char* function, Device device) {
  if (device.kind != Device::Kind::cuda)
    return fail(Errc::invalid_argument, "{}: the device is no CUDA device", function);
  return fail(Errc::unsupported, "{}: folio was built without CUDA (FOLIO_CUDA=OFF)", function);
}

}  // namespace

KernelTable built_kernels() noexcept { return {}; }

KernelTable kernel_table() noexcept { return {}; }

void use_kernel_table(KernelTable) noexcept {}

Result<DeviceFacts> device_facts(const char* function, Device device) noexcept {
  return without_cuda(function, device);
}

Status load_kernels(const char* function, Device device) noexcept {
  return without_cuda(function, device);
}

int32_t kernel_number(std::string_view) noexcept { return -1; }

Status launch(const char* function, Device device, int32_t, int64_t, const void*, int64_t,
              Stream) noexcept {
  return without_cuda(function, device);
}

Status fill_async(const char* function, Device device, uint32_t*, uint32_t, int64_t,
                  Stream) noexcept {
  return without_cuda(function, device);
}

Status check_device_pointer(const char* function, const char*, Device device, const void*,
                            Pinned) noexcept {
  return without_cuda(function, device);
}

}  // namespace folio::cuda
