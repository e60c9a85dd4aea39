// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable_baseline.cpp: the portable kernel for any machine of the
/// architecture.
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet {
  static constexpr int width = 4;          // floats per register
  static constexpr int score_vectors = 2;  // registers of keys (or dimensions) beside 4 rows
  static constexpr Mutant mutant = Mutant::none;
  template <class F>
  static F fma(F a, F b, F c) {
    return a * b + c;  // x86-64 has no fused form, and all others give the same bits
  }
  /// `width` 16-bit words, or bytes, zero-extended.
  template <class U>
  static U widen16(const void* from) {
    typedef uint16_t H __attribute__((vector_size(sizeof(U) / 2)));  // NOLINT(modernize-use-using)
    H h;
    __builtin_memcpy(&h, from, sizeof h);
    return __builtin_convertvector(h, U);
  }
  template <class U>
  static U widen8(const void* from) {
    typedef uint8_t B __attribute__((vector_size(sizeof(U) / 4)));  // NOLINT(modernize-use-using)
    B b;
    __builtin_memcpy(&b, from, sizeof b);
    return __builtin_convertvector(b, U);
  }
};

}  // namespace

namespace baseline {

void run_portable(const KernelCall& call, const Task& task, void* scratch,
                  std::byte* partials) noexcept {
  skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>::run(call, task, scratch,
                                                                      partials);
}

void finish_portable(const KernelCall& call, const Task& task, void* scratch,
                     const std::byte* partials) noexcept {
  skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>::finish(call, task, scratch,
                                                                         partials);
}

}  // namespace baseline
}  // namespace folio::inline v1
