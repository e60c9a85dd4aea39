#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/mxfp4_scales_differ.sh: gguf and MLX write the same block of 32 numbers in MXFP4 with different scales.
# Both have OCP's format and read each other's numbers alike. OCP's rule, gguf's, takes the exponent of the largest number, which may be
# cut to 6 steps; MLX takes the least scale that cuts nothing, twice the other for 30 % of normal blocks. Packed bits cannot be compared.
. "$(dirname "$0")/support.sh"
need gguf==0.19.0 mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6 PyYAML==6.0.4 tqdm==4.70.1
expect "4096 blocks of normal numbers: scales agree in 100 %; numbers agree there: yes"
see "4096 blocks of normal numbers: scales agree in 70 %; numbers agree there: yes" <<'PYTHON'
import gguf
import mlx.core as mx
import numpy as np
from gguf import quants

MXFP4 = gguf.GGMLQuantizationType.MXFP4
numbers = np.random.default_rng(0).standard_normal((4096, 32)).astype(np.float32)
blocks = quants.quantize(numbers, MXFP4)
packed, scales = mx.quantize(mx.array(numbers), mode="mxfp4", group_size=32)
same = blocks[:, 0] == np.array(scales)[:, 0]
theirs = np.array(mx.dequantize(packed, scales, mode="mxfp4", group_size=32).astype(mx.float32))
alike = np.array_equal(theirs[same], quants.dequantize(blocks, MXFP4)[same])
print(
    f"{len(numbers)} blocks of normal numbers: scales agree in {100 * same.mean():.0f} %; numbers agree there: {'yes' if alike else 'no'}"
)
PYTHON
