// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages_x86_64_v4.cpp: summaries of pages for x86-64-v4.
#include "cpu/pages/kernel_of.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Lanes {};

}  // namespace

constinit const pages::Kernel x86_64_v4::pages_kernel =
    pages::kernel_of<InstructionSet>("pages_x86_64_v4", needs_x86_64_v4, x86_64_v4::collect_scores);

}  // namespace folio::inline v1
