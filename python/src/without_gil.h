// SPDX-License-Identifier: Apache-2.0
/// python/src/without_gil.h: who lets other threads of Python's run, and takes locks beside them.
///
/// Nobody who holds a lock waits for the GIL, and nobody who has the GIL waits for a lock that is
/// held for long.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <mutex>

namespace folio::python {

/// Python ends threads of its own, such as daemons, by pthread_exit when they come back for the GIL
/// while it finalizes, up to 3.13. That would unwind destructors, of which each must be left: such
/// a thread waits for the process to end, as it does from 3.14 on.
class WithoutGil {
 public:
  WithoutGil() noexcept : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) ::pause();
    }
  }

 private:
  PyThreadState* state_;
};

/// With the GIL, which others may have while this waits.
[[nodiscard]] inline std::unique_lock<std::mutex> lock_with_gil(std::mutex& mutex) {
  for (;;) {
    std::unique_lock locked(mutex, std::try_to_lock);
    if (locked.owns_lock()) return locked;
    const WithoutGil free;
    const std::lock_guard until_it_is_free(mutex);
  }
}

}  // namespace folio::python
