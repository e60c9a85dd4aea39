// SPDX-License-Identifier: Apache-2.0
/// python/src/errors.h: folio's failures as Python's exceptions.
///
/// Errc::unsupported is folio_kv.Unsupported, out_of_pages is folio_kv.OutOfPages, every other code
/// folio_kv.Error; all carry `code`, the name of the Errc.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "folio/core/status.h"

namespace folio::python {

namespace nb = nanobind;

/// Takes the exception classes from folio_kv.errors and translates folio::Error to them.
void bind_errors();

/// Throws an invalid_argument: `format` with each {} replaced by the next argument.
template <class... Args>
[[noreturn]] void refuse_argument(const char* format, const Args&... args) {
  throw Error(fail(Errc::invalid_argument, format, args...));
}

/// The value, or the failure as an exception.
template <class T>
T take(Result<T>&& result) {
  return std::move(result).value();
}

}  // namespace folio::python
