# SPDX-License-Identifier: Apache-2.0
"""Sparse attention by an indexer (DeepSeek V3.2, GLM-5): which keys a query attends to.

An indexer of transformers scores all cached keys of its own and takes the best:

    scores = relu(q @ keys^T * scale);  (weights @ scores + mask).topk(k).indices

`IndexKeys` keeps those keys in the pages of a FolioCache and hands them out described; `Scores`
follows what a model computes with them, and `topk` is one pass of folio's over the pages, without
scores in memory. What is not that formula is computed by torch from the dense keys. `KeyLists` are
the chosen keys, which the attention function reads as slots of pages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from .described import Described
from .masks import MaskRows, Sight
from .paged_layer import FolioLayer
from .rows import CachedRows

__all__ = ["IndexKeys", "KeyLists", "Scores"]

MOST_KEYS = 4096  # of a list


class IndexKeys(FolioLayer):
    """The keys of a layer's indexer, one head without values, in the pages of the layer's pool."""

    may_be_sparse = False

    def extend(self, keys: torch.Tensor) -> Scores:
        """Takes new keys [batch, new, dim]; all keys [batch, keys, dim], described."""
        rows = keys[:, None]
        self.latent_dims = (keys.shape[-1], 0)  # a row of K alone
        held, _ = self.update(rows, rows[..., :0])
        shape = (held.shape[0], *held.shape[2:])
        return Scores(shape, keys.dtype, keys.device, rows=held, make=lambda: held.dense()[:, 0])


class TopK(NamedTuple):
    """What torch's topk returns."""

    values: torch.Tensor
    indices: torch.Tensor


def _stored(x: Any) -> Any:
    return x.dense() if isinstance(x, Described) else x


class Scores(Described):
    """The keys of an indexer, or what was computed of them as its formula says, `stage` after
    stage.
    """

    rows: CachedRows
    make: Callable[[], torch.Tensor]
    stage: str = "keys"
    q: torch.Tensor
    weights: torch.Tensor
    scale: float = 1.0
    relu: bool = False
    sight: Sight

    def make_dense(self) -> torch.Tensor:
        return self.make()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        follow = STEPS.get(getattr(func, "__name__", ""))
        if follow is not None:
            try:
                found = follow(func, *args, **(kwargs or {}))
            except TypeError:  # other arguments than those of the formula
                found = None
            if found is not None:
                return found
        return torch._C._disabled_torch_function_impl(func, types, args, kwargs or {})

    def then(
        self, stage: str, shape: Any, func: Any, args: Any, kwargs: Any, **more: Any
    ) -> Scores:
        """What `func` makes of this."""
        known = {
            name: value
            for name in ("q", "weights", "scale", "relu", "sight")
            if (value := self.__dict__.get(name)) is not None
        }
        return Scores(
            tuple(shape),
            more.pop("dtype", self.dtype),
            self.device,
            rows=self.rows,
            stage=stage,
            make=lambda: func(*tree_map(_stored, args), **kwargs),
            **(known | more),
        )


def _is(x: Any, stage: str) -> bool:
    return isinstance(x, Scores) and x.stage == stage and x.is_description


def _transpose(func: Any, x: Scores, a: int, b: int) -> Scores | None:
    if not _is(x, "keys") or {a % 3, b % 3} != {1, 2}:
        return None
    batch, keys, dim = x.shape
    return x.then("turned", (batch, dim, keys), func, (x, a, b), {})


def _float(func: Any, x: Scores) -> Scores | None:
    if not (_is(x, "keys") or _is(x, "turned")):
        return None
    return x.then(x.stage, x.shape, func, (x,), {}, dtype=torch.float32)


def _unsqueeze(func: Any, x: Scores, dim: int) -> Scores | None:
    if not _is(x, "turned") or x.dim() != 3 or dim != 1:
        return None
    batch, *rest = x.shape
    return x.then("turned", (batch, 1, *rest), func, (x, dim), {})


def _matmul(func: Any, a: Any, b: Any) -> Scores | None:
    if isinstance(a, Described) or not isinstance(b, Scores) or a.dim() != 4:
        return None
    if _is(b, "turned") and b.dim() == 4:  # q [batch, queries, heads, dim]
        return b.then("products", (*a.shape[:3], b.shape[-1]), func, (a, b), {}, q=a)
    if _is(b, "products") and a.shape[2] == 1:  # weights [batch, queries, 1, heads]
        shape = (*a.shape[:3], b.shape[-1])
        return b.then("weighted", shape, func, (a, b), {}, weights=a[:, :, 0])
    return None


