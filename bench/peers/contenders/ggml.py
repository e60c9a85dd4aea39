# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's attention: its library ggml through ctypes, a graph of one layer for each copy.

K and V lie as llama.cpp keeps them: rows of all heads, token after token (V transposed where flash
attention is off), f16, q8_0 or q4_0; contiguous, as ggml has no pages. Or head after head, which ggml
offers and llama.cpp does not use. q and the result are f32. llama.cpp turns rows of caches of few bits,
and q and outputs with them, by products of its own around the attention: they are not in the times.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_bool, c_float, c_int, c_int64, c_size_t, c_void_p

import torch

from contenders import Refused

F32 = 0
TYPES = {"f16": 1, "q4_0": 2, "q8_0": 8}
F16 = TYPES["f16"]
NODES = 16


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


TENSOR = c_void_p
FOUR = [c_int64] * 4
# function -> (result, arguments); contexts, graphs and backends are addresses, too.
FUNCTIONS = {
    "ggml_init": (c_void_p, [InitParams]),
    "ggml_free": (None, [c_void_p]),
    "ggml_tensor_overhead": (c_size_t, []),
    "ggml_graph_overhead_custom": (c_size_t, [c_size_t, c_bool]),
    "ggml_new_tensor_4d": (TENSOR, [c_void_p, c_int, *FOUR]),
    "ggml_view_4d": (TENSOR, [c_void_p, TENSOR, *FOUR, *[c_size_t] * 4]),
    "ggml_row_size": (c_size_t, [c_int, c_int64]),
    "ggml_flash_attn_ext": (TENSOR, [c_void_p, *[TENSOR] * 4, *[c_float] * 3]),
    "ggml_mul_mat": (TENSOR, [c_void_p, TENSOR, TENSOR]),
    "ggml_soft_max_ext": (TENSOR, [c_void_p, TENSOR, TENSOR, c_float, c_float]),
    "ggml_new_graph_custom": (c_void_p, [c_void_p, c_size_t, c_bool]),
    "ggml_build_forward_expand": (None, [c_void_p, TENSOR]),
    "ggml_quantize_chunk": (c_size_t, [c_int, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p]),
    "ggml_backend_cpu_init": (c_void_p, []),
    "ggml_backend_cpu_set_n_threads": (None, [c_void_p, c_int]),
    "ggml_backend_free": (None, [c_void_p]),
    "ggml_backend_buffer_free": (None, [c_void_p]),
    "ggml_backend_alloc_ctx_tensors": (c_void_p, [c_void_p, c_void_p]),
    "ggml_backend_tensor_set": (None, [TENSOR, c_void_p, c_size_t, c_size_t]),
    "ggml_backend_tensor_get": (None, [TENSOR, c_void_p, c_size_t, c_size_t]),
    "ggml_backend_graph_compute": (c_int, [c_void_p, c_void_p]),
}  # fmt: skip


class Library:
    """Its functions under their names without `ggml_`; FOLIO_PEERS_GGML is the folder of its files."""

    def __init__(self) -> None:
        folder = os.environ.get("FOLIO_PEERS_GGML")
        if not folder:
            raise Refused(
                os.environ.get("FOLIO_PEERS_GGML_REASON", "llama.cpp's ggml is not built")
            )
        parts = [
            ctypes.CDLL(f"{folder}/lib{name}.so", ctypes.RTLD_GLOBAL)
            for name in ("ggml-base", "ggml-cpu")
        ]
        for name, (result, arguments) in FUNCTIONS.items():
            function = next(getattr(part, name) for part in parts if hasattr(part, name))
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), function)


