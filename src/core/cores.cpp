// SPDX-License-Identifier: Apache-2.0
/// src/core/cores.cpp: asks Linux; knows nothing elsewhere.
#include "core/cores.h"

#ifdef __linux__
#include <sched.h>
#endif

namespace folio::inline v1 {

#ifdef __linux__

int current_core() noexcept { return sched_getcpu(); }

bool leave_core(int core) noexcept {
  cpu_set_t allowed;  // machines with more cores than it holds refuse, and threads stay
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return false;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<size_t>(core), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

#else

int current_core() noexcept { return -1; }
bool leave_core(int) noexcept { return false; }

#endif

}  // namespace folio::inline v1
