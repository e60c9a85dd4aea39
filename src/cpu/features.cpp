// SPDX-License-Identifier: Apache-2.0
/// src/cpu/features.cpp: what the processor and the operating system offer.
#include "cpu/features.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include <atomic>

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

Capabilities detect_capabilities() {
  __builtin_cpu_init();  // asks the operating system for its register state too
  Capabilities found = Capability::cpu;
  if (!has_v3()) return found;
  found |= Capability::x86_64_v3;
  if (!has_v4()) return found;
  found |= Capability::x86_64_v4;
  if (!has_avx512_bf16()) return found;
  found |= Capability::avx512_bf16;
  if (has_amx()) found |= Capability::amx_bf16;
  return found;
}

Processor detect() {
  Processor p;
  p.capabilities = detect_capabilities();
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

Processor detect() {
  Processor p;
  p.capabilities = needs_cpu;
#ifdef __aarch64__
  constexpr unsigned long i8mm = 1 << 13, bf16 = 1 << 14;
  if ((getauxval(AT_HWCAP2) & (i8mm | bf16)) == (i8mm | bf16))
    p.capabilities |= Capability::arm_bf16;
#endif
  return p;
}

#endif

// A processor in one word, so that it can be told without a lock: capabilities, family, model,
// vendor, and a bit that says that it was found.
constexpr int family_shift = 32, model_shift = 44, vendor_shift = 52, found_shift = 63;

uint64_t pack(const Processor& p) {
  return uint64_t{p.capabilities.word()} | uint64_t{p.family & 0xfff} << family_shift |
         uint64_t{p.model & 0xff} << model_shift | static_cast<uint64_t>(p.vendor) << vendor_shift |
         uint64_t{1} << found_shift;
}

Processor unpack(uint64_t word) {
  Processor p;
  p.capabilities = Capabilities::of_word(static_cast<uint32_t>(word));
  p.family = static_cast<uint32_t>(word >> family_shift & 0xfff);
  p.model = static_cast<uint32_t>(word >> model_shift & 0xff);
  p.vendor = static_cast<Vendor>(word >> vendor_shift & 0xff);
  return p;
}

constinit std::atomic<uint64_t> told{0};

}  // namespace

Processor processor() noexcept {
  uint64_t word = told.load(std::memory_order_relaxed);
  if (word == 0) {
    word = pack(detect());
    told.store(word, std::memory_order_relaxed);
  }
  return unpack(word);
}

}  // namespace folio::inline v1
