# SPDX-License-Identifier: Apache-2.0
"""Sequences in FlashInfer's forms, and outputs beside double precision."""

import math

import torch
from torch_reference import Paged, assert_close, assert_lse_close, attention, random

LENGTHS = [1, 15, 16, 17, 130, 33]  # around the edges of pages of 16
LN_2 = math.log(2.0)


def sequences(dtype=torch.float32, lengths=LENGTHS, kv_heads=2, dim=64, v_dim=None):
    keys = [random((n, kv_heads, dim), dtype, 10 + b) for b, n in enumerate(lengths)]
    values = [random((n, kv_heads, v_dim or dim), dtype, 30 + b) for b, n in enumerate(lengths)]
    return keys, values


def of_layout(cache: Paged, layout: str, fused: bool):
    """The cache as FlashInfer's users hold it."""
    key, value = cache.key, cache.value
    if layout == "HND":
        key, value = key.transpose(1, 2).contiguous(), value.transpose(1, 2).contiguous()
    return torch.stack([key, value], dim=1) if fused else (key, value)


def offsets(new: list[int]) -> torch.Tensor:
    return torch.tensor([0, *new]).cumsum(0).to(torch.int32)


def check(out, lse, q, new, keys, values, **options) -> None:
    first = 0
    for b, tokens in enumerate(new):
        own = slice(first, first + tokens)
        of_b = {"mask": options["masks"][b]} if "masks" in options else {}
        common = {name: value for name, value in options.items() if name != "masks"}
        want, want_lse = attention(q[own], keys[b], values[b], **common, **of_b)
        assert_close(out[own], want, torch.cat(values))
        if lse is not None:
            assert_lse_close(lse[own] * LN_2, want_lse, q.dtype)
        first += tokens
