// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_portable.cpp: the portable engine with faults.
#include "attention/mutants.h"
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"

namespace folio::test {
namespace {

/// As the target of the shipped x86-64 kernel.
struct InstructionSet {
  static constexpr int width = 4;
  static constexpr int score_vectors = 2;
  static inline Mutant mutant = Mutant::none;
  template <class F>
  static F fma(F a, F b, F c) {
    return a * b + c;
  }
  template <class U>
  static U widen16(const void* from) {
    typedef uint16_t H __attribute__((vector_size(sizeof(U) / 2)));
    H h;
    __builtin_memcpy(&h, from, sizeof h);
    return __builtin_convertvector(h, U);
  }
  template <class U>
  static U widen8(const void* from) {
    typedef uint8_t B __attribute__((vector_size(sizeof(U) / 4)));
    B b;
    __builtin_memcpy(&b, from, sizeof b);
    return __builtin_convertvector(b, U);
  }
};

}  // namespace

MutantEngine portable_mutants() {
  using Runner = skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>;
  return mutant_engine<Runner, InstructionSet>({.name = "portable",
                                                .needs = needs_cpu,
                                                .promises = Reproducible::per_query,
                                                .supports = portable::supports,
                                                .refuse = portable::refuse,
                                                .geometry = portable::geometry});
}

}  // namespace folio::test
