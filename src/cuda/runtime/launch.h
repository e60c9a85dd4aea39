// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/launch.h: kernels of this build on a device: loaded once, launched on streams.
///
/// Kernels are known by their names in src/cuda/kernels.txt. Nothing here waits for a device.
/// Thread safety: usable from any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::cuda {

struct DeviceFacts {
  int32_t processors = 0;          ///< streaming multiprocessors
  int32_t compute_capability = 0;  ///< major * 10 + minor
  int64_t shared_bytes = 0;        ///< of a block at the most
};

/// Asks the driver until the device's kernels are loaded, then nobody.
/// Errors: device (no driver, no such device, the driver's own); unsupported where folio is built
/// without CUDA kernels or none runs on the device.
[[nodiscard]] Result<DeviceFacts> device_facts(const char* function, Device device) noexcept;

/// Loads every kernel of the build that runs on the device, unless that has happened: the one step
/// that allocates. Errors: as device_facts.
[[nodiscard]] Status load_kernels(const char* function, Device device) noexcept;

/// A kernel's number in the table of this build; -1: there is none of the name.
[[nodiscard]] int32_t kernel_number(std::string_view name) noexcept;

/// Puts `blocks` blocks of the kernel on the stream, with one argument of `bytes` bytes, which is
/// copied. Loads nothing unless the kernels were never loaded and the stream is not being captured.
/// Errors: device, with the driver's words; unsupported for a kernel that the device does not run.
[[nodiscard]] Status launch(const char* function, Device device, int32_t kernel, int64_t blocks,
                            const void* args, int64_t bytes, Stream stream) noexcept;

/// Sets `words` 32-bit words on the stream.
[[nodiscard]] Status fill_async(const char* function, Device device, uint32_t* at, uint32_t value,
                                int64_t words, Stream stream) noexcept;

}  // namespace folio::cuda
