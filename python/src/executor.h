// SPDX-License-Identifier: Apache-2.0
/// python/src/executor.h: whose threads run folio's kernels in a Python process.
///
/// folio's own (thread_pool_executor), until a library with an OpenMP runtime is seen (torch): from
/// then on that runtime's, so that both take turns on the same threads instead of pushing each
/// other off the cores, unless set_threads says otherwise; folio's own again while others are on
/// the cores of those (team_executor). One number says how many.
#pragma once

#include <string>

#include "folio/core/execution.h"

namespace folio::python {

/// The executor of this moment.
Executor current_executor();

/// Looks for an OpenMP runtime in the process and takes its threads from then on. Harmless to
/// repeat. Returns whether there is one.
bool share_openmp_threads();

/// 0: as many as the machine offers, or as the OpenMP runtime is set to use. Throws Error for a
/// negative number or one above 4096.
void set_num_threads(int threads);
int num_threads();

/// Whose threads: folio's own whatever the process has, or those of an OpenMP runtime where one is
/// shared.
enum class Threads { automatic, pool };
void set_threads(Threads threads);

/// "thread_pool", or "OpenMP (PATH of the runtime)".
std::string executor_name();

}  // namespace folio::python
