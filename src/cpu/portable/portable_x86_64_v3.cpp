// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable_x86_64_v3.cpp: the portable kernel for x86-64-v3.
#include <immintrin.h>
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet {
  static constexpr int width = 8;          // floats per register
  static constexpr int score_vectors = 2;  // registers of keys (or dimensions) beside 4 rows
  static constexpr Mutant mutant = Mutant::none;
  template <class F>
  static F fma(F a, F b, F c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  /// `width` 16-bit words, or bytes, zero-extended.
  template <class U>
  static U widen16(const void* from) {
    return reinterpret_cast<U>(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
  template <class U>
  static U widen8(const void* from) {
    return reinterpret_cast<U>(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from))));
  }
};

}  // namespace

namespace x86_64_v3 {

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

}  // namespace x86_64_v3
}  // namespace folio::inline v1
