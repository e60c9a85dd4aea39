# SPDX-License-Identifier: Apache-2.0
"""OpenVINO's PagedAttention in a model of one node; it writes the new tokens' K and V in the same call.

Pages of 32 tokens. q, K, V and the result are f32 at the border, so conversions are in its times. The
plugin chooses the pages' layout, so they are filled by the node itself, each page as a sequence of its
own, and copied whole.
"""

from __future__ import annotations

import numpy as np
import openvino
import openvino.opset13 as ops
import torch
from openvino import _pyopenvino

from contenders import Refused

PAGE_SIZE = 32
# Inputs behind the caches, in the node's order: (name, type); those without a value are empty.
LISTS = ("past_lens", "subsequence_begins", "block_indices", "block_indices_begins")
TAIL = (
    ("scale", np.float32), ("sliding_window", np.int32), ("alibi_slopes", np.float32),
    ("max_context_len", np.int32), ("score_aggregation_window", np.int32),
    ("rotated_block_indices", np.int32), ("rotation_deltas", np.int32),
    ("rotation_trig_lut", np.float32), ("xattention_threshold", np.float32),
    ("xattention_block_size", np.int32), ("xattention_stride", np.int32), ("sinks", np.float32),
    ("adaptive_rkv_start_size", np.int32), ("adaptive_rkv_evictable_sizes", np.int32),
    ("adaptive_rkv_diversity_block_set_indices", np.int32),
    ("adaptive_rkv_diversity_block_set_indices_begins", np.int32), ("token_type_ids", np.int32),
    ("qq_bias", np.uint8), ("qq_bias_begins", np.int32),
)  # fmt: skip
SCALARS = {"sliding_window": 0, "max_context_len": 0,
           "xattention_block_size": 0, "xattention_stride": 0, "adaptive_rkv_start_size": 0}  # fmt: skip


class OpenVino:
    def __init__(self, problem, threads, cache) -> None:
        shape = problem.shape
        self.versions = {"openvino": openvino.__version__.split("-")[0]}
        self._problem = problem
        compiled = self._compile(threads, cache)
        self._request = compiled.create_infer_request()
        tables = problem.table(PAGE_SIZE)
        self._caches = [
            self._make_cache(compiled, name, problem.num_pages(PAGE_SIZE))
            for name in ("key_cache.0", "value_cache.0")
        ]
        self._fill(tables)
        self._indices = [tensor(table.flatten().numpy()) for table in tables]
        key, value = problem.new_rows()
        self._set(problem.q, key, value, shape.new, shape.context - shape.new)
        self._set_pages(tables[0].flatten().numpy(), tables.shape[2])
        slots = problem.num_pages(PAGE_SIZE) * PAGE_SIZE
        row_bytes = sum(c.nbytes for c in self._caches) / slots
        self.bytes = int(shape.distinct_tokens * row_bytes)
        if shape.is_latent:  # it keeps V a second time; what must be read is K
            self.bytes = 2 * shape.distinct_tokens * shape.row_elements

    def attend(self, copy: int) -> None:
        self._request.set_tensor("block_indices", self._indices[copy])
        self._request.infer()

    def output(self) -> torch.Tensor:
        shape = self._problem.shape
        out = torch.from_numpy(np.array(self._request.get_output_tensor(0).data))
        return out.view(shape.tokens, shape.q_heads, shape.v_head_size)

    def _compile(self, threads, cache):
        shape = self._problem.shape
        columns = {"query": shape.q_heads * shape.head_size, "key": shape.kv_heads * shape.head_size,
                   "value": shape.kv_heads * shape.v_head_size}  # fmt: skip
        inputs = [parameter(name, [-1, size], np.float32) for name, size in columns.items()]
        for name, size in ("key_cache.0", shape.head_size), ("value_cache.0", shape.v_head_size):
            # The plugin replaces type and shape by those of its layout.
            node = ops.parameter(
                openvino.PartialShape([-1, shape.kv_heads, PAGE_SIZE, size]), openvino.Type.dynamic
            )
            inputs.append(named(node, name))
        inputs += [parameter(name, [-1], np.int32) for name in LISTS]
        constants = []
        for name, dtype in TAIL:
            value = SCALARS.get(name, np.zeros(0))
            value = self._problem.scale if name == "scale" else value
            value = self._problem.shape.context if name == "max_context_len" else value
            constants.append(ops.constant(np.array(value, dtype=dtype)))
        outputs = [node.output(0) for node in (*inputs, *constants)]
        attention = _pyopenvino.op._PagedAttentionExtension(outputs)
        for name, value in (("num_k_heads", shape.kv_heads), ("k_head_size", shape.head_size),
                            ("num_v_heads", shape.kv_heads), ("v_head_size", shape.v_head_size)):  # fmt: skip
            attention.get_rt_info()[name] = value
        model = openvino.Model([attention.output(0)], inputs, "attention")
        settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "bf16",
                    "KV_CACHE_PRECISION": cache, "PERFORMANCE_HINT": "LATENCY"}  # fmt: skip
        try:
            return openvino.Core().compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise Refused(f"OpenVINO: {str(error).splitlines()[0]}") from error

    def _make_cache(self, compiled, name, pages):
        """The plugin's own type and layout, zeros, in numpy's memory; returns the bytes [pages, ...]."""
        port = compiled.input(name)
        extents = [pages, *(dimension.get_length() for dimension in list(port.partial_shape)[1:])]
        bits = port.element_type.bitwidth
        memory = np.zeros((pages, int(np.prod(extents[1:])) * bits // 8), dtype=np.uint8)
        self._request.set_tensor(
            name, openvino.Tensor(memory, openvino.Shape(extents), port.element_type)
        )
        return memory

    def _fill(self, tables) -> None:
        """The first copy through the node, the others from it."""
        shape = self._problem.shape
        for sequence, pages in enumerate(tables[0]):
            key, value = self._problem.key(sequence), self._problem.value(sequence)
            q = torch.zeros(shape.context, shape.q_heads, shape.head_size)
            self._set(q, key, value, PAGE_SIZE, 0)
            self._set_pages(pages.numpy(), 1)
            self._request.infer()
        first = tables[0].flatten().numpy()
        for table in tables[1:]:
            for cache in self._caches:
                cache[table.flatten().numpy()] = cache[first]

    def _set(self, q, key, value, new, past) -> None:
        """New tokens of sequences of `new` each (the last one may be shorter) behind `past`."""
        for name, rows in ("query", q), ("key", key), ("value", value):
            self._request.set_tensor(name, tensor(rows.float().flatten(1).contiguous().numpy()))
        begins = np.minimum(np.arange(0, len(q) + new, new), len(q)).astype(np.int32)
        self._request.set_tensor("subsequence_begins", tensor(begins))
        self._request.set_tensor("past_lens", tensor(np.full(len(begins) - 1, past, np.int32)))

    def _set_pages(self, pages, of_each) -> None:
        self._request.set_tensor("block_indices", tensor(pages))
        begins = np.arange(0, len(pages) + 1, of_each, dtype=np.int32)
        self._request.set_tensor("block_indices_begins", tensor(begins))


def tensor(array: np.ndarray) -> openvino.Tensor:
    return openvino.Tensor(np.ascontiguousarray(array))


def named(node, name: str):
    node.output(0).set_names({name})
    node.set_friendly_name(name)
    return node


def parameter(name: str, extents: list[int], dtype):
    return named(ops.parameter(openvino.PartialShape(extents), dtype), name)
