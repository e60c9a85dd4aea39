// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_avx512_bf16.cpp: the bf16 engine of AVX-512 with faults.
#include "attention/mutants.h"
#include "cpu/avx512/engine.h"
#include "cpu/avx512/kernels.h"
#include "cpu/avx512/target_bf16.h"

namespace folio::test {
namespace {

struct InstructionSet : avx512::Bf16Target<InstructionSet> {
  static inline Mutant mutant = Mutant::none;
};

}  // namespace

MutantEngine avx512_bf16_mutants() {
  using Runner = skeleton::TaskRunner<avx512::Engine<InstructionSet>>;
  return mutant_engine<Runner, InstructionSet>({.name = "avx512_bf16",
                                                .needs = needs_avx512_bf16,
                                                .promises = Reproducible::per_query,
                                                .supports = avx512::supports_bf16,
                                                .refuse = avx512::refuse,
                                                .geometry = avx512::geometry_bf16,
                                                .arithmetic = Arithmetic::bf16_dot,
                                                .weights = DType::bf16,
                                                .operands = DType::bf16});
}

}  // namespace folio::test
