// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages_baseline.cpp: summaries of pages for any machine of the architecture.
#include "cpu/index/index.h"
#include "cpu/pages/bounds.h"
#include "cpu/pages/means.h"
#include "cpu/pages/pages.h"
#include "cpu/pages/scores.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : BaselineLanes {};

using Bounds = pages::Bounds<InstructionSet>;
using Means = pages::Means<InstructionSet>;
using Scored = pages::Scores<InstructionSet>;

}  // namespace

constinit const pages::Kernel baseline::pages_kernel = {.name = "pages_baseline",
                                                        .needs = needs_cpu,
                                                        .begin = Bounds::begin,
                                                        .widen = Bounds::widen,
                                                        .add = Means::add,
                                                        .store = Means::store,
                                                        .prepare = Scored::prepare,
                                                        .score = Scored::score,
                                                        .sum_of_exps = Scored::sum_of_exps,
                                                        .collect = baseline::collect_scores};

}  // namespace folio::inline v1
