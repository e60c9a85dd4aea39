// SPDX-License-Identifier: Apache-2.0
/// src/cpu/neon/kernels.cpp: the baseline side of the kernels for Arm's matrix instructions.
#include "cpu/neon/kernels.h"

#include "cpu/neon/squares.h"
#include "cpu/portable/engine.h"

namespace folio::inline v1::neon {
namespace {

/// Sizes do not depend on the instructions; this one is never run.
struct AnyInstructionSet {
  [[maybe_unused]] static constexpr int width = 4;
  [[maybe_unused]] static constexpr int score_vectors = 2;
  [[maybe_unused]] static constexpr Mutant mutant = Mutant::none;
};

}  // namespace

KernelGeometry geometry_bf16(const AttentionProblem& problem) noexcept {
  return skeleton::geometry<portable::PortableEngine<AnyInstructionSet, portable::Squares>>(problem,
                                                                                            2);
}

}  // namespace folio::inline v1::neon
