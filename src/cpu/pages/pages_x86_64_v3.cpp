// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages_x86_64_v3.cpp: summaries of pages for x86-64-v3.
#include "cpu/pages/kernel_of.h"
#include "cpu/vec/avx2_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx2Lanes {};

}  // namespace

constinit const pages::Kernel x86_64_v3::pages_kernel =
    pages::kernel_of<InstructionSet>("pages_x86_64_v3", needs_x86_64_v3, x86_64_v3::collect_scores);

}  // namespace folio::inline v1
