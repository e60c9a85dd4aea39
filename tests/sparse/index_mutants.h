// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_mutants.h: one instance of the portable index engine whose deliberate fault
/// is chosen at run time.
#pragma once

#include "cpu/index/mutant.h"
#include "kernel/index_kernel.h"

namespace folio::test {

/// Not thread safe: `mutant` is the fault of whatever runs next.
struct IndexMutantEngine {
  IndexKernel kernel;
  IndexMutant* mutant;
};

IndexMutantEngine index_mutants();

}  // namespace folio::test
