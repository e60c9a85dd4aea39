// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_amx_latent.cpp: the AMX engine for latent heads with faults, on emulated
/// tiles.
#include "attention/mutants.h"
#include "cpu/amx/latent/engine.h"
#include "cpu/amx/latent/latent.h"
#include "support/emulated_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : EmulatedLanes<InstructionSet> {
  static inline Mutant mutant = Mutant::none;
};

}  // namespace

MutantEngine amx_latent_mutants() {
  using Runner = skeleton::TaskRunner<amx::LatentEngine<InstructionSet, amx::SmallLatent>>;
  return mutant_engine<Runner, InstructionSet>({.name = "amx_latent",
                                                .needs = needs_avx512_bf16,
                                                .promises = Reproducible::per_query,
                                                .supports = latent::supports,
                                                .refuse = latent::refuse,
                                                .geometry = latent::geometry,
                                                .arithmetic = Arithmetic::amx,
                                                .weights = DType::bf16,
                                                .operands = DType::bf16});
}

}  // namespace folio::test
