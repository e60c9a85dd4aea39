// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_portable.cpp: the portable engine with faults.
#include "attention/mutants.h"
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::test {
namespace {

/// As the target of the shipped x86-64 kernel.
struct InstructionSet : BaselineLanes {
  static inline Mutant mutant = Mutant::none;
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
