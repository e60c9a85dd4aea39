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

#include "folio/pool/page_pool.h"

namespace folio::python {

/// At a place that a pool's options can point to.
struct Callables {
  nanobind::object name, on_event;
  /// where PagePool.name, while it runs, wants the failure of `name`
  std::exception_ptr* failure = nullptr;
};

/// None: no function. Throws Error for what cannot be called; null without either.
std::unique_ptr<Callables> read_callables(nanobind::handle name, nanobind::handle on_event,
                                          PoolOptions& options);

/// 32 bytes, or None where there is no name.
nanobind::object name_bytes(const PageName& name, bool is_there);

}  // namespace folio::python
