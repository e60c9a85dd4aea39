// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_append.h: everything that append and rotate refuse, on any device: of a
/// call whose arrays lie on the CPU all that they hold, of others what the host knows.
#pragma once

#include "attention/check_rows.h"
#include "folio/attention/append.h"
#include "folio/attention/rotate.h"

namespace folio::inline v1 {

/// Errors: as append. Messages begin with "<function>: ".
[[nodiscard]] Status check_append(const char* function, const Batch& batch, const AppendArgs& args,
                                  Memory memory) noexcept;

/// Errors: as rotate.
[[nodiscard]] Status check_rotate(const char* function, const Batch& batch, const RotateArgs& args,
                                  Memory memory) noexcept;

/// Slots of the planes of a call: a slot is less.
[[nodiscard]] int64_t slots_of(const AppendArgs& args) noexcept;

}  // namespace folio::inline v1
