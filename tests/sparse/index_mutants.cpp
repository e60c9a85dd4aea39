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

}  // namespace

IndexMutantEngine portable_index_mutants() {
  using Runner = indexer::IndexRunner<indexer::PortableIndexEngine<InstructionSet>>;
  return index_mutant_engine<Runner, InstructionSet>(
      {.name = "portable", .needs = needs_cpu, .geometry = indexer::geometry});
}

}  // namespace folio::test
