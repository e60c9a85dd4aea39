// SPDX-License-Identifier: Apache-2.0
/// src/cpu/profile.cpp: the profiles. Figures behind them: docs/kernels/.
#include "cpu/profile.h"

namespace folio::inline v1 {
namespace {

constexpr MachineProfile generic{.name = "generic", .bf16_dot_is_slow = true};
constexpr MachineProfile intel{.name = "Intel with AVX512-BF16",
                               .bf16_dot_is_slow = true,
                               .in_place = PrefetchPolicy::paced,
                               .staged = PrefetchPolicy::paced};
constexpr MachineProfile amd_zen{.name = "AMD Zen 4 and later", .in_place = PrefetchPolicy::paced};

}  // namespace

const MachineProfile& profile_of(const Processor& processor) noexcept {
  if (!processor.capabilities.has(Capability::avx512_bf16)) return generic;
  if (processor.vendor == Vendor::amd) return amd_zen;
  if (processor.vendor == Vendor::intel) return intel;
  return generic;
}

}  // namespace folio::inline v1
