#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/ml_dtypes_e2m1_nan_is_zero.sh: a NaN becomes zero in ml_dtypes' four bits, of the other sign, where an infinity becomes 6.
# The format has no NaN, and OpenVINO's cast makes 6 of it. A row with a NaN differs by the whole range from one library to the other, and a
# look for numbers at the end of the range, which finds an overflow, does not find a NaN here.
. "$(dirname "$0")/support.sh"
need ml_dtypes==0.6.0 openvino==2026.4.1 openvino-telemetry==2025.2.0 numpy==2.4.6
expect "inf, -inf, nan, -nan: ml_dtypes 6 -6 6 -6; the magnitudes are OpenVINO's: yes"
see "inf, -inf, nan, -nan: ml_dtypes 6 -6 -0 0; the magnitudes are OpenVINO's: no, 6 6 6 6" <<'PYTHON'
import ml_dtypes
import numpy as np
import openvino
from openvino import opset13

values = np.array([np.inf, -np.inf, np.nan, -np.nan], np.float32)
parameter = opset13.parameter([len(values)], openvino.Type.f32)
small = opset13.convert(parameter, openvino.Type.f4e2m1)
model = openvino.Model([opset13.convert(small, openvino.Type.f32)], [parameter])
theirs = np.abs(openvino.compile_model(model, "CPU")([values])[0])
made = values.astype(ml_dtypes.float4_e2m1fn).astype(np.float32)


def words(numbers):
    return " ".join(f"{number:g}" for number in numbers)


alike = "yes" if np.array_equal(np.abs(made), theirs) else f"no, {words(theirs)}"
print(f"inf, -inf, nan, -nan: ml_dtypes {words(made)}; the magnitudes are OpenVINO's: {alike}")
PYTHON
