// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_packed.cpp: the engine that multiplies codes, for AVX2, with faults.
#include "attention/mutants.h"
#include "cpu/packed/engine.h"
#include "cpu/packed/kernels.h"
#include "cpu/vec/avx2_bytes.h"

namespace folio::test {
namespace {

/// As the target of the shipped kernel.
struct InstructionSet : Avx2Bytes {
  static inline Mutant mutant = Mutant::none;
};

}  // namespace

MutantEngine packed_mutants() {
  using Runner = skeleton::TaskRunner<packed::PackedEngine<InstructionSet>>;
  return mutant_engine<Runner, InstructionSet>({.name = "packed",
                                                .needs = needs_x86_64_v3,
                                                .promises = Reproducible::per_sequence,
                                                .supports = packed::supports,
                                                .refuse = packed::refuse,
                                                .geometry = x86_64_v3::geometry_packed,
                                                .weights = DType::i8,
                                                .weight_steps = 127});
}

}  // namespace folio::test
