#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/mlx_affine_cuts_an_end.sh: MLX's affine quantisation, that of its KV caches, does not reach both ends of a group.
# With a scale and a bias for each group one counts on errors of half a step. But the step is made smaller or larger until zero is exact,
# and where it is smaller one end of the group is cut off, by up to a whole step.
. "$(dirname "$0")/support.sh"
need mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
expect "4 bits of -0.98 ... 1: -0.98 ... 1; largest error of normal numbers: 0.5 steps; groups cut: 0 %"
see "4 bits of -0.98 ... 1: -0.875 ... 1; largest error of normal numbers: 1.0 steps; groups cut: 29 %" <<'PYTHON'
import mlx.core as mx
import numpy as np

GROUP = {"group_size": 64, "bits": 4}


def round_trip(values):
    """The values again, and the step of each group."""
    packed, scales, biases = mx.quantize(mx.array(values), **GROUP)
    return np.array(mx.dequantize(packed, scales, biases, **GROUP)), abs(np.array(scales))


even = round_trip(np.linspace(-0.98, 1, 64, dtype=np.float32)[None])[0]
numbers = np.random.default_rng(0).standard_normal((4096, 64)).astype(np.float32)
made, steps = round_trip(numbers)
errors = (abs(made - numbers) / steps).max(axis=1)
print(
    f"4 bits of -0.98 ... 1: {even.min():g} ... {even.max():g}; largest error of normal numbers: {errors.max():.1f} steps; "
    f"groups cut: {100 * (errors > 0.51).mean():.0f} %"
)
PYTHON
