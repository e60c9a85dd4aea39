// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/kernel_table.cpp: looks kernels and images up.
#include "cuda/runtime/kernel_table.h"

#include "cuda/runtime/launch.h"
#include "cuda/runtime/loaded.h"

namespace folio::cuda {
namespace {

bool runs_on(const KernelImage& image, int32_t compute_capability) {
  if (image.is_specific) return image.architecture == compute_capability;
  return image.architecture / 10 == compute_capability / 10 &&
         image.architecture <= compute_capability;
}

}  // namespace

const KernelImage* image_for(const KernelEntry& kernel, int32_t compute_capability) noexcept {
  const KernelImage* best = nullptr;
  for (const KernelImage& image : kernel.images) {
    if (!runs_on(image, compute_capability)) continue;
    if (best == nullptr || image.architecture > best->architecture) best = &image;
  }
  return best;
}

int32_t kernel_number(std::string_view name) noexcept {
  const KernelTable table = kernel_table();
  for (size_t i = 0; i < table.size(); ++i) {
    if (name == table[i].name) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace folio::cuda
