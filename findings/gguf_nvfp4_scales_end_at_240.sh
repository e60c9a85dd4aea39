#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/gguf_nvfp4_scales_end_at_240.sh: gguf's conversion of NVFP4's scales, as ggml's in C, makes 448 of all from 248 up.
# It takes E4M3's last exponent for beyond the range, but for its largest number. NVIDIA's recipe puts the largest block's scale at 448, so
# blocks within a factor of 1.8 of it, the largest ones, would be read as up to 1.8 times what they were.
. "$(dirname "$0")/support.sh"
need gguf==0.19.0 numpy==2.4.6 ml_dtypes==0.6.0 PyYAML==6.0.4 tqdm==4.70.1
expect "of 126 positive numbers of E4M3 126 stay; 256: 256, 416: 416, 448: 448"
see "of 126 positive numbers of E4M3 120 stay; 256: 448, 416: 448, 448: 448" <<'PYTHON'
import ml_dtypes
import numpy as np
from gguf.quants import NVFP4

patterns = np.arange(1, 127, dtype=np.uint8)
numbers = patterns.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
made = NVFP4.fp32_to_ue4m3(numbers)
read = dict(zip(numbers.tolist(), made.view(ml_dtypes.float8_e4m3fn).astype(np.float32).tolist()))
some = ", ".join(f"{x}: {read[x]:g}" for x in (256, 416, 448))
print(f"of {len(patterns)} positive numbers of E4M3 {(made == patterns).sum()} stay; {some}")
PYTHON
