// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_avx512_int8.cpp: the engine of integer products with faults.
#include "attention/mutants.h"
#include "cpu/avx512/integer_engine.h"
#include "cpu/avx512/kernels.h"
#include "cpu/avx512/target_bf16.h"

namespace folio::test {
namespace {

struct InstructionSet : avx512::Bf16Target<InstructionSet> {
  static inline Mutant mutant = Mutant::none;
};

}  // namespace

MutantEngine avx512_int8_mutants() {
  using Runner = skeleton::TaskRunner<avx512::IntegerEngine<InstructionSet>>;
  return mutant_engine<Runner, InstructionSet>({.name = "avx512_int8",
                                                .needs = needs_avx512_bf16,
                                                .promises = Reproducible::per_sequence,
                                                .supports = avx512::supports_int8,
                                                .refuse = avx512::refuse_int8,
                                                .geometry = avx512::geometry_int8,
                                                .weights = DType::i8});
}

}  // namespace folio::test
