// SPDX-License-Identifier: Apache-2.0
/// src/mask/scan.cpp: the list of builds and the choice among them.
#include "mask/scan.h"

#include "cpu/features.h"

namespace folio::inline v1::mask {
namespace {

#ifdef FOLIO_LEVELS_OF_X86_64
constexpr const Scanner* all_scanners[] = {&x86_64_v4::mask_scanner, &x86_64_v3::mask_scanner,
                                           &baseline::mask_scanner};
#else
constexpr const Scanner* all_scanners[] = {&baseline::mask_scanner};
#endif

}  // namespace

std::span<const Scanner* const> scanners() noexcept { return all_scanners; }

const Scanner& scanner() noexcept {
  const Capabilities machine = machine_capabilities();
  for (const Scanner* candidate : all_scanners) {
    if (machine.has_all(candidate->needs)) return *candidate;
  }
  return baseline::mask_scanner;
}

}  // namespace folio::inline v1::mask
