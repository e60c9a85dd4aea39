// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_amx_grouped.cpp: the AMX engine for grouped heads with faults, on
/// emulated tiles.
#include "attention/mutants.h"
#include "cpu/amx/grouped/engine.h"
#include "cpu/amx/grouped/grouped.h"
#include "support/emulated_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : EmulatedLanes<InstructionSet> {
  static inline Mutant mutant = Mutant::none;
};

}  // namespace

MutantEngine amx_grouped_mutants() {
  using Runner =
      skeleton::TaskRunner<amx::GroupedEngine<InstructionSet, amx::GroupedSizes<64, 64>>>;
  return mutant_engine<Runner, InstructionSet>({.name = "amx_grouped",
                                                .needs = needs_avx512_bf16,
                                                .promises = Reproducible::per_query,
                                                .supports = grouped::supports,
                                                .refuse = grouped::refuse,
                                                .geometry = grouped::geometry,
                                                .arithmetic = Arithmetic::amx,
                                                .weights = DType::bf16,
                                                .operands = DType::bf16});
}

}  // namespace folio::test
