# SPDX-License-Identifier: Apache-2.0
"""The operators of torch.ops.folio_kv, each with a change for each argument of its schema."""

from __future__ import annotations

from typing import Any

import torch
from arguments import Walk, tensors
from arguments_flash_attn import DIM, F32, HEADS, KV_HEADS, ints, other
from torch_reference import random

import folio_kv.torch_ops  # noqa: F401

TOKENS = 3


def caches() -> dict[str, Any]:
    return {
        "key_cache": random((6, 4, KV_HEADS, DIM), F32, 2),
        "value_cache": random((6, 4, KV_HEADS, DIM), F32, 3),
    }


def quantised() -> dict[str, Any]:
    def rows(seed: int) -> torch.Tensor:
        return (random((6, 4, KV_HEADS, DIM), F32, seed) * 30).to(torch.int8)

    return {
        "key_cache": rows(2),
        "value_cache": rows(3),
        "key_scales": random((6, 4, KV_HEADS, 1), F32, 4).abs(),
        "value_scales": random((6, 4, KV_HEADS, 1), F32, 5).abs(),
    }


def batch() -> dict[str, Any]:
    return {
        "query_offsets": ints(0, 2, TOKENS),
        "context_lengths": ints(7, 5),
        "table": ints(5, 1, 0, 3).view(2, 2),
    }


def new() -> dict[str, Any]:
    rows = {x: random((TOKENS, KV_HEADS, DIM), F32, s) for x, s in (("k", 6), ("v", 7))}
    return rows | {
        "cos_sin": random((16, DIM), F32, 8),
        "positions": ints(5, 6, 4),
        "k_norm": random((DIM,), F32, 9),
        "k_norm_shift": random((DIM,), F32, 14),
    }


def q() -> dict[str, Any]:
    return {"q": random((TOKENS, HEADS, DIM), F32, 1)}


def q_norm() -> dict[str, Any]:
    return {"q_norm": random((DIM,), F32, 10), "q_norm_shift": random((DIM,), F32, 15)}


def walk(name: str, make: Any, changes: dict[str, Any]) -> Walk:
    op = getattr(torch.ops.folio_kv, name).default
    arguments = {a.name: a for a in op._schema.arguments}
    written = [a.name for a in op._schema.arguments if a.alias_info is not None]

    def call(**values: Any) -> list[torch.Tensor]:
        by_place = [values.pop(n) for n, a in arguments.items() if not a.kwarg_only]
        given = dict(zip(arguments, by_place)) | values
        return tensors(op(*by_place, **values), *(given.get(w) for w in written))

    agrees = {"order": "table", "context_lengths": "table"}
    return Walk(name, arguments, make, call, changes, {}, agrees)


PLANES = {"key_cache": other, "value_cache": [other, None]}
BATCH = {
    "query_offsets": ints(0, 1, TOKENS),
    "context_lengths": [ints(8, 5), ints(9, 5)],
    "table": [ints(5, 1, 3, 0).view(2, 2), ints(5, 1, 3, 6).view(2, 2)],
}
KIND = {
    "scale": 0.3,
    "softcap": 2.0,
    "window_left": 1,
    "window_right": 1,
    "chunk": 3,
    "causal": False,
    "v_in_key": 16,
    "reproducible": "always",
    "bias": random((HEADS, TOKENS, 7), F32, 11),
    "sinks": random((HEADS,), F32, 12),
    "alibi": random((HEADS,), F32, 13).abs(),
}
ROTATION = {
    "cos_sin": other,
    "positions": ints(5, 6, 3),
    "interleaved": True,
    "first_dim": 2,
    "norm_eps": 0.5,
}
PLACES = ROTATION | {
    "slots": torch.tensor([1, 2, 3]),
    "k_norm": [other, None],
    "k_norm_shift": [other, None],
}
SCALES = {"key_scales": other, "value_scales": other}
ORDER = {"order": "HND"}


def attend() -> dict[str, Any]:
    return q() | caches() | batch()


def attend_window() -> dict[str, Any]:
    return attend() | {"window_left": 1, "window_right": 0, "causal": False}


def attend_quantised() -> dict[str, Any]:
    return q() | quantised() | batch()


def step() -> dict[str, Any]:
    return q() | new() | caches() | batch() | q_norm()


def step_window() -> dict[str, Any]:
    return step() | {"window_left": 1, "window_right": 0, "causal": False}


def step_quantised() -> dict[str, Any]:
    return step() | quantised()


def append() -> dict[str, Any]:
    return new() | caches() | batch()


def append_quantised() -> dict[str, Any]:
    return append() | quantised()


def rotate() -> dict[str, Any]:
    chosen = {x: new()[x] for x in ("cos_sin", "positions")}
    return q() | chosen | q_norm()


def states() -> dict[str, Any]:
    return {
        "outs": [random((TOKENS, HEADS, DIM), F32, s) for s in (1, 2)],
        "lses": [random((TOKENS, HEADS), F32, s) for s in (3, 4)],
    }


def copies() -> dict[str, Any]:
    one = caches()
    return {
        "key_caches": [one["key_cache"]],
        "value_caches": [one["value_cache"]],
        "copies": torch.tensor([[0, 3, 2]]),
    }


def first_other(x: list[torch.Tensor]) -> list[torch.Tensor]:
    return [other(x[0]), *x[1:]]


ATTEND = {"q": other} | PLANES | BATCH | KIND | ORDER
APPEND = {"k": other, "v": [other, None]} | PLANES | BATCH | PLACES | ORDER
Q_NORM = {"q_norm": [other, None], "q_norm_shift": [other, None]}
STEP = ATTEND | APPEND | Q_NORM
OF_WINDOW = {"window_right": 1, "sink_tokens": 1}


CASES = [
    *(walk(name, attend, ATTEND) for name in ("attend", "attend_lse")),
    *(walk(name, attend_window, OF_WINDOW) for name in ("attend", "attend_lse")),
    *(walk(name, attend_quantised, SCALES) for name in ("attend", "attend_lse")),
    walk("append", append, APPEND),
    walk("append", append_quantised, SCALES),
    walk("step", step, STEP),
    walk("step", step_window, OF_WINDOW),
    walk("step", step_quantised, SCALES),
    walk("rotate", rotate, {"q": other} | Q_NORM | ROTATION),
    walk("merge", states, {"outs": first_other, "lses": first_other}),
    walk(
        "copy_pages",
        copies,
        {
            "key_caches": first_other,
            "value_caches": first_other,
            "copies": [
                torch.tensor([[0, 4, 2]]),
                torch.tensor([[0, 3, 1]]),
                torch.tensor([[0, 9, 2]]),
            ],
        },
    ),
]
