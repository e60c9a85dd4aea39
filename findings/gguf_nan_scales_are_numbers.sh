#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/gguf_nan_scales_are_numbers.sh: gguf, as ggml, reads MXFP4's scale that says NaN as 2^128, and NVFP4's as 0.
# OCP and E4M3 have these patterns, 255 and 127, for blocks that hold no number. A block that another library marked so is read as very
# large numbers in one format, and as zeros, which nobody notices, in the other.
. "$(dirname "$0")/support.sh"
need gguf==0.19.0 numpy==2.4.6 ml_dtypes==0.6.0 PyYAML==6.0.4 tqdm==4.70.1
expect "the patterns are NaN of E8M0 and E4M3: yes; a half of such a scale: MXFP4 nan, NVFP4 nan"
see "the patterns are NaN of E8M0 and E4M3: yes; a half of such a scale: MXFP4 1.70141e+38, NVFP4 0" <<'PYTHON'
import gguf
import ml_dtypes
import numpy as np
from gguf import quants

HALF = 0x11  # 0.5 twice in E2M1


def first(name, scales, size):
    block = np.array([[*scales, *[HALF] * (size - len(scales))]], np.uint8)
    return quants.dequantize(block, getattr(gguf.GGMLQuantizationType, name))[0, 0]


def is_nan(pattern, dtype):
    return np.isnan(np.array([pattern], np.uint8).view(dtype).astype(np.float32)[0])


both = is_nan(255, ml_dtypes.float8_e8m0fnu) and is_nan(127, ml_dtypes.float8_e4m3fn)
numbers = f"MXFP4 {first('MXFP4', [255], 17):g}, NVFP4 {first('NVFP4', [127] * 4, 36):g}"
print(f"the patterns are NaN of E8M0 and E4M3: {'yes' if both else 'no'}; a half of such a scale: {numbers}")
PYTHON
