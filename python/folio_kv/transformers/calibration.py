# SPDX-License-Identifier: Apache-2.0
"""`calibrate`: factors of the channels of keys, from a text that a model reads.

A channel of K that is far above the others takes their steps, rotated or not; one that q hardly
asks for may be rounded coarsely. Divided by c and quantised in steps that all channels share, K's
errors reach a logit by c times q: c = sqrt(rms k / rms q) makes the sum of both the least.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch

import folio_kv

__all__ = ["calibrate", "note"]

RANGE = 64.0  # factors, their mean being 1, lie within it and its inverse

_local = threading.local()


class _Squares:
    """Of a layer: sums of squares of K and q for each channel, and what they are of."""

    def __init__(self) -> None:
        self.key: torch.Tensor | float = 0.0
        self.query: torch.Tensor | float = 0.0

    def add(self, query: torch.Tensor, key: torch.Tensor) -> None:
        heads = key.shape[1]
        groups = query.unflatten(1, (heads, query.shape[1] // heads))
        self.key = self.key + key.double().square().mean((0, 2))
        self.query = self.query + groups.double().square().mean((0, 2, 3))

    def factors(self) -> torch.Tensor:
        """[heads, head_size]"""
        ratio = (_of_pairs(self.key) / _of_pairs(self.query)).log().nan_to_num(0.0, 0.0, 0.0) / 4
        return (ratio - ratio.mean(-1, keepdim=True)).exp().clamp(1 / RANGE, RANGE).float()


def _of_pairs(squares: torch.Tensor) -> torch.Tensor:
    """RoPE turns channels j and j + half into each other: they have one factor."""
    if squares.shape[-1] % 2:
        return squares
    halves = squares.unflatten(-1, (2, -1))
    return halves.mean(-2, keepdim=True).expand_as(halves).flatten(-2)


def note(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor) -> None:
    """What a layer's attention is called with; counts while `calibrate` runs in this thread."""
    seen = getattr(_local, "seen", None)
    index = getattr(module, "layer_idx", None)
    if seen is not None and index is not None and query.shape[-1] == key.shape[-1]:
        seen.setdefault(index, _Squares()).add(query, key)


@contextlib.contextmanager
def _noting() -> Iterator[dict[int, _Squares]]:
    _local.seen = {}
    try:
        yield _local.seen
    finally:
        _local.seen = None


def _expect_ids(model: Any, ids: Any) -> None:
    if not isinstance(ids, torch.Tensor):
        raise folio_kv.Error(f"input_ids: expected a tensor, got {type(ids).__name__}")
    if ids.dim() != 2 or ids.shape[0] < 1 or ids.shape[1] < 2:
        raise folio_kv.Error(
            f"input_ids: expected [batch, tokens] with 2 tokens or more, got {list(ids.shape)}"
        )
    if ids.dtype not in (torch.int32, torch.int64):
        raise folio_kv.Error(f"input_ids: expected int64 or int32, got {ids.dtype}")
    least, most = int(ids.min()), int(ids.max())
    vocabulary = model.get_input_embeddings().num_embeddings
    if least < 0 or most >= vocabulary:
        raise folio_kv.Error(
            f"input_ids: expected 0 to {vocabulary - 1}, got {least if least < 0 else most}"
        )


def calibrate(model: Any, input_ids: torch.Tensor) -> list[torch.Tensor | None]:
    """FolioCache's `channel_scales` for `model`: of each layer f32 [kv_heads, head_size], or None
    where it has no attention. input_ids: [batch, tokens] of a text like those to come, without
    padding; some hundred tokens do.

    The model reads them once, without a cache. Errors: folio_kv.Error for other ids, and for keys
    or queries that are not finite.
    """
    from . import register

    _expect_ids(model, input_ids)
    register()
    before = model.config._attn_implementation
    model.set_attn_implementation("folio_flash")
    try:
        with _noting() as seen, torch.inference_mode():
            model(input_ids, use_cache=False)
    finally:
        model.set_attn_implementation(before)
    if not seen:
        raise folio_kv.Error(
            "model: expected one whose layers call an attention function, saw none"
        )
    for index, squares in seen.items():
        if not (squares.key.isfinite().all() and squares.query.isfinite().all()):
            raise folio_kv.Error(
                f"model: expected finite keys and queries, layer {index} has others"
            )
    return [seen[i].factors() if i in seen else None for i in range(max(seen) + 1)]
