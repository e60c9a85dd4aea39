// SPDX-License-Identifier: Apache-2.0
/// src/kernel/capability.h: what a machine may offer and a kernel may need: bits, in no order.
///
/// A kernel names every bit that its instructions take; a machine runs it if it has them all. A bit
/// for the kind of processor keeps apart what runs on the host and on devices; other processors and
/// devices join as further bits.
#pragma once

#include <cstdint>

#include "kernel/bits.h"

namespace folio::inline v1 {

enum class Capability : uint8_t {
  cpu,           ///< the processor that the caller runs on
  x86_64_v3,     ///< AVX2, FMA, F16C and the rest of the level x86-64-v3
  x86_64_v4,     ///< AVX-512 F, BW, CD, DQ, VL
  avx512_bf16,   ///< AVX512-BF16 with VBMI and VNNI
  amx_bf16,      ///< AMX-TILE, -BF16 and -INT8, with the system's permission
  arm_bf16,      ///< 64-bit Arm's BF16 and I8MM, as Armv8.6 has them
  large_blocks,  ///< a CUDA device whose blocks have 227 KiB of shared memory
  tensor_maps,   ///< a CUDA device's copies by tensor maps: compute capability 9.0 or later
  cuda,          ///< a CUDA device of compute capability 8.0 or later
};
inline constexpr int num_capabilities = static_cast<int>(Capability::cuda) + 1;

using Capabilities = Bits<Capability>;

// What the object libraries of src/cpu are built for.
inline constexpr Capabilities needs_cpu = Capability::cpu;
inline constexpr Capabilities needs_x86_64_v3 = needs_cpu | Capability::x86_64_v3;
inline constexpr Capabilities needs_x86_64_v4 = needs_x86_64_v3 | Capability::x86_64_v4;
inline constexpr Capabilities needs_avx512_bf16 = needs_x86_64_v4 | Capability::avx512_bf16;
inline constexpr Capabilities needs_amx_bf16 = needs_avx512_bf16 | Capability::amx_bf16;
inline constexpr Capabilities needs_arm_bf16 = needs_cpu | Capability::arm_bf16;
// What the kernels of src/cuda are built for.
inline constexpr Capabilities needs_cuda = Capability::cuda;
inline constexpr Capabilities needs_large_blocks = needs_cuda | Capability::large_blocks;
inline constexpr Capabilities needs_tensor_maps = needs_large_blocks | Capability::tensor_maps;

/// "CPU", "x86-64-v3", "x86-64-v4", "AVX512-BF16", "AMX-BF16", "Arm BF16", "large blocks",
/// "tensor maps", "CUDA".
[[nodiscard]] const char* name(Capability capability) noexcept;

/// Null if `has` holds all of `needs`, else why not, by the first that is missing: "this machine
/// lacks ...", a string literal.
[[nodiscard]] const char* lacks(Capabilities needs, Capabilities has) noexcept;

}  // namespace folio::inline v1
