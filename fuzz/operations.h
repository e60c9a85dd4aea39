// SPDX-License-Identifier: Apache-2.0
/// fuzz/operations.h: how many calls a fuzzer makes. With FOLIO_FUZZ_OPERATIONS=N in the
/// environment its program ends well after N of them, of all inputs together.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace folio::fuzz {

inline int64_t& operations_left() {
  static const char* const given = std::getenv("FOLIO_FUZZ_OPERATIONS");
  static int64_t left = given == nullptr ? INT64_MAX : std::strtoll(given, nullptr, 10);
  return left;
}

/// Behind an input.
inline void end_if_all_are_done(const char* program) {
  if (operations_left() > 0) return;
  std::printf("%s: all operations are done\n", program);
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace folio::fuzz
