// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_mutants.h: one instance of each index engine whose deliberate fault is chosen
/// at run time.
#pragma once

#include "cpu/index/mutant.h"
#include "kernel/index_kernel.h"

namespace folio::test {

/// Not thread safe: `mutant` is the fault of whatever runs next.
struct IndexMutantEngine {
  IndexKernel kernel;
  IndexMutant* mutant;
};

/// `kernel` with the functions of Runner, whose tag type is I.
template <class Runner, class I>
IndexMutantEngine index_mutant_engine(IndexKernel kernel) {
  kernel.score = [](const IndexCall& call, const IndexTask& task, void* scratch,
                    const ScoresTo& to) noexcept { Runner::score(call, task, scratch, to); };
  kernel.select = [](const IndexCall& call, const IndexTask& task, void* scratch,
                     indexer::Top* tops, uint64_t* spare) noexcept {
    Runner::select(call, task, scratch, tops, spare);
  };
  return {kernel, &I::index_mutant};
}

IndexMutantEngine portable_index_mutants();
// callers look first at whether the machine has the instructions
IndexMutantEngine avx512_index_mutants();
IndexMutantEngine amx_index_mutants();  ///< on emulated tiles

}  // namespace folio::test
