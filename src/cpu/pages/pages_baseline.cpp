// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages_baseline.cpp: summaries of pages for any machine of the architecture.
#include "cpu/index/index.h"
#include "cpu/pages/pages.h"
#include "cpu/pages/scores.h"
#include "cpu/pages/summary_rows.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : BaselineLanes {
  static constexpr Mutant mutant = Mutant::none;
};

using Joined = pages::SummaryRows<InstructionSet>;
using Scored = pages::Scores<InstructionSet>;

}  // namespace

constinit const pages::Kernel baseline::pages_kernel = {.name = "pages_baseline",
                                                        .needs = needs_cpu,
                                                        .load = Joined::load,
                                                        .store = Joined::store,
                                                        .widen = Joined::widen,
                                                        .add = Joined::add,
                                                        .prepare = Scored::prepare,
                                                        .score = Scored::score,
                                                        .sum_of_exps = Scored::sum_of_exps,
                                                        .collect = baseline::collect_scores};

}  // namespace folio::inline v1
