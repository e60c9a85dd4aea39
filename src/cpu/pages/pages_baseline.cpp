// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages_baseline.cpp: summaries of pages for any machine of the architecture.
#include "cpu/pages/kernel_of.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : BaselineLanes {};

}  // namespace

constinit const pages::Kernel baseline::pages_kernel =
    pages::kernel_of<InstructionSet>("pages_baseline", needs_cpu, baseline::collect_scores);

}  // namespace folio::inline v1