def _mul(func: Any, x: Scores, factor: Any) -> Scores | None:
    is_number = isinstance(factor, (int, float)) and factor > 0  # of which relu makes no difference
    if not _is(x, "products") or not is_number:
        return None
    return x.then("products", x.shape, func, (x, factor), {}, scale=x.scale * factor)


def _relu(func: Any, x: Scores, inplace: bool = False) -> Scores | None:
    if not _is(x, "products") or inplace:
        return None
    return x.then("products", x.shape, func, (x,), {}, relu=True)


def _squeeze(func: Any, x: Scores, dim: int) -> Scores | None:
    if not _is(x, "weighted") or dim not in (2, -2):
        return None
    return x.then("scores", (*x.shape[:2], x.shape[3]), func, (x, dim), {})


def _add(func: Any, x: Scores, mask: Any) -> Scores | None:
    if not _is(x, "scores") or not isinstance(mask, MaskRows) or mask.shape != x.shape:
        return None
    sight = mask.look()
    if sight is None or sight.bias is not None or sight.context != x.shape[-1]:
        return None
    if sight.visible is None and (sight.pattern.right != 0 or sight.pattern.chunk):
        return None
    return x.then("masked", x.shape, func, (x, mask), {}, sight=sight)


def _topk(func: Any, x: Scores, k: int, dim: int = -1) -> TopK | None:
    if not _is(x, "masked") or dim not in (2, -1) or not 1 <= k <= MOST_KEYS:
        return None
    values = x.then("values", (*x.shape[:2], k), lambda x: func(x, k, dim)[0], (x,), {})
    shape = (*x.shape[:2], k)
    return TopK(values, KeyLists(shape, torch.int64, x.device, scores=x, slots=_choose(x, k)))


def _choose(x: Scores, k: int, entries: str = "slots") -> torch.Tensor:
    """int32 [batch * queries, k], -1 behind them."""
    layer, queries = x.rows.layer, x.shape[1]
    layer.flush()
    step = layer.step(x.shape[2] - queries, queries, x.sight)
    left = -1 if x.sight.visible is not None else x.sight.pattern.left
    return step.select(
        layer.planes.pages,
        x.q.flatten(0, 1),
        x.weights.flatten(0, 1),
        k=k,
        relu=x.relu,
        scale=x.scale,
        window=None if left < 0 else left + 1,
        entries=entries,
    )


STEPS = {
    "transpose": _transpose,
    "float": _float,
    "unsqueeze": _unsqueeze,
    "matmul": _matmul,
    "mul": _mul,
    "__mul__": _mul,
    "relu": _relu,
    "squeeze": _squeeze,
    "add": _add,
    "__add__": _add,
    "topk": _topk,
}


class KeyLists(Described):
    """The keys that an indexer has chosen, [batch, queries, k]. `slots`: int32 [batch * queries, k]
    in the pages of the cache, -1 where a query sees fewer. Dense it holds other keys there, which
    the mask hides, as torch's topk does.
    """

    scores: Scores
    slots: torch.Tensor

    @property
    def owner(self) -> Any:
        """The cache whose pages the slots are of."""
        return self.scores.rows.layer.owner

    @property
    def keys(self) -> torch.Tensor:
        """int32 [batch, queries, k], -1 where there is none."""
        return _choose(self.scores, self.shape[-1], "keys").view(self.shape)

    def make_dense(self) -> torch.Tensor:
        keys = self.keys.long()
        count = self.scores.shape[-1]
        chosen = torch.zeros(*keys.shape[:2], count + 1, dtype=torch.bool)
        chosen.scatter_(2, torch.where(keys < 0, count, keys), True)
        others = chosen[..., :count].int().argsort(dim=-1, stable=True)[..., : keys.shape[-1]]
        missing = (keys < 0).long().cumsum(-1) - 1
        return torch.where(keys < 0, others.gather(2, missing.clamp(min=0)), keys).to(self.dtype)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "to" and args[1:] in ((torch.int32,), (torch.int64,)):
            lists = args[0]
            return KeyLists(
                tuple(lists.shape), args[1], lists.device, scores=lists.scores, slots=lists.slots
            )
        return torch._C._disabled_torch_function_impl(func, types, args, kwargs or {})
