// SPDX-License-Identifier: Apache-2.0
/// tests/support/cuda_launches.cpp: notes launches between the border and folio::cuda::launch.
#include "support/cuda_launches.h"

#include <utility>

#include "cuda/runtime/kernel_table.h"
#include "cuda/runtime/launch.h"

namespace folio::test {
namespace {

std::set<std::string>& launched() {
  static std::set<std::string> names;
  return names;
}

}  // namespace

std::set<std::string> take_launched_kernels() { return std::exchange(launched(), {}); }

}  // namespace folio::test

namespace folio::cuda {

// The mangled name of folio::cuda::launch, as tests/support/CMakeLists.txt wraps it.
Status launch_itself(const char* function, Device device, int32_t kernel, int64_t blocks,
                     const void* args, int64_t bytes, Stream stream) noexcept
    asm("__real_" FOLIO_LAUNCH_SYMBOL);
Status launch_with_note(const char* function, Device device, int32_t kernel, int64_t blocks,
                        const void* args, int64_t bytes, Stream stream) noexcept
    asm("__wrap_" FOLIO_LAUNCH_SYMBOL);

Status launch_with_note(const char* function, Device device, int32_t kernel, int64_t blocks,
                        const void* args, int64_t bytes, Stream stream) noexcept {
  const KernelTable table = kernel_table();
  if (kernel >= 0 && kernel < static_cast<int32_t>(table.size()))
    test::launched().insert(table[static_cast<size_t>(kernel)].name);
  return launch_itself(function, device, kernel, blocks, args, bytes, stream);
}

}  // namespace folio::cuda
