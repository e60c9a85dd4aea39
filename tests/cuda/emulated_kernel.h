// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_kernel.h: makes a kernel's type a kernel of the emulated device.
#pragma once

#include <span>

#include "cuda/emulated_device.h"
#include "folio/testing/cta/grid.h"

namespace folio::test {

/// Images for every device from compute capability 8.0, and from 9.0, on.
inline constexpr cuda::KernelImage images_for_all[] = {{80, false, emulated_code},
                                                       {90, true, emulated_code},
                                                       {100, true, emulated_code},
                                                       {120, true, emulated_code}};
inline constexpr std::span<const cuda::KernelImage> images_from_90 =
    std::span(images_for_all).subspan(1);

template <class Kernel>
EmulatedKernel emulated_kernel(const char* name,
                               std::span<const cuda::KernelImage> images = images_for_all) {
  return {cuda::kernel_entry_of<Kernel>(name, images),
          [](emulator::EmulatedThread& thread, const void* args) {
            Kernel::run(thread, *static_cast<const typename Kernel::Args*>(args));
          }};
}

}  // namespace folio::test
