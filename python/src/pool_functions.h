// SPDX-License-Identifier: Apache-2.0
/// python/src/pool_functions.h: callables of Python's that a pool calls: names and events.
///
/// A pool calls them inside a call of Python's, whose thread is attached. What they raise cannot
/// leave through the pool, and what the pool did is done: PagePool.name raises what its own naming
/// raised; everything else goes to sys.unraisablehook.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <memory>
#include <utility>

#include "folio/pool/page_pool.h"

namespace folio::python {

/// At a place that a pool's options can point to.
struct Callables {
  /// `name_companion` is an attribute of `name`, invalid without it
  nanobind::object name, name_companion, on_event, on_eviction, on_leaving;
  /// where PagePool.name and companion_names, while they run, want the failure of the first two
  std::exception_ptr* failure = nullptr;
  std::shared_ptr<const void> observer_use;  ///< of an `on_event` that is a PoolObserver
};

/// None: no function. Throws Error for what cannot be called; null without either.
std::unique_ptr<Callables> read_callables(nanobind::handle name, nanobind::handle on_event,
                                          PoolOptions& options);

/// The `name` of a pool's options once more, for who names pages beside it; none without one.
NameFunction name_function_of(Callables* callables);

/// Fewer bytes stand in front. Throws Error, which begins with `what`, for what is no bytes, or
/// none, or too many.
PageName name_of(const nanobind::object& given, const char* what);
/// What is being handled, told to sys.unraisablehook.
void tell_unraisable(const nanobind::object& function) noexcept;

/// While it lives what a pool's name functions raise is kept, and `rethrow` raises it.
class NamingFailure {
 public:
  explicit NamingFailure(Callables* callables) noexcept : callables_(callables) {
    if (callables != nullptr) before_ = std::exchange(callables->failure, &failure_);
  }
  NamingFailure(const NamingFailure&) = delete;
  NamingFailure& operator=(const NamingFailure&) = delete;
  ~NamingFailure() {
    if (callables_ != nullptr) callables_->failure = before_;
  }
  void rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  Callables* callables_;
  std::exception_ptr failure_;
  std::exception_ptr* before_ = nullptr;
};

/// 32 bytes, or None where there is no name.
nanobind::object name_bytes(const PageName& name, bool is_there);

}  // namespace folio::python
