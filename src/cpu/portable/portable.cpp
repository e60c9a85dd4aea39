// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable.cpp: the baseline side of the portable kernel: its entries and what
/// they promise.
#include "cpu/portable/portable.h"

#include "cpu/portable/engine.h"

namespace folio::inline v1::portable {
namespace {

constexpr int32_t head_size_max = 576;

/// Sizes do not depend on the instruction set; this one is never run.
struct AnyInstructionSet {
  [[maybe_unused]] static constexpr int width = 4;
  [[maybe_unused]] static constexpr int score_vectors = 2;
  [[maybe_unused]] static constexpr Mutant mutant = Mutant::none;
};

bool is_head_size(int32_t n) { return n >= 8 && n <= head_size_max && n % 8 == 0; }

}  // namespace

const char* refuse(const AttentionProblem& problem) noexcept {
  if (!is_head_size(problem.key.head_size))
    return "key: expected a head_size that is a multiple of 8, from 8 to 576";
  if (!is_head_size(problem.v_head_size))
    return "v_head_size: expected a multiple of 8, from 8 to 576";
  return nullptr;
}

KernelGeometry geometry(const AttentionProblem& problem) noexcept {
  return skeleton::geometry<PortableEngine<AnyInstructionSet>>(problem);
}

}  // namespace folio::inline v1::portable
