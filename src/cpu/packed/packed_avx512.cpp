// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/packed_avx512.cpp: the kernel that multiplies codes, for AVX-512 with VNNI.
#include "cpu/packed/engine.h"
#include "cpu/packed/kernels.h"
#include "cpu/vec/avx512_bytes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Bytes {
  static constexpr Mutant mutant = Mutant::none;
};

using Runner = skeleton::TaskRunner<packed::PackedEngine<InstructionSet>>;

}  // namespace

void avx512::run_packed(const KernelCall& call, const Task& task, void* scratch,
                        std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void avx512::finish_packed(const KernelCall& call, const Task& task, void* scratch,
                           const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace folio::inline v1
