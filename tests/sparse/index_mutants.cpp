// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_mutants.cpp: the portable index engine with faults.
#include "sparse/index_mutants.h"

#include "cpu/index/engine.h"
#include "cpu/index/index.h"
#include "cpu/index/runner.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : BaselineLanes {
  static constexpr Mutant mutant = Mutant::none;
  static inline IndexMutant index_mutant = IndexMutant::none;
};

using Runner = indexer::IndexRunner<indexer::PortableIndexEngine<InstructionSet>>;

}  // namespace

IndexMutantEngine index_mutants() {
  IndexKernel kernel;
  kernel.name = "index_mutants";
  kernel.geometry = indexer::geometry;
  kernel.score = [](const IndexCall& call, const IndexTask& task, void* scratch,
                    const ScoresTo& to) noexcept { Runner::score(call, task, scratch, to); };
  kernel.select = [](const IndexCall& call, const IndexTask& task, void* scratch,
                     indexer::Top* tops, uint64_t* spare) noexcept {
    Runner::select(call, task, scratch, tops, spare);
  };
  return {kernel, &InstructionSet::index_mutant};
}

}  // namespace folio::test
