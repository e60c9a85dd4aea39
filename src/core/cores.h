// SPDX-License-Identifier: Apache-2.0
/// src/core/cores.h: on which core a thread runs, where it may, and how it leaves one.
#pragma once

namespace folio::inline v1 {

/// The calling thread's; -1 where the system does not say.
[[nodiscard]] int current_core() noexcept;

/// Moves the calling thread off `core`; false if it may run on no other, or if the system has taken
/// its cores away meanwhile. Where it may run is what it was when this returns, now by a mask of
/// its own: it does not follow a process that is given more cores later.
bool leave_core(int core) noexcept;

/// Lets the calling thread, which was started by one that has bound itself to some cores, run where
/// the process' first thread might when folio was loaded. Nothing is done, and false returned,
/// where the calling thread may run on other cores than those: whoever gave it these knew what it
/// did.
bool leave_starters_cores() noexcept;

}  // namespace folio::inline v1
