// SPDX-License-Identifier: Apache-2.0
/// src/cpu/features.cpp: what the processor and the operating system offer.
#include "cpu/features.h"

#include <cpuid.h>

namespace folio {
inline namespace v1 {
namespace {

/// F16C, MOVBE and LZCNT belong to x86-64-v3 as well; compilers name them differently, so they are read here.
bool has_small_v3_parts() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (1u << 22)) == 0 || (c & (1u << 29)) == 0) return false;
  return __get_cpuid(0x80000001u, &a, &b, &c, &d) != 0 && (c & (1u << 5)) != 0;
}

Isa detect() {
  __builtin_cpu_init();  // asks the operating system for its register state too
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && has_small_v3_parts();
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return v4 ? Isa::x86_64_v4 : v3 ? Isa::x86_64_v3 : Isa::x86_64;
}

}  // namespace

Isa machine_isa() noexcept {
  static const Isa isa = detect();
  return isa;
}

const char* name(Isa isa) noexcept {
  switch (isa) {
    case Isa::x86_64: return "x86-64";
    case Isa::x86_64_v3: return "x86-64-v3";
    case Isa::x86_64_v4: return "x86-64-v4";
  }
  return "x86-64";
}

}  // namespace v1
}  // namespace folio
