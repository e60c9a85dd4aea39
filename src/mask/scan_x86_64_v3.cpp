// SPDX-License-Identifier: Apache-2.0
/// src/mask/scan_x86_64_v3.cpp: rows of masks for x86-64-v3.
#include "mask/scan.h"
#include "mask/scan_row.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet {};

}  // namespace

constinit const mask::Scanner x86_64_v3::mask_scanner = {
    "mask_x86_64_v3", needs_x86_64_v3, mask::ScanF16<InstructionSet>::scan,
    mask::ScanBf16<InstructionSet>::scan, mask::ScanF32<InstructionSet>::scan};

}  // namespace folio::inline v1
