// SPDX-License-Identifier: Apache-2.0
/// src/core/random_number.cpp: asks the system.
#include "core/random_number.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>

namespace folio::inline v1 {

Result<uint64_t> random_number() noexcept {
  uint64_t number = 0;
  if (getentropy(&number, sizeof number) == 0) return number;
  return fail(Errc::io, "the system gives no random numbers (errno {})", errno);
}

}  // namespace folio::inline v1
