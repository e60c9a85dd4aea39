// SPDX-License-Identifier: Apache-2.0
/// python/src/select_pages.h: summaries of pages, and `Step.select_pages`: the pages that matter to
/// each query by them.
#pragma once

#include "folio/cache/page_summaries.h"
#include "step.h"

namespace folio::python {

/// Pages of K alone as the summaries of `pages`: their page_size says the kind. Throws Error for
/// what cannot be such.
PageSummaries summaries_of(const Pages& summaries, const Pages& pages);

void bind_summarise(nb::module_& m);
void bind_select_pages(nb::class_<Step, BatchHolder>& type);

}  // namespace folio::python
