// SPDX-License-Identifier: Apache-2.0
/// python/src/dtype_names.h: the names that frameworks give to element types.
#pragma once

#include <nanobind/ndarray.h>

#include <string>
#include <string_view>

#include "folio/core/dtype.h"

namespace folio::python {

/// folio's own names and those of numpy, torch, ml_dtypes and vLLM; invalid for any other.
DType dtype_named(std::string_view name);

/// "int64", "float32", ...: of what folio has no element for.
std::string dlpack_name(nanobind::dlpack::dtype type);

}  // namespace folio::python
