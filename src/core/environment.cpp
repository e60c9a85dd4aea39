// SPDX-License-Identifier: Apache-2.0
/// src/core/environment.cpp: reads each variable once.
#include "core/environment.h"

#include <cstdlib>

namespace folio::inline v1 {

const char* forced_kernel() noexcept {
  static const char* const value = std::getenv("FOLIO_FORCE_KERNEL");
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

}  // namespace folio::inline v1
