// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants.h: one instance of each CPU engine whose deliberate fault is chosen at
/// run time.
#pragma once

#include "cpu/skeleton/mutant.h"
#include "kernel/kernel.h"

namespace folio::test {

/// Not thread safe: `mutant` is the fault of whatever runs next.
struct MutantEngine {
  Kernel kernel;
  Mutant* mutant;
};

MutantEngine portable_mutants();
MutantEngine packed_mutants();  ///< for AVX2
MutantEngine avx512_f32_mutants();
MutantEngine avx512_bf16_mutants();
MutantEngine avx512_int8_mutants();
MutantEngine amx_grouped_mutants();  ///< on emulated tiles, head sizes up to 64
MutantEngine amx_latent_mutants();   ///< on emulated tiles, small latent heads

/// The entry of an engine, for the files that instantiate one; `Target::mutant` is a variable.
template <class Runner, class InstructionSet>
MutantEngine mutant_engine(Kernel kernel) {
  kernel.run = [](const KernelCall& call, const Task& task, void* scratch,
                  std::byte* partials) noexcept { Runner::run(call, task, scratch, partials); };
  kernel.finish = [](const KernelCall& call, const Task& task, void* scratch,
                     const std::byte* partials) noexcept {
    Runner::finish(call, task, scratch, partials);
  };
  return {kernel, &InstructionSet::mutant};
}

}  // namespace folio::test
