# SPDX-License-Identifier: Apache-2.0
"""Pages of the rows of a batch: who holds which page, and how a layer's keys and values lie in
them.

`RowPool` holds one sequence of a PagePool for each row of the batch; all layers of a cache share
it, since they all see the same tokens. `Planes` is the memory of one layer: head-major, [pages,
heads, slots, dim]. `CachedRows` is what a cache hands to the model: keys or values [batch, heads,
keys, dim], described.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import folio_kv

from .described import Described

if TYPE_CHECKING:
    from .cache import FolioLayer

__all__ = ["CachedRows", "Planes", "RowPool"]

FP8 = torch.float8_e4m3fn


class RowPool:
    """The pages of `rows` sequences of equal length; doubles when it is full."""

    def __init__(self, rows: int, tokens: int, page_size: int):
        self.page_size = page_size
        self.rows = rows
        self.columns = max(1, -(-tokens // page_size))
        self.pool = self._new_pool(rows, self.columns)
        self.ids = [self.pool.admit([0]).id for _ in range(rows)]

    def _new_pool(self, rows: int, columns: int) -> Any:
        # A fork takes a page for the row's cut page while the row that it replaces still has its
        # own.
        return folio_kv.PagePool(
            rows * (columns + 1),
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
        """Room for `length` tokens a row, in new planes of `num_pages`: the copies from the old
        planes to them.
        """
        old_pool, old_ids, kept = self.pool, self.ids, self.length
        self.columns = max(-(-length // self.page_size), 2 * self.columns)
        self.pool = self._new_pool(self.rows, self.columns)
        self.ids = [self.pool.admit([0]).id for _ in old_ids]
        for row in self.ids:
            self.pool.reserve(row, kept)
            self.pool.commit(row, [0] * kept)
        used = -(-kept // self.page_size)
        source, target = (
            pages_of(pool, ids)[:, :used]
            for pool, ids in ((old_pool, old_ids), (self.pool, self.ids))
        )
        return [(int(a), int(b), self.page_size) for a, b in zip(source.flat, target.flat)]

    def select(self, rows: list[int]) -> list[tuple[int, int, int]]:
        """Row i becomes what row rows[i] was: shared pages, and copies of cut ones, which are
        returned.
        """
        if len(rows) > self.rows:
            raise folio_kv.Error(f"rows: expected at most {self.rows}, got {len(rows)}")
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
        return self._taken()

    def trim(self, length: int) -> list[tuple[int, int, int]]:
        """Cuts every row to `length`."""
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


class Planes:
    """The memory of one layer: `key` and `value` [pages, heads, slots, dim], `pages` over them.

    dtype: a torch dtype, or "int8" or "fp8" for bytes with one float32 scale for each token and
    head. A latent layer has rows [latent | rotated] of one head in `key` and no `value`.
    """

    def __init__(
        self, num_pages: int, page_size: int, heads: int, dims: tuple[int, int | None], dtype: Any
    ):
        self.dtype = dtype
        storage = {"int8": torch.int8, "fp8": torch.uint8}.get(dtype, dtype)
        self.is_quantised = dtype in ("int8", "fp8")

        def plane(dim: int | None, of: torch.dtype) -> torch.Tensor | None:
            return None if dim is None else torch.zeros(num_pages, heads, page_size, dim, dtype=of)

        self.key, self.value = plane(dims[0], storage), plane(dims[1], storage)
        scale = 1 if self.is_quantised else None
        self.key_scales = plane(scale, torch.float32)
        self.value_scales = plane(scale if dims[1] is not None else None, torch.float32)
        self.pages = folio_kv.Pages(
            self.key,
            self.value,
            order="HND",
            key_scales=self.key_scales,
            value_scales=self.value_scales,
            dtype="f8_e4m3" if dtype == "fp8" else None,
        )

    def dense(
        self, role: int, pages: torch.Tensor, length: int, dtype: torch.dtype
    ) -> torch.Tensor:
        """The first `length` rows of `pages` [batch, columns] as [batch, heads, length, dim]: a
        copy.
        """
        plane, scales = ((self.key, self.key_scales), (self.value, self.value_scales))[role]
        batch, page_size = pages.shape[0], plane.shape[2]
        used = pages[:, : max(1, -(-length // page_size))].flatten()

        def rows(of: torch.Tensor) -> torch.Tensor:
            picked = of.index_select(0, used).unflatten(0, (batch, -1)).transpose(1, 2)
            return picked.flatten(2, 3)[:, :, :length]

        if not self.is_quantised:
            return rows(plane).to(dtype)
        values = rows(plane.view(FP8) if self.dtype == "fp8" else plane)
        return (values.float() * rows(scales)).to(dtype)


class CachedRows(Described):
    """Keys (role 0) or values (role 1) of a layer of a FolioCache, [batch, heads, keys, dim]."""

    layer: FolioLayer
    role: int

    @property
    def is_fresh(self) -> bool:
        """Whether these are the rows of this step alone, which nobody has appended yet."""
        pending = self.layer.pending
        return pending is not None and pending[0].shape[2] == self.shape[2]

    def make_dense(self) -> torch.Tensor:
        if self.is_fresh:
            return self.layer.pending[self.role]
        return self.layer.dense(self.role, self.shape[2])
