# SPDX-License-Identifier: Apache-2.0
"""Who holds which page of a FolioCache, and its rows as tensors.

`RowPool` holds one sequence of a PagePool for each row of the batch; all layers of a cache without
a window share it, since they all see the same tokens. `CachedRows` is what a cache hands to the
model: keys or values [batch, heads, keys, dim], described.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

import folio_kv

from .described import Described
from .planes import room_for

__all__ = ["CachedRows", "RowPair", "RowPool"]


class RowPool:
    """The pages of sequences of equal length. `rows`: so many have room of their own; `shared`: rows
    of the batch may share the pages of so many of their first tokens, no others.
    """

    def __init__(self, rows: int, tokens: int, page_size: int):
        self.page_size = page_size
        self.rows = rows
        self.shared = 0
        self.columns = max(1, -(-tokens // page_size))
        self.pool = self._new_pool(rows, self.columns)
        self.ids = [self.pool.admit([0]).id for _ in range(rows)]

    def _new_pool(self, rows: int, columns: int) -> Any:
        return folio_kv.PagePool(
            rows * columns,
            self.page_size,
            max_sequences=2 * rows,
            max_pages_per_sequence=columns,
            prefix_reuse=False,
        )

    @property
    def num_pages(self) -> int:
        return self.pool.num_pages

    @property
    def length(self) -> int:
        """Tokens of each row."""
        return self.pool.length(self.ids[0]) if self.ids else 0

    def extend(self, length: int) -> list[tuple[int, int, int]] | None:
        """Makes every row at least `length` long.

        Returns the copies to do within the planes, or, if the planes have to grow first, None: see
        `grow`.
        """
        missing = length - self.length
        if missing <= 0:
            return []
        if length > self.columns * self.page_size:
            return None
        for row in self.ids:
            self.pool.reserve(row, missing)
        copies = self._taken()
        for row in self.ids:
            self.pool.commit(row, [0] * missing)
        return copies

    def grow(self, length: int) -> list[tuple[int, int, int]]:
        """Room for `length` tokens a row, in new planes of `num_pages`, where no row shares a page:
        the copies from the old planes to them.
        """
        old_pool, old_ids, kept = self.pool, self.ids, self.length
        if length > self.columns * self.page_size:
            self.columns = room_for(length, self.page_size)
        self.pool = self._new_pool(self.rows, self.columns)
        self.ids = [self.pool.admit([0]).id for _ in old_ids]
        for row in self.ids:
            self.pool.reserve(row, kept)
            self.pool.commit(row, [0] * kept)
        used = -(-kept // self.page_size)
        self.shared = 0
        source, target = (
            pages_of(pool, ids)[:, :used]
            for pool, ids in ((old_pool, old_ids), (self.pool, self.ids))
        )
        return [(int(a), int(b), self.page_size) for a, b in zip(source.flat, target.flat)]

    def select(self, rows: list[int]) -> list[tuple[int, int, int]]:
        """Row i becomes what row rows[i] was: shared pages, and copies of cut ones, which are
        returned.
        """
        length, first_use, new_ids = self.length, set(), []
        for row in rows:
            new_ids.append(self.ids[row] if row not in first_use else None)
            first_use.add(row)
        for row, old in enumerate(self.ids):
            if row not in first_use:
                self.pool.release(old)
        new_ids = [
            self.pool.fork(self.ids[row], length) if i is None else i
            for i, row in zip(new_ids, rows)
        ]
        self.ids = new_ids
        self.rows = max(1, len(rows))
        if len(first_use) < len(rows):
            self.shared = length
        return self._taken()

    def trim(self, length: int) -> list[tuple[int, int, int]]:
        """Cuts every row to `length`."""
        self.shared = min(self.shared, length)
        for row in self.ids:
            self.pool.trim(row, length)
        return self._taken()

    def _taken(self) -> list[tuple[int, int, int]]:
        return list(self.pool.take_copies())

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """The pool's table as one dimension, and where each row begins in it."""
        return np.from_dlpack(self.pool.table()).reshape(-1), self.pool.batch_rows(self.ids)

    def pages(self) -> torch.Tensor:
        """Page ids, int64 [rows, columns]."""
        return torch.from_numpy(pages_of(self.pool, self.ids))


def pages_of(pool: Any, ids: list) -> np.ndarray:
    """The table rows of these sequences, int64 [ids, columns]."""
    table = np.from_dlpack(pool.table())
    return table.reshape(-1)[
        np.asarray(pool.batch_rows(ids))[:, None] + np.arange(table.shape[1])
    ].astype(np.int64)


class _Constant(torch.autograd.Function):
    """Rows of which some are `new` ones that a gradient is asked of."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        raise folio_kv.Unsupported(
            "FolioCache: rows behind earlier ones have no gradient; train with another cache"
        )


class Layer(Protocol):
    """What rows ask of the layer that holds them: `FolioLayer`, which says what these are."""

    held: int
    pending: tuple[torch.Tensor, torch.Tensor] | None

    def dense(self, length: int) -> tuple[torch.Tensor, torch.Tensor]: ...


class RowPair:
    """The first `length` rows that a layer holds, K and V: what they are is looked up once, at the
    latest when the layer says that its rows change.
    """

    def __init__(self, layer: Layer, length: int):
        self.layer, self.length = layer, length
        self._made: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether these are the rows of this step alone, which nobody has appended yet."""
        pending = self.layer.pending
        return pending is not None and pending[0].shape[2] == self.length == self.layer.held

    def dense(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._made is None:
            new, is_fresh = self.layer.pending, self.is_fresh
            self._made = new if is_fresh else self.layer.dense(self.length)
            if new is not None and not is_fresh:
                self._made = tuple(_Constant.apply(*x) for x in zip(self._made, new))
        return self._made


class CachedRows(Described):
    """Keys (role 0) or values (role 1) of a layer of a FolioCache, [batch, heads, keys, dim].

    `is_kept`: whoever has it may write to it, as to the tensors of other caches; the layer asks for
    `edited` before it goes on.
    """

    pair: RowPair
    role: int
    is_kept: bool = False
    _seen: torch.Tensor | None = None

    @property
    def layer(self) -> Layer:
        return self.pair.layer

    @property
    def is_fresh(self) -> bool:
        return self.pair.is_fresh

    def make_dense(self) -> torch.Tensor:
        return self.pair.dense()[self.role]

    def before_view(self) -> None:
        if self.is_kept and self._seen is None:
            self._seen = self.dense().clone()

    @property
    def edited(self) -> torch.Tensor | None:
        """The rows as somebody has made them; None while they are those in the pages."""
        if self._is_written or not (self._seen is None or torch.equal(self._seen, self.dense())):
            return self.dense()
        return None
