// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_table.cpp: linked into an example, which cannot know, has it use the
/// emulated device.
#include "cuda/emulated_table.h"

namespace folio::test {
namespace {

[[maybe_unused]] const bool is_told = (use_emulated_kernels(), true);

}  // namespace
}  // namespace folio::test
