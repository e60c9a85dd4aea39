// SPDX-License-Identifier: Apache-2.0
/// src/core/own_threads.h: the two functions of the default executor, from OpenMP or std::thread.
/// Its context is the thread count itself; 0: as many as the machine offers.
#pragma once

#include <cstdint>

namespace folio::inline v1::own_threads {

int count(void* context);
void parallel_for(void* context, int64_t n, void (*task)(void* arg, int64_t i) noexcept, void* arg);

}  // namespace folio::inline v1::own_threads
