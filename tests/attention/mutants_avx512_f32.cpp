// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_avx512_f32.cpp: the float32 engine of AVX-512 with faults.
#include "attention/mutants.h"
#include "cpu/avx512/engine.h"
#include "cpu/avx512/kernels.h"
#include "cpu/avx512/target_f32.h"

namespace folio::test {
namespace {

struct InstructionSet : avx512::F32Target<InstructionSet> {
  static inline Mutant mutant = Mutant::none;
};

}  // namespace

MutantEngine avx512_f32_mutants() {
  using Runner = skeleton::TaskRunner<avx512::Engine<InstructionSet>>;
  return mutant_engine<Runner, InstructionSet>({.name = "avx512_f32",
                                                .needs = needs_x86_64_v4,
                                                .promises = Reproducible::per_query,
                                                .supports = avx512::supports_f32,
                                                .refuse = avx512::refuse,
                                                .geometry = avx512::geometry_f32});
}

}  // namespace folio::test
