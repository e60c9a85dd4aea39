#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/onnx_nonpad_moves_causality.sh: in ONNX's Attention, to say that no key is padding changes which keys a query sees.
# Without `nonpad_kv_seqlen` the causal mask begins top left, with it bottom right: a chunk behind a cache attends wrongly if the lengths
# are left out because all keys are valid. onnx's reference and ONNX Runtime agree (the operator's text has it, in a subordinate clause).
. "$(dirname "$0")/support.sh"
need onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 protobuf==7.36.2 ml_dtypes==0.6.0 typing_extensions==4.16.0 flatbuffers==25.12.19
expect "two queries, four keys; no lengths: 1 and 2 seen; length 4: 1 and 2; ONNX Runtime: the same"
see "two queries, four keys; no lengths: 1 and 2 seen; length 4: 3 and 4; ONNX Runtime: the same" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

QUERIES, KEYS = 2, 4
feeds = {
    "q": np.zeros((1, 1, QUERIES, KEYS), np.float32),
    "k": np.zeros((1, 1, KEYS, KEYS), np.float32),
    "v": np.eye(KEYS, dtype=np.float32)[None, None],
}


def model(with_lengths):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, feeds[name].shape) for name in "qkv"]
    names = ["q", "k", "v"]
    if with_lengths:
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT64, (1,)))
        names += ["", "", "", "lengths"]
    node = helper.make_node("Attention", names, ["y"], is_causal=1)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


def keys_seen(run, with_lengths):
    given = dict(feeds, lengths=np.array([KEYS])) if with_lengths else feeds
    return (run(model(with_lengths), given)[0, 0] > 0).sum(axis=1)


def reference(graph, given):
    return ReferenceEvaluator(graph).run(None, given)[0]


def runtime(graph, given):
    return onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)[0]


without, given = (keys_seen(reference, with_lengths) for with_lengths in (False, True))
same = all((keys_seen(runtime, lengths) == seen).all() for lengths, seen in ((False, without), (True, given)))
print(
    f"two queries, four keys; no lengths: {without[0]} and {without[1]} seen; length 4: {given[0]} and {given[1]}; "
    f"ONNX Runtime: {'the same' if same else 'otherwise'}"
)
PYTHON
