// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_runner.h: runs the kernels of an emulated device: what the libcuda.so.1 of
/// the tests calls back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/fake_driver.h"
#include "cuda/runtime/kernel_table.h"
#include "folio/testing/cta/grid.h"

namespace folio::test {

/// A kernel as the emulator runs it. Its entry's images say on which devices; they hold no code.
struct EmulatedKernel {
  cuda::KernelEntry entry;
  void (*run)(emulator::EmulatedThread& thread, const void* args) = nullptr;
};

/// The code of every kernel of an emulated device.
inline constexpr char emulated_code[] = "emulated";

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

class EmulatedRunner {
 public:
  explicit EmulatedRunner(std::span<const EmulatedKernel> kernels = {}, int processors = 1)
      : kernels_(kernels.begin(), kernels.end()), processors_(processors) {}

  /// What the driver is given; valid as long as this object.
  [[nodiscard]] KernelRunner callbacks();
  [[nodiscard]] std::span<const EmulatedKernel> kernels() const { return kernels_; }
  /// Of the kernel that ran last.
  [[nodiscard]] const emulator::GridCounts& counts() const { return counts_; }

 private:
  [[nodiscard]] const EmulatedKernel* find(std::string_view name) const;
  std::string run(const EmulatedKernel& kernel, const LaunchCall& call);

  std::vector<EmulatedKernel> kernels_;
  int processors_;
  emulator::GridCounts counts_;
  std::string words_;
};

}  // namespace folio::test
