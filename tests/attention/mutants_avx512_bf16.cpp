// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_avx512_bf16.cpp: the bf16 engine of AVX-512 with faults.
#include "attention/mutants.h"
#include "cpu/avx512/engine.h"
#include "cpu/avx512/kernels.h"
#include "cpu/avx512/target_bf16.h"

namespace folio::test {
namespace {

struct Target : avx512::Bf16Target<Target> {
  static inline Mutant mutant = Mutant::none;
};

}  // namespace

MutantEngine avx512_bf16_mutants() {
  using Runner = skeleton::TaskRunner<avx512::Engine<Target>>;
  return mutant_engine<Runner, Target>({"avx512_bf16", Isa::avx512_bf16, Reproducible::per_query,
                                        avx512::refuse_bf16, avx512::geometry_bf16, nullptr,
                                        nullptr, Unit::bf16_dot, DType::bf16, DType::bf16});
}

}  // namespace folio::test
