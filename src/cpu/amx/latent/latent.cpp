// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/latent.cpp: the baseline side of the AMX kernel for latent heads: what it
/// accepts and how its work is cut.
#include "cpu/amx/latent/latent.h"

#include "cpu/amx/latent/layout.h"
#include "cpu/skeleton/task_memory.h"

namespace folio::inline v1::latent {
namespace {

template <class Sizes>
KernelGeometry geometry_of(const AttentionProblem& problem) {
  return skeleton::geometry<amx::LatentMemory<Sizes>>(problem, amx::tile_rows);
}

}  // namespace
const char* refuse(const AttentionProblem& problem) noexcept {
  const int32_t size = problem.key.head_size, v_size = problem.v_head_size;
  if (size % 8 != 0 || v_size % 8 != 0)
    return "key: expected a head_size and a v_head_size that are multiples of 8";
  if (!amx::is_small_latent(size, v_size) && !amx::is_large_latent(size, v_size))
    return "key: expected a head_size of 8 to 96 with a v_head_size up to 64, or of 288 to 576 "
           "with one up to 512";
  return nullptr;
}

KernelGeometry geometry(const AttentionProblem& problem) noexcept {
  if (amx::is_small_latent(problem.key.head_size, problem.v_head_size))
    return geometry_of<amx::SmallLatent>(problem);
  return geometry_of<amx::LargeLatent>(problem);
}

}  // namespace folio::inline v1::latent
