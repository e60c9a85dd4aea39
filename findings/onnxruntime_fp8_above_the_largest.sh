#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/onnxruntime_fp8_above_the_largest.sh: ONNX Runtime's unsaturated cast to E4M3 makes NaN, then 448 again, then NaN.
# With `saturate=0` what rounds beyond 448 is to be NaN, as onnx's reference has it: a check for NaN then tells that a scale is too small.
# From 480 to just below 496 the check is passed, with values that are up to a tenth too small.
. "$(dirname "$0")/support.sh"
need onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 protobuf==7.36.2 ml_dtypes==0.6.0 typing_extensions==4.16.0 flatbuffers==25.12.19
expect "464: 448, 470: nan, 480: nan, 495: nan, 496: nan; reference: the same"
see "464: 448, 470: nan, 480: 448, 495: 448, 496: nan; reference: otherwise" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

values = np.array([464, 470, 480, 495, 496], np.float32)
nodes = [
    helper.make_node("Cast", ["x"], ["small"], to=TensorProto.FLOAT8E4M3FN, saturate=0),
    helper.make_node("Cast", ["small"], ["y"], to=TensorProto.FLOAT),
]
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy"]
model = helper.make_model(
    helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 24)], ir_version=11
)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
made = session.run(None, {"x": values})[0]
reference = ReferenceEvaluator(model).run(None, {"x": values})[0]
same = np.array_equal(made, reference, equal_nan=True)
print(", ".join(f"{x:g}: {y:g}" for x, y in zip(values, made)) + f"; reference: {'the same' if same else 'otherwise'}")
PYTHON
