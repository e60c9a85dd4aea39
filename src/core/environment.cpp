// SPDX-License-Identifier: Apache-2.0
/// src/core/environment.cpp: reads each variable once.
#include "core/environment.h"

#include <cstdlib>

namespace folio::inline v1 {

namespace {

const char* value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

}  // namespace

const char* forced_kernel() noexcept {
  static const char* const value = value_of("FOLIO_FORCE_KERNEL");
  return value;
}

const char* forced_index_kernel() noexcept {
  static const char* const value = value_of("FOLIO_FORCE_INDEX_KERNEL");
  return value;
}

}  // namespace folio::inline v1
