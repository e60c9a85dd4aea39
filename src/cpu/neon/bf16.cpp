// SPDX-License-Identifier: Apache-2.0
/// src/cpu/neon/bf16.cpp: attention_neon_bf16.
#include "cpu/neon/kernels.h"
#include "cpu/neon/squares.h"
#include "cpu/portable/engine.h"
#include "cpu/vec/neon_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : NeonLanes {
  static constexpr Mutant mutant = Mutant::none;
  /// sum + two rows of a by two of b: 4 elements each.
  template <class F, class H>
  FOLIO_ALWAYS_INLINE static F multiply_squares(F sum, H a, H b) {
    return vbfmmlaq_f32(sum, reinterpret_cast<bfloat16x8_t>(a), reinterpret_cast<bfloat16x8_t>(b));
  }
  /// Eight floats as bf16.
  template <class H, class F>
  FOLIO_ALWAYS_INLINE static H rounded_rows(F a, F b) {
    return reinterpret_cast<H>(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(a), b));
  }
};

using Runner = skeleton::TaskRunner<portable::PortableEngine<InstructionSet, portable::Squares>>;

}  // namespace

void arm_bf16::run_portable(const KernelCall& call, const Task& task, void* scratch,
                            std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void arm_bf16::finish_portable(const KernelCall& call, const Task& task, void* scratch,
                               const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace folio::inline v1
