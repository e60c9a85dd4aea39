// SPDX-License-Identifier: Apache-2.0
/// src/mask/scan_baseline.cpp: rows of masks for any machine of the architecture.
#include "mask/scan.h"
#include "mask/scan_row.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet {};

}  // namespace

constinit const mask::Scanner baseline::mask_scanner = {
    "mask_" FOLIO_BASELINE, needs_cpu, mask::ScanF16<InstructionSet>::scan,
    mask::ScanBf16<InstructionSet>::scan, mask::ScanF32<InstructionSet>::scan};

}  // namespace folio::inline v1
