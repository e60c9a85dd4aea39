# SPDX-License-Identifier: Apache-2.0
# 64-bit Arm has no level of its own: the portable kernel runs alone, in the vectors of the compiler.
set(FOLIO_BASELINE_FLAGS)
set(FOLIO_LEVELS)
