// SPDX-License-Identifier: Apache-2.0
/// src/core/run_on.h: tasks on a caller's executor. All that folio asks of one it asks here: what
/// it throws ends here, and no task runs twice.
#pragma once

#include <cstdint>

#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Errors: invalid_argument, "<function>: executor...", for an executor without functions.
[[nodiscard]] Status check_executor(const char* function, const Executor& executor) noexcept;

/// How many tasks the executor may run at once, at least 1.
/// Errors: internal, "<function>: executor...", if it throws.
[[nodiscard]] Result<int64_t> concurrency_of(const char* function,
                                             const Executor& executor) noexcept;

/// Runs task(arg, i) for each i in [0, n); a single one on the calling thread. A call of the
/// executor with an index that is out of range, or that had its turn, does nothing.
/// Errors: internal, "<function>: executor...", if it throws or returns before every task was
///         begun: some have run then, each at most once
[[nodiscard]] Status run_on(const char* function, const Executor& executor, int64_t n,
                            void (*task)(void* arg, int64_t i) noexcept, void* arg) noexcept;

}  // namespace folio::inline v1
