# SPDX-License-Identifier: Apache-2.0
"""The functions of folio_kv.flash_attn, each with a change for each of its parameters."""

from __future__ import annotations

from typing import Any

import torch
from arguments import Walk, called, parameters_of, tensors
from torch_reference import random

import folio_kv.flash_attn as flash_attn

HEADS, KV_HEADS, DIM = 4, 2, 32
F32 = torch.float32

HINTS = {"deterministic": "results repeat themselves either way"}


def other(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5 + 0.125


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


OPTIONS = {
    "dropout_p": 0.5,
    "softmax_scale": 0.3,
    "causal": True,
    "window_size": [(1, 1), (None, 0)],
    "softcap": 2.0,
    "alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 0.75]),
    "return_attn_probs": True,
    "s_aux": torch.tensor([0.5, -1.0, 2.0, 0.0]),
}
# What the packed functions hand on.
REST = {
    "args": (0.0, 0.3),
    "kwargs": [{name: x} for name, x in OPTIONS.items() if name != "window_size"],
}


def walk(
    name: str, make: Any, changes: dict[str, Any], hints: dict[str, str], written: tuple = ()
) -> Walk:
    function = getattr(flash_attn, name)

    def call(**values: Any) -> list[torch.Tensor]:
        return tensors(called(function, values), *(values[w] for w in written))

    agrees = {"cache_seqlens": "k_cache", "block_table": "k"}
    return Walk(name, parameters_of(function), make, call, changes, hints, agrees)


def dense() -> dict[str, Any]:
    return {
        "q": random((2, 3, HEADS, DIM), F32, 1),
        "k": random((2, 5, KV_HEADS, DIM), F32, 2),
        "v": random((2, 5, KV_HEADS, DIM), F32, 3),
    }


def kv_packed() -> dict[str, Any]:
    d = dense()
    return {"q": d["q"], "kv": torch.stack([d["k"], d["v"]], 2)}


def qkv_packed() -> dict[str, Any]:
    return {"qkv": random((2, 5, 3, HEADS, DIM), F32, 1)}


def varlen() -> dict[str, Any]:
    return {
        "q": random((5, HEADS, DIM), F32, 1),
        "k": random((12, KV_HEADS, DIM), F32, 2),
        "v": random((12, KV_HEADS, DIM), F32, 3),
        "cu_seqlens_q": ints(0, 3, 5),
        "cu_seqlens_k": ints(0, 7, 12),
        "max_seqlen_q": 3,
        "max_seqlen_k": 7,
    }


def varlen_pages() -> dict[str, Any]:
    values = varlen()
    values["k"], values["v"] = (random((6, 4, KV_HEADS, DIM), F32, s) for s in (2, 3))
    return values | {"block_table": ints(5, 1, 0, 3).view(2, 2)}


def varlen_kv_packed() -> dict[str, Any]:
    values = varlen()
    values["kv"] = torch.stack([values.pop("k"), values.pop("v")], 1)
    return {"q": values.pop("q"), "kv": values.pop("kv"), "args": tuple(values.values())}


def varlen_qkv_packed() -> dict[str, Any]:
    return {
        "qkv": random((12, 3, HEADS, DIM), F32, 1),
        "cu_seqlens": ints(0, 7, 12),
        "max_seqlen": 7,
    }


def with_cache() -> dict[str, Any]:
    return {
        "q": random((2, 2, HEADS, DIM), F32, 1),
        "k_cache": random((4, 9, KV_HEADS, DIM), F32, 2),
        "v_cache": random((4, 9, KV_HEADS, DIM), F32, 3),
        "k": random((2, 2, KV_HEADS, DIM), F32, 4),
        "v": random((2, 2, KV_HEADS, DIM), F32, 5),
        "rotary_cos": random((16, DIM // 2), F32, 6).cos(),
        "rotary_sin": random((16, DIM // 2), F32, 6).sin(),
        "cache_seqlens": ints(5, 3),
        "causal": True,
    }


def with_pages() -> dict[str, Any]:
    values = with_cache()
    values["k_cache"], values["v_cache"] = (random((6, 4, KV_HEADS, DIM), F32, s) for s in (2, 3))
    return values | {"block_table": ints(5, 1, 0, 3).view(2, 2)}


LENGTHS = {
    "cu_seqlens_q": ints(0, 2, 5),
    "cu_seqlens_k": ints(0, 6, 12),
    "max_seqlen_q": 2,
    "max_seqlen_k": 6,
}
OF_CACHE = {
    **{name: other for name in ("q", "k_cache", "v_cache", "k", "v", "rotary_cos", "rotary_sin")},
    **{x: OPTIONS[x] for x in ("softmax_scale", "softcap", "alibi_slopes", "s_aux")},
    "cache_seqlens": [ints(5, 4), 4, ints(5, 2**30)],
    "causal": False,
    "window_size": (1, 1),
    "rotary_interleaved": False,
    "return_softmax_lse": True,
    "num_splits": 3,
}
QKV = {"q": other, "k": other, "v": other}

CASES = [
    walk("flash_attn_func", dense, QKV | OPTIONS, HINTS),
    walk("flash_attn_kvpacked_func", kv_packed, {"q": other, "kv": other} | REST, {}),
    walk("flash_attn_qkvpacked_func", qkv_packed, {"qkv": other} | REST, {}),
    walk(
        "flash_attn_varlen_func",
        varlen,
        QKV | LENGTHS | OPTIONS | {"block_table": ints(0, 1).view(2, 1)},
        HINTS,
    ),
    walk(
        "flash_attn_varlen_func",
        varlen_pages,
        QKV
        | OPTIONS
        | {"cu_seqlens_k": ints(0, 6, 12), "block_table": ints(5, 1, 3, 0).view(2, 2)},
        HINTS,
    ),
    walk(
        "flash_attn_varlen_kvpacked_func",
        varlen_kv_packed,
        {
            "q": other,
            "kv": other,
            "args": [lambda x: (ints(0, 2, 5), *x[1:]), lambda x: (*x, 0.0, 0.3)],
            "kwargs": REST["kwargs"],
        },
        {},
    ),
    walk(
        "flash_attn_varlen_qkvpacked_func",
        varlen_qkv_packed,
        {"qkv": other, "cu_seqlens": ints(0, 6, 12), "max_seqlen": 6} | REST,
        {},
    ),
    walk(
        "flash_attn_with_kvcache",
        with_cache,
        OF_CACHE
        | {
            "cache_batch_idx": [ints(3, 1), ints(3, 9)],
            "cache_leftpad": ints(1, 2),
            "block_table": ints(2, 0).view(2, 1),
        },
        {},
        ("k_cache", "v_cache"),
    ),
    walk(
        "flash_attn_with_kvcache",
        with_pages,
        OF_CACHE
        | {
            "cache_batch_idx": ints(1, 0),
            "cache_leftpad": ints(1, 2),
            "block_table": [ints(5, 1, 3, 0).view(2, 2), ints(5, 1, 3, 7).view(2, 2)],
        },
        {},
        ("k_cache", "v_cache"),
    ),
]
