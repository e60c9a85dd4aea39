# SPDX-License-Identifier: Apache-2.0
"""Modular MAX: flash_attention_ragged over a paged cache, as a graph of one operator on CPU().

Pages of 128 tokens, the fewest that it takes. Page 0 is its null page, so that ids of the harness are
one more. Its threads are those of the processors that the process may run on: the session has no
number of them that counts.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os

import torch
from max.driver import CPU, Buffer
from max.dtype import DType
from max.engine import InferenceSession, Model
from max.graph import BufferType, DeviceRef, Graph, TensorType, ops
from max.nn.attention.mask_config import MHAMaskVariant
from max.nn.kernels import flash_attention_ragged, store_k_cache_ragged, store_v_cache_ragged
from max.nn.kv_cache import MHAKVCacheParams, PagedCacheValues

from contenders import Refused

PAGE_SIZE = 128
TABLE_STEP, TABLE_SPARE = 8, 16  # columns of a table are a multiple, and so many more
TYPES = {"f32": (DType.float32, torch.float32), "bf16": (DType.bfloat16, torch.bfloat16)}


class Max:
    def __init__(self, problem, threads, dtype: str) -> None:
        shape = problem.shape
        if shape.is_latent:
            raise Refused("latent heads: MAX has kernels for them on GPUs alone")
        use_processors(threads)
        kind, self._type = TYPES[dtype]
        self.versions = {"max": importlib.metadata.version("max")}
        self._problem = problem
        self._table = problem.table(PAGE_SIZE)
        geometry = (kind, shape.q_heads, shape.kv_heads, shape.head_size)
        self._attend = model_of("attend", *geometry, problem.scale)
        self._store = functools.partial(model_of, "store", *geometry, problem.scale)
        self._blocks = torch.zeros(
            1 + problem.num_pages(PAGE_SIZE), 2, 1, PAGE_SIZE, shape.kv_heads, shape.head_size,
            dtype=self._type,
        )  # fmt: skip
        self._fill()
        self._q = self._buffer(problem.q.to(self._type))
        self._new = [self._buffer(rows.to(self._type)) for rows in problem.new_rows()]
        self._inputs = [self._step(copy) for copy in range(problem.copies)]
        self._output = None
        rows = shape.tokens if shape.kind == "append" else shape.distinct_tokens
        self.bytes = rows * shape.row_elements * self._type.itemsize

    def _fill(self) -> None:
        planes = self._problem.own_rows()
        for table in self._table:
            own = self._problem.own_slots(table + 1, PAGE_SIZE)
            for plane, rows in enumerate(planes):
                self._blocks[own // PAGE_SIZE, plane, 0, own % PAGE_SIZE] = rows.to(self._type)

    def _step(self, copy: int) -> list[Buffer]:
        """What the graphs take beside q or new rows."""
        shape, table = self._problem.shape, self._table[copy] + 1
        columns = -(-table.shape[1] // TABLE_STEP) * TABLE_STEP + TABLE_SPARE
        padded = torch.zeros(shape.batch, columns, dtype=torch.int64)
        padded[:, : table.shape[1]] = table
        before = torch.full((shape.batch,), shape.context - shape.new)
        dispatch = torch.tensor([shape.batch, shape.new, 1, shape.context])
        unsigned = [
            self._problem.query_offsets(), before, padded,
            torch.tensor([shape.new]), torch.tensor([shape.context]),
        ]  # fmt: skip
        offsets, lengths, lut, most_new, most = (
            self._buffer(of.to(torch.int32).view(torch.uint32)) for of in unsigned
        )
        stride = self._buffer(torch.tensor([-1]))  # pages lie one behind the other
        blocks = self._buffer(self._blocks)
        return [offsets, blocks, lengths, lut, most_new, most, stride, self._buffer(dispatch)]

    @staticmethod
    def _buffer(tensor: torch.Tensor) -> Buffer:
        """Its memory, not a copy."""
        return Buffer.from_dlpack(tensor.contiguous())

    def attend(self, copy: int) -> None:
        self._output = self._attend.execute(self._q, *self._inputs[copy])[0]

    def output(self) -> torch.Tensor:
        return torch.from_dlpack(self._output)

    def append(self, copy: int) -> None:
        self._store().execute(*self._new, *self._inputs[copy])


def use_processors(count: int) -> None:
    """Of those that it may run on, the first `count`."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:count])


@functools.cache
def session() -> InferenceSession:
    return InferenceSession(devices=[CPU()])


@functools.cache
def model_of(
    what: str, dtype: DType, q_heads: int, kv_heads: int, head_size: int, scale: float
) -> Model:
    """Compiled once for heads and type; batch, tokens and pages are symbols."""
    cpu = DeviceRef.CPU()
    rows = TensorType(dtype, ["tokens", q_heads, head_size], cpu)
    new = TensorType(dtype, ["tokens", kv_heads, head_size], cpu)
    step = [
        TensorType(DType.uint32, ["offsets"], cpu),
        BufferType(dtype, ["pages", 2, 1, PAGE_SIZE, kv_heads, head_size], cpu),
        TensorType(DType.uint32, ["batch"], cpu),
        TensorType(DType.uint32, ["batch", "columns"], cpu),
        TensorType(DType.uint32, [1], cpu),
        TensorType(DType.uint32, [1], cpu),
        TensorType(DType.int64, [1], cpu),
        TensorType(DType.int64, [4], cpu),
    ]
    inputs = [rows, *step] if what == "attend" else [new, new, *step]
    with Graph(what, input_types=inputs) as graph:
        given = list(graph.inputs)
        of, (offsets, blocks, lengths, lut, most_new, most, stride, dispatch) = (
            given[: -len(step)],
            given[-len(step) :],
        )
        cache = PagedCacheValues(
            kv_blocks=blocks.buffer, cache_lengths=lengths.tensor, lookup_table=lut.tensor,
            max_prompt_length=most_new.tensor, max_cache_length=most.tensor,
            page_stride=stride.tensor, attention_dispatch_metadata=dispatch.tensor,
        )  # fmt: skip
        layer = ops.constant(0, DType.uint32, cpu)
        if what == "attend":
            params = MHAKVCacheParams(
                dtype=dtype, head_dim=head_size, num_layers=1, devices=[cpu], n_kv_heads=kv_heads
            )
            graph.output(
                flash_attention_ragged(
                    params, of[0].tensor, offsets.tensor, cache, layer,
                    MHAMaskVariant.CAUSAL_MASK, scale,
                )
            )  # fmt: skip
        else:
            store_k_cache_ragged(cache, of[0].tensor, offsets.tensor, layer)
            store_v_cache_ragged(cache, of[1].tensor, offsets.tensor, layer)
            graph.output()
    return session().load(graph)
