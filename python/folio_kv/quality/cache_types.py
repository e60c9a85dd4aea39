# SPDX-License-Identifier: Apache-2.0
"""Which types of cache are compared: a row each."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import Error

__all__ = ["TYPES", "CacheType", "chosen", "sparse"]


@dataclasses.dataclass(frozen=True)
class CacheType:
    """engine: "folio" (options of FolioCache; calibrated: channel_scales; sparse_pages: options of SparsePages), "llama.cpp" (its
    names of K's and V's type), "vllm" (rows rounded as vLLM stores them, attention by torch).
    """

    name: str
    engine: str
    options: dict[str, Any]


def _folio(name: str, **options: Any) -> CacheType:
    return CacheType(name, "folio", options)


def _llama(keys: str, values: str) -> CacheType:
    name = f"llama-{keys}" if keys == values else f"llama-{keys}-{values}"
    return CacheType(name, "llama.cpp", {"keys": keys, "values": values})


_ALL = (
    _folio("f32", dtype="f32"),
    _folio("bf16", dtype="bf16"),
    _folio("f16", dtype="f16"),
    _folio("int8", dtype="int8"),
    _folio("int8-per-row", dtype="int8_per_row"),
    _folio("fp8", dtype="fp8"),
    _folio("q8_0", dtype="q8_0"),
    _folio("q4_0", dtype="q4_0"),
    _folio("q8_0-q4_0", dtype="q8_0", v_dtype="q4_0"),
    _folio("int8-rotated", dtype="int8", rotated=True),
    _folio("int8-calibrated", dtype="int8", rotated=True, calibrated=True),
    _folio("kv4", dtype="kv4"),
    _folio("kv4-rotated", dtype="kv4", rotated=True),
    _folio("kv4-calibrated", dtype="kv4", rotated=True, calibrated=True),
    _folio("int4", dtype="int4"),
    _folio("int4-rotated", dtype="int4", rotated=True),
    _folio("int4-calibrated", dtype="int4", rotated=True, calibrated=True),
    _folio("nvfp4", dtype="nvfp4"),
    _folio("nvfp4-rotated", dtype="nvfp4", rotated=True),
    _folio("nvfp4-calibrated", dtype="nvfp4", rotated=True, calibrated=True),
    _folio("mxfp4", dtype="mxfp4"),
    _folio("mxfp4-rotated", dtype="mxfp4", rotated=True),
    CacheType("vllm-fp8", "vllm", {"dtype": "float8_e4m3fn"}),
    _llama("f16", "f16"),
    _llama("q8_0", "q8_0"),
    _llama("q8_0", "q4_0"),
    _llama("q4_0", "q4_0"),
)
TYPES = {row.name: row for row in _ALL}


def chosen(names: str | None) -> list[CacheType]:
    """The rows of names with commas between them, all of them for None. Errors: an unknown name."""
    if names is None:
        return list(_ALL)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in TYPES:
            raise Error(f"--types: expected some of {', '.join(TYPES)}, got {name!r}")
    if not wanted:
        raise Error("--types: expected at least one type, got none")
    return [TYPES[name] for name in dict.fromkeys(wanted)]


def sparse(tokens: list[int], page_sizes: list[int]) -> list[CacheType]:
    """bf16 read whole, then by so many tokens of pages of each size."""
    rows = [TYPES["bf16"]]
    for page_size in page_sizes:
        for count in tokens:
            choice = {"tokens": count, "every_query": True, "watched": True}
            options = {"dtype": "bf16", "page_size": page_size, "sparse_pages": choice}
            rows.append(CacheType(f"bf16-{count}-by-{page_size}", "folio", options))
    return rows
