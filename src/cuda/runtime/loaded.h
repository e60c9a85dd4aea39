// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/loaded.h: what load_kernels() leaves on a device.
///
/// A device's kernels are loaded once and kept for the life of the process, with its primary
/// context: launching finds them by an index and takes no lock.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/runtime/driver.h"
#include "cuda/runtime/kernel_table.h"
#include "cuda/runtime/launch.h"
#include "folio/core/execution.h"

namespace folio::cuda {

/// Indices from here on are refused.
inline constexpr int32_t max_devices = 64;

struct LoadedDevice {
  const Driver* driver = nullptr;
  DriverContext context = nullptr;  ///< the primary one, held
  DeviceFacts facts;
  /// Per kernel of the table; null for one that does not run on the device.
  std::unique_ptr<DriverFunction[]> functions;
};

/// Null: the device's kernels were never loaded. Thread safety: usable from any thread.
[[nodiscard]] const LoadedDevice* loaded_device(Device device) noexcept;

/// device_facts() of the driver.
[[nodiscard]] Result<DeviceFacts> read_device_facts(const char* function, Device device) noexcept;

/// The device is a CUDA device by kind and index.
[[nodiscard]] Status check_device(const char* function, Device device) noexcept;

}  // namespace folio::cuda
