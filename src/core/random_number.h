// SPDX-License-Identifier: Apache-2.0
/// src/core/random_number.h: numbers that nobody can guess.
#pragma once

#include <cstdint>

#include "folio/core/status.h"

namespace folio::inline v1 {

/// From the system's randomness; waits for it only where the system has just started, and allocates
/// nothing. Thread safe. Errors: io where there is none
[[nodiscard]] Result<uint64_t> random_number() noexcept;

}  // namespace folio::inline v1
