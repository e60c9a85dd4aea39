// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_table.h: lets programs that only know of a driver use the emulated device.
#pragma once

#include <dlfcn.h>

#include <vector>

#include "cuda/runtime/kernel_table.h"

namespace folio::test {

/// Where the driver is the tests' own it has every kernel of the build by its name: the table says
/// so, which has images otherwise. Before anything is loaded.
inline void use_emulated_kernels() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr || dlsym(driver, "fake_driver") == nullptr) return;
  static constexpr cuda::KernelImage images[] = {{80, false, "emulated"}, {90, true, "emulated"}};
  static std::vector<cuda::KernelEntry> table;
  for (cuda::KernelEntry kernel : cuda::built_kernels()) {
    kernel.images = images;
    table.push_back(kernel);
  }
  cuda::use_kernel_table(table);
}

}  // namespace folio::test
