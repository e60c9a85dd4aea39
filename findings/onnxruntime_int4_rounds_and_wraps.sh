#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/onnxruntime_int4_rounds_and_wraps.sh: ONNX Runtime's cast to INT4 rounds, as no other of its casts to integers, and then wraps.
# Its cast to INT8 truncates, as onnx's reference does for both. So 7.5, which is within the range, becomes -8, the other end; a graph that
# clips to [-8, 7.9] before the cast has numbers of the wrong sign.
. "$(dirname "$0")/support.sh"
need onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 protobuf==7.36.2 ml_dtypes==0.6.0 typing_extensions==4.16.0 flatbuffers==25.12.19
expect "0.5, 2.7, 7.4, 7.5: INT8 0 2 7 7, INT4 0 2 7 7; reference: INT8 0 2 7 7, INT4 0 2 7 7"
see "0.5, 2.7, 7.4, 7.5: INT8 0 2 7 7, INT4 1 3 7 -8; reference: INT8 0 2 7 7, INT4 0 2 7 7" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

values = np.array([0.5, 2.7, 7.4, 7.5], np.float32)


def model_of(dtype):
    nodes = [
        helper.make_node("Cast", ["x"], ["small"], to=dtype),
        helper.make_node("Cast", ["small"], ["y"], to=TensorProto.FLOAT),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def cast(evaluator):
    parts = []
    for name in ("INT8", "INT4"):
        made = evaluator(model_of(getattr(TensorProto, name))).run(None, {"x": values})[0]
        parts.append(f"{name} {' '.join(f'{x:g}' for x in made)}")
    return ", ".join(parts)


print(f"{', '.join(f'{x:g}' for x in values)}: {cast(session)}; reference: {cast(ReferenceEvaluator)}")
PYTHON
