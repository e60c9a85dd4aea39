# SPDX-License-Identifier: Apache-2.0
"""folio through its Python module: pages of 64 tokens, filled by append; a plan for each copy."""

from __future__ import annotations

import torch

import folio_kv

PAGE_SIZE = 64
ELEMENT = {"bf16": torch.bfloat16, "i8": torch.int8, "f8_e4m3": torch.uint8}
# Rows with granules, as a Format says it: (arguments, bits of an element, the scales' type in torch).
I8 = ({"dtype": "i8", "scale_dtype": "f16", "granularity": 64}, 8, torch.float16)
I4 = ({"dtype": "i4", "scale_dtype": "f16", "granularity": 32}, 4, torch.float16)
NVFP4 = (
    {"dtype": "f4_e2m1", "scale_dtype": "f8_e4m3", "granularity": 16, "tensor_scale": 1 / 16},
    4,
    torch.uint8,
)
U4 = (NVFP4[0] | {"dtype": "u4", "zeros": "patterns"}, 4, torch.uint8)
FORMATS = {"i4": (I4, I4), "nvfp4": (NVFP4, NVFP4), "kv4": (I8, U4)}  # of K and V
ONE_SCALE = 6.0 / 448  # normal numbers of this many stay below 6


class Folio:
    """`formats`, of FORMATS: rows turned over the whole head, attention by products of integers."""

    def __init__(
        self, problem, threads, order, dtype="bf16", calibrated=False, formats=None
    ) -> None:
        shape = problem.shape
        folio_kv.set_num_threads(threads)
        self.versions = {"folio": folio_kv.__version__}
        self._problem = problem
        self._key, self._value = problem.new_rows()
        tables = problem.table(PAGE_SIZE)
        if formats:
            self._pages = self._make_packed_pages(order, FORMATS[formats])
        else:
            self._pages = self._make_pages(order, dtype, calibrated)
        if shape.is_latent:
            self._value = None
        options = {"v_in_key": shape.v_head_size} if shape.is_latent else {}
        options |= {"int8_operands": True} if formats else {}
        kind = folio_kv.Kind(shape.q_heads, scale=problem.scale, **options)
        self._attention = folio_kv.Attention(
            kind, self._pages, batch=shape.batch, tokens=shape.tokens, context=shape.context
        )
        self.versions["kernel"] = self._attention.kernel
        self.versions["executor"] = folio_kv.get_executor().split(" (")[0]  # without a path
        self._fill(tables)
        lengths, offsets = problem.lengths(), problem.query_offsets()
        self._batches = [folio_kv.Batch(offsets, lengths, table) for table in tables]
        self._plans = [folio_kv.plan(self._attention, batch) for batch in self._batches]
        self._out = torch.empty(
            shape.tokens, shape.q_heads, shape.v_head_size, dtype=torch.bfloat16
        )
        rows = shape.tokens if shape.kind == "append" else shape.distinct_tokens
        self.bytes = rows * self._row_bytes

    def attend(self, copy: int) -> None:
        folio_kv.attend(
            self._attention, self._plans[copy], self._pages, self._problem.q, out=self._out
        )

    def append(self, copy: int) -> None:
        folio_kv.append(self._batches[copy], self._pages, self._key, self._value)

    def output(self) -> torch.Tensor:
        return self._out

    def _make_pages(self, order, dtype, calibrated):
        """Planes in torch's memory, which the C library puts on huge pages here."""
        shape, planes, options = self._problem.shape, [], {"order": order, "dtype": dtype}
        outer = self._extents(order)
        self._row_bytes = shape.row_elements * ELEMENT[dtype].itemsize
        for name, size in ("key", shape.head_size), ("value", shape.v_head_size):
            if name == "value" and shape.is_latent:
                break
            planes.append(torch.zeros(*outer, size, dtype=ELEMENT[dtype]))
            if dtype != "bf16":
                options[f"{name}_scales"] = ONE_SCALE if calibrated else torch.ones(*outer, 1)
                self._row_bytes += 0 if calibrated else 4 * shape.kv_heads
        return folio_kv.Pages(*planes, **options)

    def _make_packed_pages(self, order, formats):
        """Rows of granules, their scales in planes beside them."""
        shape, planes, options = self._problem.shape, [], {"order": order}
        outer, self._row_bytes = self._extents(order), 0
        sizes = ("key", shape.head_size), ("value", shape.v_head_size)
        for (name, size), (words, bits, scale_type) in zip(sizes, formats, strict=True):
            element = torch.int8 if bits == 8 else torch.uint8
            planes.append(torch.zeros(*outer, size * bits // 8, dtype=element))
            in_granule = 2 if "zeros" in words else 1  # a scale, and the zero point behind it
            granules = size // words["granularity"]
            scales = torch.zeros(*outer, granules, in_granule, dtype=scale_type)
            options[f"{name}_scales"] = scales[..., 0]
            if "zeros" in words:
                options[f"{name}_zeros"] = scales[..., 1]
            options["dtype" if name == "key" else "v_dtype"] = folio_kv.Format(
                **words, hadamard=size
            )
            in_one = size * bits // 8 + granules * in_granule * scales.itemsize
            self._row_bytes += shape.kv_heads * in_one
        return folio_kv.Pages(*planes, **options)

    def _extents(self, order):
        """Of a plane, without those of a row."""
        count = self._problem.num_pages(PAGE_SIZE)
        inner = (PAGE_SIZE, self._problem.shape.kv_heads)
        return (count, *(inner if order == "NHD" else inner[::-1]))

    def _fill(self, tables) -> None:
        problem = self._problem
        key, value = problem.own_rows()
        for table in tables:
            batch = folio_kv.Batch(problem.own_offsets(), problem.lengths(), table)
            folio_kv.append(batch, self._pages, key, None if problem.shape.is_latent else value)
