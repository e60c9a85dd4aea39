// SPDX-License-Identifier: Apache-2.0
/// src/core/cores.cpp: asks Linux; knows nothing elsewhere.
#include "core/cores.h"

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

namespace folio::inline v1 {

#ifdef __linux__

namespace {

/// The cores of a thread; none on machines with more cores than the set holds, where threads stay.
cpu_set_t cores_of(pid_t thread) noexcept {
  cpu_set_t cores;
  if (sched_getaffinity(thread, sizeof cores, &cores) != 0) CPU_ZERO(&cores);
  return cores;
}

const cpu_set_t at_load = cores_of(getpid());  // who loads may be a thread that is bound already

}  // namespace

int current_core() noexcept { return sched_getcpu(); }

bool leave_core(int core) noexcept {
  if (core < 0 || core >= CPU_SETSIZE) return false;
  const cpu_set_t allowed = cores_of(0);
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<size_t>(core), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  return sched_setaffinity(0, sizeof allowed, &allowed) == 0;
}

bool leave_starters_cores() noexcept {
  const cpu_set_t allowed = cores_of(0);
  cpu_set_t both;
  CPU_AND(&both, &allowed, &at_load);
  if (CPU_COUNT(&allowed) == 0 || !CPU_EQUAL(&both, &allowed)) return false;
  return CPU_EQUAL(&allowed, &at_load) || sched_setaffinity(0, sizeof at_load, &at_load) == 0;
}

#else

int current_core() noexcept { return -1; }
bool leave_core(int) noexcept { return false; }
bool leave_starters_cores() noexcept { return false; }

#endif

}  // namespace folio::inline v1