class Ggml:
    def __init__(self, problem, threads, flash, dtype="f16", head_major=False) -> None:
        self._lib = lib = Library()
        self.versions = {"llama-cpp-python": os.environ.get("FOLIO_PEERS_GGML_VERSION", "unknown")}
        self._problem, self._flash, self._head_major = problem, flash, head_major
        self._type = TYPES[dtype]
        size = (4 + 8 * problem.dense_copies) * lib.tensor_overhead()
        size += problem.dense_copies * lib.graph_overhead_custom(NODES, False)
        self._context = lib.init(InitParams(size, None, True))
        self._backend = lib.backend_cpu_init()
        lib.backend_cpu_set_n_threads(self._backend, threads)
        shape = problem.shape
        per_token = [shape.head_size, shape.q_heads, shape.new, shape.batch]
        self._q = lib.new_tensor_4d(self._context, F32, *per_token)
        self._mask = None
        if shape.new > 1:
            self._mask = lib.new_tensor_4d(self._context, F16, shape.context, shape.new, 1, 1)
        self._copies = [self._build() for _ in range(problem.dense_copies)]
        self._buffer = lib.backend_alloc_ctx_tensors(self._context, self._backend)
        self._fill()
        self._result = None
        row = lib.row_size(self._type, shape.kv_heads * shape.head_size)
        row += (
            0 if shape.is_latent else lib.row_size(self._type, shape.kv_heads * shape.v_head_size)
        )
        self.bytes = shape.batch * shape.context * row

    def __del__(self) -> None:
        lib = getattr(self, "_lib", None)
        if lib is not None and hasattr(self, "_buffer"):
            lib.backend_buffer_free(self._buffer)
            lib.backend_free(self._backend)
            lib.free(self._context)

    def attend(self, copy: int) -> None:
        _, _, graph, self._result = self._copies[copy % len(self._copies)]
        if self._lib.backend_graph_compute(self._backend, graph) != 0:
            raise RuntimeError("ggml_backend_graph_compute failed")

    def output(self) -> torch.Tensor:
        shape = self._problem.shape
        out = torch.empty(shape.tokens, shape.q_heads, shape.v_head_size)
        self._lib.backend_tensor_get(self._result, out.data_ptr(), 0, out.nbytes)
        if self._flash:
            return out
        # [batch, heads, tokens, size] without flash attention
        out = out.view(shape.batch, shape.q_heads, shape.new, shape.v_head_size)
        return out.transpose(1, 2).reshape(shape.tokens, shape.q_heads, shape.v_head_size)

    def _heads(self, tensor, size, heads, tokens, kind, head_major=False):
        """[size, tokens, heads, batch] of rows of all heads, as llama.cpp permutes them; or of heads."""
        one, batch = self._lib.row_size(kind, size), self._problem.shape.batch
        token, head = (one, one * tokens) if head_major else (one * heads, one)
        return self._lib.view_4d(
            self._context, tensor, size, tokens, heads, batch, token, head, one * heads * tokens, 0
        )

    def _new_rows(self, size):
        """(tensor, view of its heads) of K or V."""
        shape, heads = self._problem.shape, self._problem.shape.kv_heads
        tensor = self._lib.new_tensor_4d(
            self._context, self._type, heads * size, shape.context, shape.batch, 1
        )
        view = self._heads(tensor, size, heads, shape.context, self._type, self._head_major)
        return tensor, view

    def _build(self):
        """(K, V, graph, result) of one copy."""
        lib, shape, scale = self._lib, self._problem.shape, self._problem.scale
        context = self._context
        key, keys = self._new_rows(shape.head_size)
        q = self._heads(self._q, shape.head_size, shape.q_heads, shape.new, F32)
        value = None
        if self._flash:
            if shape.is_latent:
                row = lib.row_size(self._type, shape.head_size)
                values = lib.view_4d(context, key, shape.v_head_size, shape.context, 1, shape.batch,
                                     row, row, row * shape.context, 0)  # fmt: skip
            else:
                value, values = self._new_rows(shape.v_head_size)
            result = lib.flash_attn_ext(context, q, keys, values, self._mask, scale, 0.0, 0.0)
        else:
            value = lib.new_tensor_4d(
                context, self._type, shape.context, shape.v_head_size, shape.kv_heads, shape.batch
            )
            weights = lib.soft_max_ext(
                context, lib.mul_mat(context, keys, q), self._mask, scale, 0.0
            )
            result = lib.mul_mat(context, value, weights)
        graph = lib.new_graph_custom(context, NODES, False)
        lib.build_forward_expand(graph, result)
        return key, value, graph, result

    def _fill(self) -> None:
        shape = self._problem.shape
        self._set(self._q, self._problem.q.float())
        if self._mask is not None:
            mask = torch.full((shape.new, shape.context), float("-inf"), dtype=torch.float16)
            self._set(self._mask, mask.triu(shape.context - shape.new + 1))
        key, value = self._problem.all_rows()
        of_sequences = (shape.batch, shape.context, shape.kv_heads, -1)
        if not self._flash:
            value = value.view(of_sequences).permute(0, 2, 3, 1)
        if self._head_major:
            key, value = (rows.view(of_sequences).transpose(1, 2) for rows in (key, value))
        key, value = self._stored(key), self._stored(value)
        for into_key, into_value, _, _ in self._copies:
            self._set(into_key, key)
            if into_value is not None:
                self._set(into_value, value)

    def _stored(self, rows: torch.Tensor) -> torch.Tensor:
        """As the cache holds it."""
        if self._type == F16:
            return rows.half().contiguous()
        rows = rows.float().flatten(1).contiguous()
        row = self._lib.row_size(self._type, rows.shape[1])
        stored = torch.empty(len(rows), row, dtype=torch.uint8)
        self._lib.quantize_chunk(
            self._type, rows.data_ptr(), stored.data_ptr(), 0, *rows.shape, None
        )
        return stored

    def _set(self, tensor, values: torch.Tensor) -> None:
        values = values.contiguous()
        self._lib.backend_tensor_set(tensor, values.data_ptr(), 0, values.nbytes)
