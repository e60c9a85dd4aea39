// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/kernels.cpp: the baseline side of the kernels that multiply codes: what they
/// accept and how they want work cut.
#include "cpu/packed/kernels.h"

#include "cpu/packed/engine.h"

namespace folio::inline v1 {
namespace packed {
namespace {

bool is_head_size(int32_t n) { return n >= 32 && n <= head_size_max && n % 32 == 0; }

/// Whether the bytes of a lane that are multiplied by one scale are of one granule.
bool has_whole_granules(const PagedKVView& plane) {
  const int32_t least = block_elements(plane.dtype) == 32 ? 32 : 16;
  return !has_granules(plane) || plane.scales.granularity % least == 0;
}

}  // namespace

const char* refuse(const AttentionProblem& problem) noexcept {
  if (!problem.int8_operands)
    return "int8_operands: the kernel rounds q and weights to 8 bits, which the problem does not "
           "allow";
  if (!is_head_size(problem.key.head_size))
    return "key: expected a head_size that is a multiple of 32, from 32 to 256";
  if (!is_head_size(problem.v_head_size))
    return "v_head_size: expected a multiple of 32, from 32 to 256";
  if (!has_whole_granules(problem.key) || !has_whole_granules(problem.value))
    return "scales.granularity: expected a multiple of 16, of 32 where elements lie in halves";
  return nullptr;
}

}  // namespace packed

namespace {

/// Sizes do not depend on the instructions; this one is never run.
template <int Bytes>
struct OfBytes {
  [[maybe_unused]] static constexpr int width = Bytes / 4;
  [[maybe_unused]] static constexpr int bytes = Bytes;
  [[maybe_unused]] static constexpr Mutant mutant = Mutant::none;
};

}  // namespace

KernelGeometry x86_64_v3::geometry_packed(const AttentionProblem& problem) noexcept {
  return skeleton::geometry<packed::PackedEngine<OfBytes<32>>>(problem);
}
KernelGeometry avx512::geometry_packed(const AttentionProblem& problem) noexcept {
  return skeleton::geometry<packed::PackedEngine<OfBytes<64>>>(problem);
}

}  // namespace folio::inline v1
