// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/index_baseline.cpp: the portable index kernel for any machine of the architecture.
#include "cpu/index/collect.h"
#include "cpu/index/index.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : BaselineLanes {};

}  // namespace

void baseline::collect_scores(const float* scores, int32_t first, int64_t count, indexer::Top& top,
                              uint64_t* spare) noexcept {
  indexer::Collect<InstructionSet>::row(scores, first, count, top, spare);
}

}  // namespace folio::inline v1
