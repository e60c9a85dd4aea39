# SPDX-License-Identifier: Apache-2.0
"""`FolioLayer`: one layer of a FolioCache, its keys and values in pages.

`update` stores nothing: it remembers the new rows and hands out described tensors, and the attention
function appends and attends in one call. Whoever reads the tensors otherwise gets dense copies.
"""

from __future__ import annotations

import copy
import weakref
from typing import Any, Protocol

import torch
from transformers import cache_utils

import folio_kv

from .masks import Sight
from .planes import Planes, Storage
from .problem import as_tokens
from .rows import CachedRows, RowPair, RowPool

__all__ = ["FolioLayer", "Owner"]


OWN = ("owner", "planes", "_pairs")  # what a copy of a layer has of its own


class Owner(Protocol):
    """What a layer asks of the cache that it is one of: `FolioCache`, which says what these are."""

    storage: Storage
    rows: int | None
    pool: RowPool | None
    page_size: int
    sparse_pages: Any  # SparsePages or None
    watch: Any

    def expect_rows(self, rows: int) -> None: ...
    def make_room(self, start: int, length: int) -> None: ...
    def step(
        self, start: int, new: int, sight: Sight | None = None, in_one_page: bool = False
    ) -> Any: ...


class FolioLayer(cache_utils.DynamicLayer):
    """One layer's keys and values in pages. `length`: tokens so far; `held`: of them, rows in the
    pages and in `pending`, new rows that are not appended yet.
    """

    is_compileable = False
    is_croppable = True
    is_sliding = False
    latent_dims: tuple[int, int] | None = None  # of the latents and of the rotated part (MLA)
    index = 0  # among the model's layers
    may_be_sparse = True  # by SparsePages

    def __init__(self, owner: Owner, **kwargs: Any):
        super().__init__()
        self.owner = owner
        self._forget()

    def _forget(self) -> None:
        self.length = self.held = 0
        self.pending: tuple[torch.Tensor, torch.Tensor] | None = None
        self.planes: Planes | None = None
        self.is_latent = False
        self.is_initialized = False
        self._pairs: weakref.WeakSet[RowPair] = weakref.WeakSet()
        self._handed: tuple[CachedRows, ...] = ()
        self._assigned: dict[int, torch.Tensor] = {}

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.like = key_states.new_empty(0)
        self.is_latent = self.latent_dims == (key_states.shape[-1], value_states.shape[-1])
        self.heads_and_dims = [(x.shape[1], x.shape[3]) for x in (key_states, value_states)]
        self.is_initialized = True

    @torch.compiler.disable
    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes new rows [batch, heads, new, dim]; returns all rows, described."""
        self.settle()
        if self.planes is None:  # `early_initialization` knows less
            self.lazy_initialization(key_states, value_states)
        self.owner.expect_rows(key_states.shape[0])
        return self._take(key_states, value_states)

    def _take(
        self, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        new = key_states.shape[2]
        self._make_room(self.held + new)
        self.length, self.held = self.length + new, self.held + new
        self.pending = key_states, value_states
        return self._rows()

    def _make_room(self, rows: int) -> None:
        """Pages for so many rows of each sequence of the batch, more than are held."""
        self.owner.make_room(self.held, rows)
        if self.planes is None:
            self.planes = self._new_planes(self.owner.pool.num_pages, self.owner.page_size)

    def _new_planes(self, num_pages: int, page_size: int) -> Planes:
        (heads, key_dim), (_, value_dim) = self.heads_and_dims
        dims = (key_dim + value_dim, None) if self.is_latent else (key_dim, value_dim)
        storage = Storage() if self.is_latent else self.owner.storage
        formats = storage.of(self.dtype, dims, self.index)
        is_sparse = self.may_be_sparse and self.owner.sparse_pages is not None
        if is_sparse and self.is_latent:
            raise folio_kv.Unsupported("sparse_pages: latent rows (MLA), expected K and V apart")
        return Planes(num_pages, page_size, heads, dims, formats, is_sparse)

    @property
    def keys(self) -> CachedRows | None:
        """All keys, described; None before the first. What is written to them, and what is
        assigned, becomes the layer's.
        """
        return self._kept(0)

    @property
    def values(self) -> CachedRows | None:
        """As `keys`."""
        return self._kept(1)

    @keys.setter
    def keys(self, rows: torch.Tensor | None) -> None:
        self._assign(0, rows)

    @values.setter
    def values(self, rows: torch.Tensor | None) -> None:
        self._assign(1, rows)

    def _kept(self, role: int) -> CachedRows | None:
        if role in self._assigned:
            return self._assigned[role]
        if not self._handed:
            self.settle()
            if not self.held:
                return None
            self._handed = self._rows(is_kept=True)
        return self._handed[role]

    def _rows(self, is_kept: bool = False) -> tuple[CachedRows, CachedRows]:
        """All rows that the layer holds, described."""
        pair = RowPair(self, self.held)
        self._pairs.add(pair)
        return tuple(
            CachedRows(
                (self.owner.rows, heads, pair.length, dim),
                self.dtype,
                self.device,
                pair=pair,
                role=role,
                is_kept=is_kept,
            )
            for role, (heads, dim) in enumerate(self.heads_and_dims)
        )

    def before_change(self) -> None:
        """Whoever has described rows keeps them, whatever becomes of those in the pages."""
        for pair in self._pairs:
            pair.dense()
        self._pairs.clear()

    def _assign(self, role: int, rows: torch.Tensor | None) -> None:
        if rows is None:  # what transformers' own constructors do
            return
        name = "values" if role else "keys"
        if not self.is_initialized:
            raise folio_kv.Error(f"{name}: expected a layer that has rows, which `update` brings")
        heads, dim = self.heads_and_dims[role]
        expected = [self.owner.rows, heads, "any", dim]
        if rows.dim() != 4 or any(
            e not in ("any", n) for e, n in zip(expected, rows.shape, strict=True)
        ):
            raise folio_kv.Error(f"{name}: expected {expected}, got {list(rows.shape)}")
        if self._handed and rows is self._handed[role]:
            return  # `layer.keys *= x` assigns what it has written to
        self._assigned[role] = rows.dense() if isinstance(rows, CachedRows) else rows

    def settle(self) -> None:
        """Appends what no attention call has appended, and takes over what somebody has written to
        `keys` and `values` or assigned.

        Errors: folio_kv.Error for keys and values of different lengths.
        """
        self.flush()
        handed, self._handed = self._handed, ()
        assigned, self._assigned = self._assigned, {}
        made = {rows.role: rows.edited for rows in handed} | assigned
        if any(rows is not None for rows in made.values()):
            # Where one of them is missing it has the rows that the layer holds.
            held = self.dense(self.held)
            self.replace(*(held[r] if made.get(r) is None else made[r] for r in (0, 1)))

    def replace(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """These rows [batch, heads, tokens, dim] instead of those that the layer holds."""
        if keys.shape[2] != values.shape[2]:
            raise folio_kv.Error(
                f"values: expected {keys.shape[2]} tokens, as keys, got {values.shape[2]}"
            )
        self.before_change()
        self.length = self.held = 0
        self._take(*(x.detach().to(self.dtype) for x in (keys, values)))
        self.flush()

    def take_pending(self) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        """The rows to append, [tokens, heads, dim] each; they count as appended from now on."""
        if self.pending is None:
            return None
        key, value = self.pending
        self.pending = None
        if self.is_latent:
            return as_tokens(torch.cat([key, value], -1)), None
        return as_tokens(key), as_tokens(value)

    def flush(self) -> None:
        """Appends what no attention call has appended."""
        if self.pending is not None:
            new = self.pending[0].shape[2]
            key, value = self.take_pending()
            if new:
                step = self.step(self.held - new, new)
                step.append(self.planes.pages, key, value, summaries=self.planes.summaries)

    def step(self, start: int, new: int, sight: Sight | None = None) -> Any:
        """The step of `new` tokens of each row behind its first `start` rows that the layer
        holds.
        """
        return self.owner.step(start, new, sight)

    def dense(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of the first `length` rows, [batch, heads, length, dim]."""
        self.flush()
        key, value = self.planes.dense(self._pages(), length, self.dtype)
        if not self.is_latent:
            return key, value
        rank = self.latent_dims[0]
        return key[..., :rank], key[..., rank:]

    def _pages(self) -> torch.Tensor:
        """The pages of each row, [batch, columns]."""
        return self.owner.pool.pages()

    def get_seq_length(self) -> int:
        keys = self._assigned.get(0)
        return self.length if keys is None else keys.shape[2]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def reset(self) -> None:
        self.before_change()
        self._forget()

    def crop(self, tokens_to_remove: int) -> None:
        self.expect_crop(tokens_to_remove)
        if tokens_to_remove:
            self.before_change()
        self._drop(-tokens_to_remove)

    def expect_crop(self, tokens_to_remove: int) -> None:
        """Errors: folio_kv.Error for what `crop` cannot do."""
        self.settle()
        if tokens_to_remove > 0:
            raise folio_kv.Error(
                f"tokens_to_remove: expected 0 or a negative number, got {tokens_to_remove}"
            )

    def _drop(self, tokens: int) -> None:
        self.length = self.held = max(0, self.length - tokens)

    def moved(self, copies: list[tuple[int, int, int]]) -> None:
        """Its pages are copied to those of the owner's new pool."""
        if self.planes is not None:
            pool = self.owner.pool
            self.planes = self.planes.copied(copies, pool.num_pages, pool.page_size)

    def __deepcopy__(self, memo: dict[int, Any]) -> FolioLayer:
        """Without its cache a copy is another layer of that cache, with rows of its own."""
        self.settle()
        other = memo[id(self)] = type(self).__new__(type(self))
        state = {n: x for n, x in self.__dict__.items() if n not in OWN}
        owner = memo.get(id(self.owner), self.owner)
        other.__dict__.update(owner=owner, planes=self.planes, _pairs=weakref.WeakSet())
        other.__dict__.update(copy.deepcopy(state, memo))
        if owner is self.owner and self.planes is not None:
            pages = range(self.planes.pages.num_pages)
            other.moved([(page, page, self.planes.pages.page_size) for page in pages])
        return other

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        saved = self.planes.gathered(self._pages(), self.held) if self.held else None
        state = {n: x for n, x in self.__dict__.items() if n != "_pairs"}
        return state | {"planes": None, "_saved": saved}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _pairs=weakref.WeakSet())
        self.restore()

    def restore(self) -> None:
        """Takes back the rows of a pickle, once both the layer and its cache are read."""
        if "owner" not in self.__dict__ or "layers" not in self.owner.__dict__:
            return
        saved, self._saved = self.__dict__.get("_saved"), None
        if saved is not None:
            held, self.held = self.held, 0
            self._make_room(held)
            self.held = held
            self.planes.take(self._pages(), held, saved)

    # Rows are chosen for all layers at once, by the cache.
    def select(self, rows: list[int]) -> None: ...
    def reorder_cache(self, beam_idx: torch.LongTensor) -> None: ...
    def batch_repeat_interleave(self, repeats: int) -> None: ...
    def batch_select_indices(self, indices: torch.Tensor) -> None: ...
    def offload(self) -> None: ...
    def prefetch(self) -> None: ...
