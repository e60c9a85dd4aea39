// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/launch.cpp: one launch, or two where K and V need different kernels.
#include "cuda/append/launch.h"

#include "cuda/append/kernels.h"
#include "cuda/runtime/launch.h"

namespace folio::cuda {

Status launch_append(const char* function, Device device, const AppendCall& call,
                     Stream stream) noexcept {
  const Result<DeviceFacts> facts = device_facts(function, device);
  if (!facts) return facts.error();
  const AppendLaunches launches = append_launches(call, facts->processors);
  for (int i = 0; i < launches.count; ++i) {
    const AppendLaunch& one = launches.launch[i];
    if (Status s = launch(function, device, kernel_number(one.kernel), one.blocks, &one.call,
                          sizeof one.call, stream);
        !s.is_ok())
      return s;
  }
  return {};
}

}  // namespace folio::cuda
