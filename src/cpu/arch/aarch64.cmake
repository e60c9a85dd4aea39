# SPDX-License-Identifier: Apache-2.0
# Kernels for 64-bit Arm, lowest level first. Armv8.6 has BF16 and I8MM; what computes on a processor with wider vectors than NEON's (SVE) has
# as many of NEON's units, or the same width.
set(FOLIO_BASELINE_FLAGS)
set(FOLIO_LEVELS aarch64 arm_bf16)

set(FOLIO_LEVEL_aarch64 SOURCES portable/portable_baseline.cpp append/rows_baseline.cpp index/index_baseline.cpp pages/pages_baseline.cpp
    FLAGS -fno-math-errno)
set(FOLIO_LEVEL_arm_bf16 SOURCES neon/bf16.cpp FLAGS -march=armv8.6-a -fno-math-errno FEATURES arm_bf16 ENTRIES neon/kernels.cpp)
