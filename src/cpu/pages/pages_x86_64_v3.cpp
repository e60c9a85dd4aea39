// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages_x86_64_v3.cpp: summaries of pages for x86-64-v3.
#include "cpu/index/index.h"
#include "cpu/pages/bounds.h"
#include "cpu/pages/means.h"
#include "cpu/pages/pages.h"
#include "cpu/pages/scores.h"
#include "cpu/vec/avx2_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx2Lanes {};

using Bounds = pages::Bounds<InstructionSet>;
using Means = pages::Means<InstructionSet>;
using Scored = pages::Scores<InstructionSet>;

}  // namespace

constinit const pages::Kernel x86_64_v3::pages_kernel = {.name = "pages_x86_64_v3",
                                                         .needs = needs_x86_64_v3,
                                                         .begin = Bounds::begin,
                                                         .widen = Bounds::widen,
                                                         .add = Means::add,
                                                         .store = Means::store,
                                                         .prepare = Scored::prepare,
                                                         .score = Scored::score,
                                                         .sum_of_exps = Scored::sum_of_exps,
                                                         .collect = x86_64_v3::collect_scores};

}  // namespace folio::inline v1
