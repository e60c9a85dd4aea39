# SPDX-License-Identifier: Apache-2.0
"""Multi-head latent attention on the latent rows themselves.

transformers caches latents (kv_nope [batch, 1, keys, rank], k_rot [batch, 1, keys, rope]) and
expands them to keys and values of every head before each attention call. `expand_kv` is linear: key
= c Wk + r R, value = c Wv for a latent c and a rotated part r. So the query is multiplied with Wk
and R instead, attention runs over the rows [c | r] with c as value, and its output is multiplied
with Wv: the same sums, and the cache is read once for all heads.

`patch` puts a wrapper around a class's `expand_kv`; for latents that live in a FolioCache it
returns described tensors, which the attention function recognises. Everybody else gets what the
original returns.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from .described import Described, version_of
from .rows import CachedRows

__all__ = ["Absorbed", "ExpandedRows", "absorbed", "patch"]


class ExpandedRows(Described):
    """Keys or values [batch, heads, keys, dim] that `module.expand_kv(latents, rotated)` would
    make.
    """

    module: torch.nn.Module
    latents: CachedRows
    rotated: CachedRows
    role: int
    maps: Absorbed

    def make_dense(self) -> torch.Tensor:
        original = type(self.module).expand_kv.__wrapped__
        return original(self.module, self.latents.dense(), self.rotated.dense())[self.role]


class Absorbed:
    """The linear maps of one module's `expand_kv`: key [heads, rank + rope, dim], value [heads,
    rank, dim].
    """

    def __init__(self, module: torch.nn.Module, rank: int, rope: int, like: torch.Tensor):
        expand = type(module).expand_kv.__wrapped__
        unit = torch.eye(rank + rope, dtype=like.dtype, device=like.device)[None, None]
        key, value = expand(module, unit[..., :rank].contiguous(), unit[..., rank:].contiguous())
        self.key, self.value = key[0].contiguous(), value[0, :, :rank].contiguous()
        offset = [
            x.abs().max()
            for x in expand(
                module,
                torch.zeros_like(unit[..., :1, :rank]),
                torch.zeros_like(unit[..., :1, rank:]),
            )
        ]
        self.is_exact = bool(max(offset) == 0) and bool((value[0, :, rank:] == 0).all())

    def query(self, query: torch.Tensor) -> torch.Tensor:
        """[batch, heads, queries, dim] -> [batch * queries, heads, rank + rope]."""
        batch, heads, queries, dim = query.shape
        rows = torch.bmm(
            query.transpose(0, 1).reshape(heads, batch * queries, dim), self.key.transpose(1, 2)
        )
        return rows.transpose(0, 1)

    def output(self, out: torch.Tensor) -> torch.Tensor:
        """[tokens, heads, rank] -> [tokens, heads, dim]."""
        return torch.bmm(out.transpose(0, 1), self.value).transpose(0, 1)


_absorbed: weakref.WeakKeyDictionary[torch.nn.Module, tuple[Any, Absorbed]]
_absorbed = weakref.WeakKeyDictionary()


def absorbed(module: torch.nn.Module, rank: int, rope: int, like: torch.Tensor) -> Absorbed:
    """The maps of this module, made when it is first seen and when its weights have changed."""
    weights = tuple((x.data_ptr(), version_of(x)) for x in module.parameters())
    state = (weights, like.dtype)
    known = _absorbed.get(module)
    if known is None or known[0] != state:
        known = _absorbed[module] = state, Absorbed(module, rank, rope, like)
    return known[1]


def patch(module: torch.nn.Module) -> None:
    """Wraps `expand_kv` of the module's class, once."""
    kind = type(module)
    original = kind.expand_kv
    if hasattr(original, "__wrapped__"):
        return

    def expand_kv(
        self: Any, kv_nope: torch.Tensor, k_rot: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not (
            isinstance(kv_nope, CachedRows)
            and isinstance(k_rot, CachedRows)
            and kv_nope.layer.is_latent
        ):
            return original(self, kv_nope, k_rot)
        if kv_nope.is_fresh:
            return original(self, *kv_nope.layer.pending)
        maps = absorbed(self, kv_nope.shape[-1], k_rot.shape[-1], kv_nope.layer.like)
        if not maps.is_exact:
            return original(self, kv_nope, k_rot)
        batch, _, keys, _ = kv_nope.shape
        sizes = [(batch, maps.key.shape[0], keys, x.shape[-1]) for x in (maps.key, maps.value)]
        return tuple(
            ExpandedRows(
                size,
                kv_nope.dtype,
                kv_nope.device,
                module=self,
                latents=kv_nope,
                rotated=k_rot,
                role=role,
                maps=maps,
            )
            for role, size in enumerate(sizes)
        )

    expand_kv.__wrapped__ = original
    kind.expand_kv = expand_kv
