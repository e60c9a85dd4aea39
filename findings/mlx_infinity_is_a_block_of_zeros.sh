#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/mlx_infinity_is_a_block_of_zeros.sh: an infinity, or a NaN, in a block in MXFP4 makes MLX write 32 zeros.
# OCP has a scale that says NaN for such a block, and MLX's affine mode shows infinities as NaN. Here an overflow of one activation becomes a
# finite cache without the 31 numbers beside it; a check of the output finds nothing.
. "$(dirname "$0")/support.sh"
need mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
expect "a block of 100s with inf: affine not all finite, mxfp4 not all finite; with nan: mxfp4 not all finite"
see "a block of 100s with inf: affine not all finite, mxfp4 zeros; with nan: mxfp4 zeros" <<'PYTHON'
import mlx.core as mx
import numpy as np


def read(bad, mode):
    """What is read of the block that has `bad` among its numbers, in a word."""
    block = np.full((1, 32), 100, np.float32)
    block[0, 7] = bad
    packed = mx.quantize(mx.array(block), mode=mode, group_size=32, bits=4)
    numbers = np.array(mx.dequantize(*packed, mode=mode, group_size=32, bits=4).astype(mx.float32))
    return "not all finite" if not np.isfinite(numbers).all() else "numbers" if numbers.any() else "zeros"


infinity, nan = float("inf"), float("nan")
print(
    f"a block of 100s with inf: affine {read(infinity, 'affine')}, mxfp4 {read(infinity, 'mxfp4')}; with nan: mxfp4 {read(nan, 'mxfp4')}"
)
PYTHON
