// SPDX-License-Identifier: Apache-2.0
/// src/cuda/copy/launch.cpp: as many blocks as the device runs at once.
#include "cuda/copy/launch.h"

#include "cuda/runtime/launch.h"

namespace folio::cuda {

Status launch_copies(const char* function, Device device, const CopyLaunch& copies,
                     Stream stream) noexcept {
  const Result<DeviceFacts> facts = device_facts(function, device);
  if (!facts) return facts.error();
  return launch(function, device, kernel_number(copies.kernel()), copies.blocks(facts->processors),
                &copies.call(), sizeof copies.call(), stream);
}

}  // namespace folio::cuda
