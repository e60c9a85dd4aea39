// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/bf16.cpp: the baseline side of the index kernels of bf16: what they take, and how
/// their work is cut.
#include "cpu/index/bf16.h"

#include "cpu/index/bf16_scratch.h"
#include "cpu/index/index.h"
#include "cpu/index/runner.h"

namespace folio::inline v1::indexer {
namespace {

constexpr int32_t bf16_head_size_max = 512;

/// Sizes do not depend on the instruction set; this one is never run.
struct AnyEngine {
  using InstructionSet = void;
  static int32_t queries(const IndexProblem& problem) {
    return queries_of(problem, bf16_task_rows);
  }
  static int64_t scratch_bytes(const IndexProblem& problem) {
    return bf16_scratch_at(nullptr, problem).bytes;
  }
};

}  // namespace

const char* refuse_bf16(const IndexProblem& problem) noexcept {
  if (problem.key.head_size > bf16_head_size_max) return "key: expected a head_size of up to 512";
  return indexer::refuse(problem);
}

IndexGeometry geometry_bf16(const IndexProblem& problem) noexcept {
  return IndexRunner<AnyEngine>::geometry(problem);
}

}  // namespace folio::inline v1::indexer
