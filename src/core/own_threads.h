// SPDX-License-Identifier: Apache-2.0
/// src/core/own_threads.h: the two functions of each executor that has threads. Its context is the
/// thread count itself; 0: as many as the machine offers.
#pragma once

#include <cstdint>

namespace folio::inline v1 {

using LoopTask = void (*)(void* arg, int64_t i) noexcept;

/// On folio's own threads.
namespace thread_pool {
int count(void* context);
void parallel_for(void* context, int64_t n, LoopTask task, void* arg);
}  // namespace thread_pool

/// Of default_executor: on OpenMP's threads, or on folio's own where built without it.
namespace own_threads {
int count(void* context);
void parallel_for(void* context, int64_t n, LoopTask task, void* arg);
}  // namespace own_threads

}  // namespace folio::inline v1
