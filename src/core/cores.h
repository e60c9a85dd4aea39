// SPDX-License-Identifier: Apache-2.0
/// src/core/cores.h: on which core a thread runs, and how it leaves one.
#pragma once

namespace folio::inline v1 {

/// The calling thread's; -1 where the system does not say.
[[nodiscard]] int current_core() noexcept;

/// Moves the calling thread off `core`; false if it may run on no other. Where it may run is what
/// it was when this returns, now by a mask of its own: it does not follow a process that is given
/// more cores later.
bool leave_core(int core) noexcept;

}  // namespace folio::inline v1
