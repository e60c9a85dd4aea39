// SPDX-License-Identifier: Apache-2.0
/// src/kernel/capability.cpp: the words for capabilities.
#include "kernel/capability.h"

namespace folio::inline v1 {
namespace {

struct Words {
  const char* name;
  const char* lacking;
};

constexpr Words words_of(Capability capability) {
  switch (capability) {
    case Capability::cpu: return {"CPU", "the kernel runs on the CPU, this is another device"};
    case Capability::x86_64_v3:
      return {"x86-64-v3", "this machine lacks the x86-64-v3 instructions"};
    case Capability::x86_64_v4:
      return {"x86-64-v4", "this machine lacks the x86-64-v4 instructions"};
    case Capability::avx512_bf16:
      return {"AVX512-BF16", "this machine lacks the AVX512-BF16 instructions"};
    case Capability::amx_bf16:
      return {"AMX-BF16", "this machine lacks AMX-BF16, or the system refuses it"};
    case Capability::arm_bf16:
      return {"Arm BF16", "this machine lacks Arm's BF16 or I8MM instructions"};
    case Capability::cuda:
      return {"CUDA", "the kernel runs on CUDA devices of compute capability 8.0 or later"};
    case Capability::tensor_maps:
      return {"tensor maps", "this device lacks tensor maps (compute capability 9.0)"};
    case Capability::large_blocks:
      return {"large blocks", "this device lacks large blocks (227 KiB of shared memory)"};
  }
  return {"unknown", "this machine lacks what the kernel needs"};
}

}  // namespace

const char* name(Capability capability) noexcept { return words_of(capability).name; }

const char* lacks(Capabilities needs, Capabilities has) noexcept {
  const Capabilities missing = needs.without(has);
  for (int i = num_capabilities - 1; i >= 0; --i) {
    const auto capability = static_cast<Capability>(i);
    if (missing.has(capability)) return words_of(capability).lacking;
  }
  return missing.is_empty() ? nullptr : words_of(static_cast<Capability>(num_capabilities)).lacking;
}

}  // namespace folio::inline v1
