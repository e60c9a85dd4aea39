// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/int8.cpp: attention_avx512_int8: i8 as it is stored, by vpdpbusd.
#include "cpu/avx512/integer_engine.h"
#include "cpu/avx512/kernels.h"
#include "cpu/avx512/target_bf16.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : avx512::Bf16Target<InstructionSet> {
  static constexpr Mutant mutant = Mutant::none;
};

using Runner = skeleton::TaskRunner<avx512::IntegerEngine<InstructionSet>>;

}  // namespace

namespace avx512 {

void run_int8(const KernelCall& call, const Task& task, void* scratch,
              std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void finish_int8(const KernelCall& call, const Task& task, void* scratch,
                 const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace avx512
}  // namespace folio::inline v1
