// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/index_x86_64_v3.cpp: the portable index kernel for x86-64-v3.
#include "cpu/index/engine.h"
#include "cpu/index/index.h"
#include "cpu/index/runner.h"
#include "cpu/vec/avx2_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx2Lanes {
  static constexpr Mutant mutant = Mutant::none;
  static constexpr IndexMutant index_mutant = IndexMutant::none;
};

using Runner = indexer::IndexRunner<indexer::PortableIndexEngine<InstructionSet>>;

}  // namespace

void x86_64_v3::score_index(const IndexCall& call, const IndexTask& task, void* scratch,
                            const ScoresTo& to) noexcept {
  Runner::score(call, task, scratch, to);
}

void x86_64_v3::select_index(const IndexCall& call, const IndexTask& task, void* scratch,
                             indexer::Top* tops, uint64_t* spare) noexcept {
  Runner::select(call, task, scratch, tops, spare);
}

void x86_64_v3::collect_scores(const float* scores, int32_t first, int64_t count, indexer::Top& top,
                               uint64_t* spare) noexcept {
  indexer::Collect<InstructionSet>::row(scores, first, count, top, spare);
}

}  // namespace folio::inline v1
