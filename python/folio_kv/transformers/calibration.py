# SPDX-License-Identifier: Apache-2.0
"""`calibrate`: factors of the channels of keys and values, from a text that a model reads.

A channel of K that is far above the others takes their steps, rotated or not; one that q hardly
asks for may be rounded coarsely. Divided by c and quantised in steps that all channels share, K's
errors reach a logit by c times q: c = sqrt(rms k / rms q) makes the sum of both the least. V's
reach a layer's output by c times what its projection makes of the channel: that stands for q.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

import folio_kv

__all__ = ["ChannelScales", "calibrate", "note"]

RANGE = 64.0  # factors, their mean being 1, lie within it and its inverse
PROJECTIONS = ("o_proj", "out_proj", "dense", "wo")  # what models call it

_local = threading.local()


class ChannelScales(NamedTuple):
    """Of a layer: f32 [kv_heads, head_size] each; None: as they are."""

    key: torch.Tensor | None
    value: torch.Tensor | None = None


class _Squares:
    """Of a layer: mean squares of each channel of K, q and V, and of what V's channels go through."""

    def __init__(self) -> None:
        self.key: torch.Tensor | float = 0.0
        self.query: torch.Tensor | float = 0.0
        self.value: torch.Tensor | float = 0.0
        self.projection: torch.Tensor | None = None

    def add(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        heads = key.shape[1]
        groups = query.unflatten(1, (heads, query.shape[1] // heads))
        self.key = self.key + key.double().square().mean((0, 2))
        self.query = self.query + groups.double().square().mean((0, 2, 3))
        self.value = self.value + value.double().square().mean((0, 2))

    @property
    def is_finite(self) -> bool:
        return all(bool(x.isfinite().all()) for x in (self.key, self.query, self.value))

    def factors(self) -> ChannelScales:
        through = torch.ones_like(self.value) if self.projection is None else self.projection
        return ChannelScales(
            _balanced(_of_pairs(self.key), _of_pairs(self.query)), _balanced(self.value, through)
        )


def _balanced(stored: torch.Tensor, meets: torch.Tensor) -> torch.Tensor:
    """[heads, head_size], of mean squares of what is stored and of what its errors meet."""
    ratio = (stored / meets).log().nan_to_num(0.0, 0.0, 0.0) / 4
    return (ratio - ratio.mean(-1, keepdim=True)).exp().clamp(1 / RANGE, RANGE).float()


def _projection(module: torch.nn.Module, heads: int, kv_heads: int) -> torch.Tensor | None:
    """Squares of the weights that each channel of V goes through, [kv_heads, head_size]; None where
    no output projection is found.
    """
    for name in PROJECTIONS:
        weight = getattr(getattr(module, name, None), "weight", None)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2 and weight.is_floating_point():
            if weight.shape[1] % heads == 0:
                squares = weight.detach().double().square().sum(0)
                return squares.unflatten(0, (kv_heads, heads // kv_heads, -1)).sum(1)
    return None


def _of_pairs(squares: torch.Tensor) -> torch.Tensor:
    """RoPE turns channels j and j + half into each other: they have one factor."""
    if squares.shape[-1] % 2:
        return squares
    halves = squares.unflatten(-1, (2, -1))
    return halves.mean(-2, keepdim=True).expand_as(halves).flatten(-2)


def note(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> None:
    """What a layer's attention is called with; counts while `calibrate` runs in this thread."""
    seen = getattr(_local, "seen", None)
    index = getattr(module, "layer_idx", None)
    if seen is None or index is None or query.shape[-1] != key.shape[-1]:
        return
    if index not in seen:
        seen[index] = _Squares()
        through = _projection(module, query.shape[1], key.shape[1])
        if through is not None and through.shape[-1] == value.shape[-1]:
            seen[index].projection = through
    seen[index].add(query, key, value)


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


def calibrate(model: Any, input_ids: torch.Tensor) -> list[ChannelScales | None]:
    """FolioCache's `channel_scales` for `model`: of each layer those of K and V, or None where it
    has no attention. input_ids: [batch, tokens] of a text like those to come, without
    padding; some hundred tokens do.

    The model reads them once, without a cache. Errors: folio_kv.Error for other ids, and for keys,
    queries or values that are not finite.
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
        if not squares.is_finite:
            raise folio_kv.Error(
                f"model: expected finite keys, queries and values, layer {index} has others"
            )
    return [seen[i].factors() if i in seen else None for i in range(max(seen) + 1)]
