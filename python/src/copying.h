// SPDX-License-Identifier: Apache-2.0
/// python/src/copying.h: copy.copy, copy.deepcopy and pickle of the module's types.
#pragma once

#include <nanobind/nanobind.h>

namespace folio::python {

/// Makes every type of the module that has no `__getstate__` of its own refuse to be copied or
/// pickled, by its name and with what to do instead: Unsupported.
void refuse_copies(nanobind::module_& m);

}  // namespace folio::python
