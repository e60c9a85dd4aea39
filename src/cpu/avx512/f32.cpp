// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/f32.cpp: attention_avx512_f32: everything in float32 by fused multiply-adds of
/// x86-64-v4.
#include "cpu/avx512/engine.h"
#include "cpu/avx512/kernels.h"
#include "cpu/avx512/target_f32.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : avx512::F32Target<InstructionSet> {
  static constexpr Mutant mutant = Mutant::none;
};

using Runner = skeleton::TaskRunner<avx512::Engine<InstructionSet>>;

}  // namespace

namespace avx512 {

void run_f32(const KernelCall& call, const Task& task, void* scratch,
             std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void finish_f32(const KernelCall& call, const Task& task, void* scratch,
                const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace avx512
}  // namespace folio::inline v1
