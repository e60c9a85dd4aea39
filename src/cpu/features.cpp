// SPDX-License-Identifier: Apache-2.0
/// src/cpu/features.cpp: what the processor and the operating system offer.
#include "cpu/features.h"

#include <atomic>

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace folio::inline v1 {
namespace {

#ifdef __x86_64__

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(unsigned number, unsigned sub = 0) {
  Leaf l;
  if (__get_cpuid_count(number, sub, &l.a, &l.b, &l.c, &l.d) == 0) return {};
  return l;
}

constexpr bool bit(unsigned word, int n) { return (word >> n & 1) != 0; }

/// F16C, MOVBE and LZCNT belong to x86-64-v3 as well; compilers name them differently, so they are
/// read here.
bool has_small_v3_parts() {
  const Leaf basic = leaf(1);
  return bit(basic.c, 22) && bit(basic.c, 29) && bit(leaf(0x80000001u).c, 5);
}

bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_small_v3_parts();
}

bool has_v4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool has_avx512_bf16() {
  const Leaf seven = leaf(7);
  return bit(seven.c, 1) && bit(seven.c, 11) && bit(leaf(7, 1).a, 5);  // VBMI, VNNI, BF16
}

/// The processor's bits, the system's register state, and permission, which a process must ask for.
/// Source: Linux Documentation/arch/x86/xstate.rst.
bool has_amx() {
  const Leaf seven = leaf(7);
  if (!bit(seven.d, 22) || !bit(seven.d, 24) || !bit(seven.d, 25) || !bit(leaf(1).c, 27))
    return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!bit(low, 17) || !bit(low, 18)) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

Isa detect_isa() {
  __builtin_cpu_init();  // asks the operating system for its register state too
  if (!has_v3()) return Isa::x86_64;
  if (!has_v4()) return Isa::x86_64_v3;
  if (!has_avx512_bf16()) return Isa::x86_64_v4;
  return has_amx() ? Isa::amx_bf16 : Isa::avx512_bf16;
}

Processor detect() {
  Processor p;
  p.isa = detect_isa();
  p.vendor = __builtin_cpu_is("intel") ? Vendor::intel
             : __builtin_cpu_is("amd") ? Vendor::amd
                                       : Vendor::other;
  const unsigned signature = leaf(1).a;
  p.family = signature >> 8 & 15;
  p.model = signature >> 4 & 15;
  if (p.family == 6 || p.family == 15) p.model += (signature >> 16 & 15) << 4;
  if (p.family == 15) p.family += signature >> 20 & 255;
  return p;
}

#else

Processor detect() { return {}; }

#endif

/// Where the first thread that asked keeps the answer for all others.
enum class Answer : uint8_t { none, being_kept, kept };
constinit std::atomic<Answer> answer = Answer::none;
constinit Processor kept_processor;

}  // namespace

/// The run path asks, so nobody waits for anybody: threads that ask while the first keeps its
/// answer find the same one themselves.
Processor processor() noexcept {
  if (answer.load(std::memory_order_acquire) == Answer::kept) return kept_processor;
  const Processor found = detect();
  Answer expected = Answer::none;
  if (answer.compare_exchange_strong(expected, Answer::being_kept, std::memory_order_relaxed)) {
    kept_processor = found;
    answer.store(Answer::kept, std::memory_order_release);
  }
  return found;
}

const char* name(Isa isa) noexcept {
  switch (isa) {
    case Isa::x86_64: return "x86-64";
    case Isa::x86_64_v3: return "x86-64-v3";
    case Isa::x86_64_v4: return "x86-64-v4";
    case Isa::avx512_bf16: return "AVX512-BF16";
    case Isa::amx_bf16: return "AMX-BF16";
  }
  return "x86-64";
}

}  // namespace folio::inline v1
