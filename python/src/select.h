// SPDX-License-Identifier: Apache-2.0
/// python/src/select.h: `Step.select`: the keys that an indexer chooses for each query.
#pragma once

#include "step.h"

namespace folio::python {

void bind_select(nb::class_<Step, BatchHolder>& type);

}  // namespace folio::python
