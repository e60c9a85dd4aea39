// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages_x86_64_v3.cpp: summaries of pages for x86-64-v3.
#include "cpu/index/index.h"
#include "cpu/pages/pages.h"
#include "cpu/pages/scores.h"
#include "cpu/pages/summary_rows.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/avx2_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx2Lanes {
  static constexpr Mutant mutant = Mutant::none;
};

using Joined = pages::SummaryRows<InstructionSet>;
using Scored = pages::Scores<InstructionSet>;

}  // namespace

constinit const pages::Kernel x86_64_v3::pages_kernel = {.name = "pages_x86_64_v3",
                                                         .needs = needs_x86_64_v3,
                                                         .load = Joined::load,
                                                         .store = Joined::store,
                                                         .widen = Joined::widen,
                                                         .add = Joined::add,
                                                         .prepare = Scored::prepare,
                                                         .score = Scored::score,
                                                         .sum_of_exps = Scored::sum_of_exps,
                                                         .collect = x86_64_v3::collect_scores};

}  // namespace folio::inline v1
