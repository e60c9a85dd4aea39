// SPDX-License-Identifier: Apache-2.0
/// python/src/bindings.h: what each file of bindings registers; the types stand beside their code.
#pragma once

#include <nanobind/nanobind.h>

namespace folio::python {

void bind_kv_cache(nanobind::module_& m);
void bind_functions(nanobind::module_& m);
void bind_copies(nanobind::module_& m);
void bind_pool(nanobind::module_& m);
void bind_tiers(nanobind::module_& m);

}  // namespace folio::python
