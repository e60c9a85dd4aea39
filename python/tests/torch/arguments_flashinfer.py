# SPDX-License-Identifier: Apache-2.0
"""The functions of folio_kv.flashinfer, each with a change for each of its parameters."""

from __future__ import annotations

from typing import Any

import torch
from arguments import Walk, parameters_of, tensors
from arguments_flash_attn import DIM, F32, HEADS, KV_HEADS, ints, other
from arguments_wrappers import (
    AGREES,
    BITS,
    HINTS,
    INIT,
    MASK,
    OF_ATTENTION,
    RUN,
    TOKENS,
    WRAPPERS,
    both,
    cache,
    mla_run,
    pages,
)
from torch_reference import random

import folio_kv.flashinfer as flashinfer


def walk(name: str, make: Any, changes: dict[str, Any], *written: str) -> Walk:
    function = getattr(flashinfer, name)
    parameters = parameters_of(function)

    def call(**values: Any) -> list[torch.Tensor]:
        return tensors(function(**values), *(values[w] for w in written))

    hints = {name: why for name, why in HINTS.items() if name in parameters}
    changes = {name: x for name, x in changes.items() if name in parameters}
    agrees = AGREES | (OF_APPEND if name.startswith("append") else {"kv_layout": "num_qo_heads"})
    return Walk(name, parameters, make, call, changes, hints, agrees)


def appended() -> dict[str, Any]:
    rows = {
        f"append_{x}": random((2, KV_HEADS, DIM), F32, s) for x, s in (("key", 7), ("value", 8))
    }
    table = {f"kv_{name}": x for name, x in pages().items()}
    return (
        rows
        | table
        | {"batch_indices": ints(0, 1), "positions": ints(9, 4), "paged_kv_cache": cache()}
    )


def appended_latents() -> dict[str, Any]:
    values = {name: x for name, x in appended().items() if not name.startswith(("append", "paged"))}
    rows = {"append_ckv": random((2, DIM), F32, 7), "append_kpe": random((2, 16), F32, 8)}
    return rows | values | {x: mla_run()[x] for x in ("ckv_cache", "kpe_cache")}


APPEND = {
    **{f"append_{x}": other for x in ("key", "value", "ckv", "kpe")},
    "batch_indices": [ints(1, 1), ints(0, 2)],
    "positions": [ints(8, 4), ints(9, 12)],
    "paged_kv_cache": both,
    "ckv_cache": other,
    "kpe_cache": other,
    "kv_indices": [ints(5, 1, 3, 0, 2), ints(5, 1)],
    "kv_indptr": ints(0, 1, 5),
    "kv_last_page_len": ints(9, 1),
    "kv_layout": ["HND", "NDH"],
}


OF_APPEND = {
    "batch_indices": "positions",
    "kv_indptr": "positions",
    "kv_layout": "kv_last_page_len",
}


def state(seed: int, *names: str) -> dict[str, Any]:
    v, s = random((TOKENS, HEADS, DIM), F32, seed), random((TOKENS, HEADS), F32, seed + 1)
    return dict(zip(names, (v, s)))


def states() -> dict[str, Any]:
    return {"v": random((TOKENS, 3, HEADS, DIM), F32, 1), "s": random((TOKENS, 3, HEADS), F32, 2)}


def bits() -> dict[str, Any]:
    return {"x": torch.arange(21) % 3 == 0}


def single() -> dict[str, Any]:
    k, v = (random((9, KV_HEADS, DIM), F32, s) for s in (2, 3))
    return {"q": random((HEADS, DIM), F32, 1), "k": k, "v": v}


def single_prefill() -> dict[str, Any]:
    return single() | {"q": random((3, HEADS, DIM), F32, 1), "causal": True}


SINGLE = (
    RUN
    | OF_ATTENTION
    | INIT
    | {f"scale_{x}": torch.full((HEADS,), 0.5) for x in "qkv"}
    | {
        "o_dtype": torch.bfloat16,
        "custom_mask": MASK[:27].view(3, 9),
        "packed_custom_mask": BITS[:4],
        "causal": False,
    }
)

CASES = WRAPPERS + [
    walk("append_paged_kv_cache", appended, APPEND, "paged_kv_cache"),
    walk("append_paged_mla_kv_cache", appended_latents, APPEND, "ckv_cache", "kpe_cache"),
    walk(
        "get_batch_indices_positions",
        lambda: {"append_indptr": ints(0, 3, 5), "seq_lens": ints(12, 5), "nnz": 5},
        {"append_indptr": ints(0, 2, 5), "seq_lens": [ints(12, 6), ints(2, 5)], "nnz": [6, 4]},
    ),
    walk(
        "get_seq_lens",
        lambda: {"kv_indptr": ints(0, 3, 5), "kv_last_page_len": ints(4, 1), "page_size": 4},
        {"kv_indptr": ints(0, 2, 5), "kv_last_page_len": ints(3, 1), "page_size": 8},
    ),
    walk(
        "merge_state",
        lambda: state(1, "v_a", "s_a") | state(3, "v_b", "s_b"),
        {name: other for name in ("v_a", "s_a", "v_b", "s_b")},
    ),
    walk(
        "merge_state_in_place",
        lambda: state(1, "v", "s") | state(3, "v_other", "s_other"),
        {name: other for name in ("v", "s", "v_other", "s_other")}
        | {"mask": torch.arange(TOKENS) > 2},
        "v",
        "s",
    ),
    walk("merge_states", states, {"v": [other, lambda v: v[:, :2]], "s": other}),
    walk("packbits", bits, {"x": lambda x: ~x, "bitorder": ["little", "middle"]}),
    walk(
        "segment_packbits",
        lambda: bits() | {"indptr": ints(0, 9, 21)},
        {
            "x": lambda x: ~x,
            "indptr": [ints(0, 4, 21), ints(0, 22)],
            "bitorder": ["little", "middle"],
        },
    ),
    walk("single_decode_with_kv_cache", single, SINGLE),
    walk("single_prefill_with_kv_cache", single_prefill, SINGLE),
]
