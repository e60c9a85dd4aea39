# SPDX-License-Identifier: Apache-2.0
# Kernels for x86-64, lowest level first; each becomes the object library folio_cpu_NAME. prfchw: every processor with these instruction
# sets runs it, or takes it for nothing.
set(FOLIO_BASELINE_FLAGS -march=x86-64)
set(FOLIO_LEVELS x86_64 x86_64_v3 x86_64_v4 avx512_bf16 amx_bf16)

set(FOLIO_LEVEL_x86_64 SOURCES portable/portable_baseline.cpp append/rows_x86_64.cpp index/index_baseline.cpp pages/pages_baseline.cpp FLAGS ${FOLIO_BASELINE_FLAGS})
set(FOLIO_LEVEL_x86_64_v3 SOURCES portable/portable_x86_64_v3.cpp append/rows_x86_64_v3.cpp index/index_x86_64_v3.cpp pages/pages_x86_64_v3.cpp
    packed/packed_x86_64_v3.cpp
    FLAGS -march=x86-64-v3 -mprfchw FEATURES avx2 ENTRIES packed/kernels.cpp)
set(FOLIO_LEVEL_x86_64_v4 SOURCES portable/portable_x86_64_v4.cpp append/rows_x86_64_v4.cpp index/index_x86_64_v4.cpp pages/pages_x86_64_v4.cpp avx512/f32.cpp
    FLAGS -march=x86-64-v4 -mprfchw -mprefer-vector-width=512 FEATURES avx512f
    ENTRIES avx512/kernels.cpp amx/grouped/grouped.cpp amx/latent/latent.cpp index/bf16.cpp)
# Processors with AVX512-BF16 have VNNI; what the level below lacks beside is staging alone.
set(FOLIO_LEVEL_avx512_bf16 SOURCES avx512/bf16.cpp avx512/int8.cpp packed/packed_avx512.cpp index/index_avx512_bf16.cpp
    FLAGS -march=x86-64-v4 -mavx512bf16 -mavx512vbmi -mavx512vnni -mprefer-vector-width=512
    FEATURES avx512_bf16 NEEDS avx512_bf16)
# The tiles are inline assembly: what surrounds them needs the flags of the level below alone.
set(FOLIO_LEVEL_amx_bf16 SOURCES amx/grouped/grouped_amx_bf16_narrow.cpp amx/grouped/grouped_amx_bf16_wide.cpp amx/latent/latent_amx_bf16.cpp index/index_amx_bf16.cpp
    FLAGS -march=x86-64-v4 -mavx512bf16 -mavx512vbmi -mavx512vnni -mprefer-vector-width=512
    FEATURES amx_bf16 NEEDS avx512_bf16 amx_bf16 ENTRIES amx/grouped/grouped_amx_bf16.cpp)
