// SPDX-License-Identifier: Apache-2.0
/// tests/support/cuda_launches.h: which instances of src/cuda/kernels.txt a program has
/// launched: its linker puts a note before every launch (--wrap).
#pragma once

#include <set>
#include <string>

namespace folio::test {

/// Names since the last call.
std::set<std::string> take_launched_kernels();

}  // namespace folio::test
