// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/launch.cpp: puts kernels and fills on streams: no lock, no allocation, no
/// waiting.
#include "cuda/runtime/launch.h"

#include <limits>

#include "cuda/runtime/loaded.h"

namespace folio::cuda {
namespace {

constexpr int not_capturing = 0;  // CUstreamCaptureStatus

/// The device with its kernels. Where they were never loaded they are now, which allocates:
/// impossible while the stream is captured.
Result<const LoadedDevice*> ready(const char* function, Device device, Stream stream) {
  if (Status s = check_device(function, device); !s.is_ok()) return s;
  if (const LoadedDevice* const found = loaded_device(device); found != nullptr) return found;
  const Result<const Driver*> found = driver(function);
  if (!found) return found.error();
  int state = not_capturing;
  if (const DriverResult result = (*found)->stream_capture(stream.handle, &state); result != 0)
    return (*found)->failure(function, "cuStreamIsCapturing", result);
  if (state != not_capturing)
    return fail(Errc::device,
                "{}: the stream is being captured and the kernels of device {} were never loaded, "
                "expected a call outside of captures before",
                function, device.index);
  if (Status s = load_kernels(function, device); !s.is_ok()) return s;
  return loaded_device(device);
}

Status does_not_run(const char* function, const LoadedDevice& device, const KernelEntry& kernel) {
  if (kernel.shared_bytes > device.facts.shared_bytes)
    return fail(Errc::unsupported,
                "{}: kernel {} needs {} bytes of shared memory, the device has {} (per block)",
                function, kernel.name, kernel.shared_bytes, device.facts.shared_bytes);
  return fail(Errc::unsupported, "{}: kernel {} is not built for compute capability {}.{}",
              function, kernel.name, device.facts.compute_capability / 10,
              device.facts.compute_capability % 10);
}

Status check_launch(const char* function, int32_t kernel, int64_t blocks, const void* args,
                    int64_t bytes) {
  const KernelTable table = kernel_table();
  if (kernel < 0 || kernel >= static_cast<int64_t>(table.size()))
    return fail(Errc::internal, "{}: no kernel has the number {}, expected 0 to {}", function,
                kernel, static_cast<int64_t>(table.size()) - 1);
  const KernelEntry& entry = table[static_cast<size_t>(kernel)];
  if (args == nullptr || bytes != entry.args_bytes)
    return fail(Errc::internal, "{}: kernel {} was given an argument of {} bytes, expected {}",
                function, entry.name, args == nullptr ? 0 : bytes, entry.args_bytes);
  if (blocks < 0 || blocks > std::numeric_limits<int32_t>::max())
    return fail(Errc::invalid_argument, "{}: kernel {} was given {} blocks, expected 0 to 2^31 - 1",
                function, entry.name, blocks);
  return {};
}

}  // namespace

Status launch(const char* function, Device device, int32_t kernel, int64_t blocks, const void* args,
              int64_t bytes, Stream stream) noexcept {
  if (Status s = check_launch(function, kernel, blocks, args, bytes); !s.is_ok()) return s;
  const Result<const LoadedDevice*> found = ready(function, device, stream);
  if (!found) return found.error();
  const LoadedDevice& on = **found;
  const KernelEntry& entry = kernel_table()[static_cast<size_t>(kernel)];
  const DriverFunction code = on.functions[static_cast<size_t>(kernel)];
  if (code == nullptr) return does_not_run(function, on, entry);
  if (blocks == 0) return {};

  CurrentContext current(*on.driver);
  if (Status s = current.enter(function, on.context); !s.is_ok()) return s;
  void* list[] = {const_cast<void*>(args)};
  const DriverResult result = on.driver->launch(
      code, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(entry.threads), 1, 1,
      static_cast<unsigned>(entry.shared_bytes), stream.handle, list, nullptr);
  if (result == 0) return {};
  const Status why = on.driver->failure(function, "cuLaunchKernel", result);
  return fail(why.code(), "{}, at kernel {}", why.message(), entry.name);
}

Status fill_async(const char* function, Device device, uint32_t* at, uint32_t value, int64_t words,
                  Stream stream) noexcept {
  if (words < 0 || (words > 0 && at == nullptr))
    return fail(Errc::invalid_argument, "{}: fill of {} words{}", function, words,
                words < 0 ? ", expected 0 or more" : " at null");
  const Result<const LoadedDevice*> found = ready(function, device, stream);
  if (!found) return found.error();
  if (words == 0) return {};
  const LoadedDevice& on = **found;
  CurrentContext current(*on.driver);
  if (Status s = current.enter(function, on.context); !s.is_ok()) return s;
  const DriverResult result = on.driver->fill_words(reinterpret_cast<uintptr_t>(at), value,
                                                    static_cast<size_t>(words), stream.handle);
  if (result == 0) return {};
  return on.driver->failure(function, "cuMemsetD32Async", result);
}

}  // namespace folio::cuda
