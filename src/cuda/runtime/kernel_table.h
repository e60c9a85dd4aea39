// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/kernel_table.h: the kernels of this build, as the host knows them: made by
/// CMake from src/cuda/kernels.txt.
///
/// A build without nvcc has the table, without images: it knows its kernels and can run none.
/// Thread safety: the table is constant.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace folio::cuda {

/// Machine code of one kernel, a cubin, for one architecture.
struct KernelImage {
  int32_t architecture = 0;  ///< compute capability, major * 10 + minor
  /// Runs on this compute capability alone (sm_90a); else also on later ones of the same major.
  bool is_specific = false;
  const void* data = nullptr;
};

struct KernelEntry {
  const char* name = "";
  int32_t threads = 0;       ///< of a block
  int32_t shared_bytes = 0;  ///< of a block, asked for at launch
  int32_t blocks_per_processor = 1;
  int32_t args_bytes = 0;
  std::span<const KernelImage> images = {};
};

using KernelTable = std::span<const KernelEntry>;

/// Written by CMake: the lines of src/cuda/kernels.txt, in their order.
[[nodiscard]] KernelTable built_kernels() noexcept;

/// What every function of this folder looks kernels up in: built_kernels(), unless a test has put
/// another in its place.
[[nodiscard]] KernelTable kernel_table() noexcept;

/// Puts another table in the place of the build's and forgets every device, so that tests have
/// kernels of their own. An empty one: back to the build's. Nothing else of this folder may run.
void use_kernel_table(KernelTable table) noexcept;

/// The image that runs on a device of the compute capability; null: none does.
[[nodiscard]] const KernelImage* image_for(const KernelEntry& kernel,
                                           int32_t compute_capability) noexcept;

/// An entry as its kernel type states it.
template <class Kernel>
constexpr KernelEntry kernel_entry_of(const char* name, std::span<const KernelImage> images) {
  static_assert(Kernel::threads >= 32 && Kernel::threads <= 1024 && Kernel::threads % 32 == 0);
  static_assert(Kernel::shared_bytes >= 0 && Kernel::shared_bytes <= 227 << 10);
  static_assert(sizeof(typename Kernel::Args) <= 4096, "arguments lie in 4 KiB of constant memory");
  return {name,
          Kernel::threads,
          Kernel::shared_bytes,
          Kernel::blocks_per_processor,
          static_cast<int32_t>(sizeof(typename Kernel::Args)),
          images};
}

}  // namespace folio::cuda
