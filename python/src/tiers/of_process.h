// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/of_process.h: what has threads, in a process that was forked from it.
///
/// The threads are not there: who waits for them waits for ever, and locks that they held stay
/// locked. Such things refuse calls, and stay as they are when they go.
#pragma once

#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "../errors.h"

namespace folio::python {

class OfProcess {
 public:
  [[nodiscard]] bool is_here() const noexcept { return pid_ == ::getpid(); }
  void expect_here(const char* what) const {
    if (!is_here())
      throw Error(
          fail(Errc::io, "{}: it is of the process that was forked, expected one made here", what));
  }
  /// Ends it, unless its threads are elsewhere.
  template <class T>
  void end(std::unique_ptr<T>& made) const noexcept {
    if (is_here()) {
      made.reset();
    } else {
      static_cast<void>(made.release());
    }
  }
  template <class T>
  void end(std::optional<T>& made) const {
    if (made && !is_here()) static_cast<void>(new T(std::move(*made)));
    made.reset();
  }

 private:
  pid_t pid_ = ::getpid();
};

}  // namespace folio::python
