// SPDX-License-Identifier: Apache-2.0
/// src/cpu/profile.cpp: the profiles. Figures behind them: docs/kernels/.
#include "cpu/profile.h"

namespace folio {
inline namespace v1 {
namespace {

constexpr MachineProfile generic{"generic", true, {PrefetchPolicy::none, 1, 0}};
constexpr MachineProfile intel_amx{"Intel with AMX", true, {PrefetchPolicy::kick, 1, 4}, {PrefetchPolicy::paced, 1, 0}};
constexpr MachineProfile amd_zen{"AMD Zen 4 and later", false, {PrefetchPolicy::paced_twice, 1, 0}};

}  // namespace

const MachineProfile& profile_of(const Processor& processor) noexcept {
  if (processor.vendor == Vendor::amd && processor.isa >= Isa::avx512_bf16) return amd_zen;
  if (processor.vendor == Vendor::intel && processor.isa >= Isa::avx512_bf16) return intel_amx;
  return generic;
}

}  // namespace v1
}  // namespace folio
