// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable_x86_64.cpp: the portable kernel for x86-64.
#include "cpu/portable.h"
#include "cpu/portable_kernel.h"

namespace folio {
inline namespace v1 {
namespace {

struct Target {
  static constexpr int width = 4;          // floats per register
  static constexpr int score_vectors = 2;  // registers of keys (or dimensions) beside 4 rows
  static constexpr Mutant mutant = Mutant::none;
  template <class F>
  static F fma(F a, F b, F c) {
    return a * b + c;  // no fused form in this instruction set
  }
};

}  // namespace

namespace x86_64 {

void run_portable(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept {
  portable::PortableKernel<Target>::run(call, task, scratch, partials);
}

void finish_portable(const KernelCall& call, const Task& task, void* scratch, const std::byte* partials) noexcept {
  portable::PortableKernel<Target>::finish(call, task, scratch, partials);
}

}  // namespace x86_64
}  // namespace v1
}  // namespace folio
