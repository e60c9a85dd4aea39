// SPDX-License-Identifier: Apache-2.0
/// src/core/executor.cpp: the executors that folio offers.
#include "core/own_threads.h"
#include "folio/core/execution.h"

namespace folio::inline v1 {

Executor serial_executor() noexcept {
  return {nullptr, [](void*) { return 1; },
          [](void*, int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
            for (int64_t i = 0; i < n; ++i) task(arg, i);
          }};
}

Executor default_executor(int threads) noexcept {
  return {reinterpret_cast<void*>(static_cast<intptr_t>(threads > 0 ? threads : 0)),
          own_threads::count, own_threads::parallel_for};
}

}  // namespace folio::inline v1
