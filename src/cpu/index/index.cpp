// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/index.cpp: the baseline side of the portable index kernel: what it takes, and how
/// its work is cut.
#include "cpu/index/index.h"

#include "cpu/index/engine.h"
#include "cpu/index/runner.h"

namespace folio::inline v1::indexer {
namespace {

constexpr int32_t head_size_max = 576;

/// Sizes do not depend on the instruction set; this one is never run.
struct AnyInstructionSet {
  [[maybe_unused]] static constexpr int width = 4;
  [[maybe_unused]] static constexpr int score_vectors = 2;
  [[maybe_unused]] static constexpr Mutant mutant = Mutant::none;
  [[maybe_unused]] static constexpr IndexMutant index_mutant = IndexMutant::none;
};

}  // namespace

const char* refuse(const IndexProblem& problem) noexcept {
  const int32_t n = problem.key.head_size;
  if (n < 8 || n > head_size_max || n % 8 != 0)
    return "key: expected a head_size that is a multiple of 8, from 8 to 576";
  if (problem.lists != IndexLists::per_query)
    return "lists: a list for each q head is unsupported, expected per_query";
  if (problem.block_keys != 1)
    return "block_keys: scores of blocks of keys are unsupported, expected 1";
  return nullptr;
}

IndexGeometry geometry(const IndexProblem& problem) noexcept {
  return IndexRunner<PortableIndexEngine<AnyInstructionSet>>::geometry(problem);
}

}  // namespace folio::inline v1::indexer
