// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/packed_x86_64_v3.cpp: the kernel that multiplies codes, for AVX2.
#include "cpu/packed/engine.h"
#include "cpu/packed/kernels.h"
#include "cpu/vec/avx2_bytes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx2Bytes {
  static constexpr Mutant mutant = Mutant::none;
};

using Runner = skeleton::TaskRunner<packed::PackedEngine<InstructionSet>>;

}  // namespace

void x86_64_v3::run_packed(const KernelCall& call, const Task& task, void* scratch,
                           std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void x86_64_v3::finish_packed(const KernelCall& call, const Task& task, void* scratch,
                              const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace folio::inline v1
