# SPDX-License-Identifier: Apache-2.0
"""`FolioCache`: transformers' cache with K and V in folio's pages.

A layer's `update` stores nothing: it remembers the new rows and hands out described tensors, and
the attention function appends and attends in one call. Whoever reads the tensors otherwise gets
dense copies of the rows, so that stock attention works with the cache too. All layers share one
pool of pages and one step (plan) per forward and kind of layer.

Layers that keep other states (convolutions, recurrent states) are transformers' own; layers that
keep both, and the keys of an indexer, are transformers' classes with the attention part in pages.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import cache_utils

import folio_kv

from .masks import Sight
from .problem import as_tokens
from .rows import CachedRows, Planes, RowPool

__all__ = ["FolioCache", "FolioLayer"]

KEPT_STEPS = 8
DTYPES = {"int8": "int8", "i8": "int8", "fp8": "fp8", "f8_e4m3": "fp8"}


class FolioLayer(cache_utils.DynamicLayer):
    """One layer's keys and values in pages. `length`: tokens so far; `pending`: new rows that are
    not appended yet.
    """

    is_compileable = False
    is_croppable = True
    is_sliding = False
    latent_dims: tuple[int, int] | None = None  # of the latents and of the rotated part (MLA)

    def __init__(self, owner: FolioCache, is_sliding: bool = False, **kwargs: Any):
        super().__init__()
        self.owner = owner
        self.is_sliding = is_sliding
        self._forget()

    def _forget(self) -> None:
        self.length = 0
        self.pending: tuple[torch.Tensor, torch.Tensor] | None = None
        self.planes: Planes | None = None
        self.is_latent = False
        self.is_initialized = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.like = key_states.new_empty(0)
        self.is_latent = self.latent_dims == (key_states.shape[-1], value_states.shape[-1])
        self.is_initialized = True

    @torch.compiler.disable
    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes new rows [batch, heads, new, dim]; returns all rows, described."""
        self.flush()
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.length + key_states.shape[2]
        self.owner.make_room(key_states.shape[0], length)
        if self.planes is None:
            self._allocate(key_states, value_states)
        self.length, self.pending = length, (key_states, value_states)
        self.heads_and_dims = [(x.shape[1], x.shape[3]) for x in (key_states, value_states)]
        return self._rows(0), self._rows(1)

    def _allocate(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        owner, key_dim, value_dim = self.owner, key_states.shape[-1], value_states.shape[-1]
        dims = (key_dim + value_dim, None) if self.is_latent else (key_dim, value_dim)
        dtype = owner.dtype if owner.dtype is not None and not self.is_latent else key_states.dtype
        self.planes = Planes(
            owner.pool.num_pages, owner.page_size, key_states.shape[1], dims, dtype
        )

    @property
    def keys(self) -> CachedRows | None:
        """All keys, described; None before the first."""
        return self._rows(0)

    @property
    def values(self) -> CachedRows | None:
        """All values, described; None before the first."""
        return self._rows(1)

    @keys.setter
    def keys(self, nothing: None) -> None: ...

    @values.setter
    def values(self, nothing: None) -> None: ...

    def _rows(self, role: int) -> CachedRows | None:
        if not self.length:
            return None
        heads, dim = self.heads_and_dims[role]
        shape = (len(self.owner.pool.ids), heads, self.length, dim)
        return CachedRows(shape, self.dtype, self.device, layer=self, role=role)

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
            self.owner.step(self.length - new, new).append(self.planes.pages, key, value)

    def dense(self, role: int, length: int) -> torch.Tensor:
        """A copy of the first `length` rows, [batch, heads, length, dim]."""
        self.flush()
        pages = self.owner.pool.pages()
        if not self.is_latent:
            return self.planes.dense(role, pages, length, self.dtype)
        rank = self.latent_dims[0]
        rows = self.planes.dense(0, pages, length, self.dtype)
        return rows[..., :rank] if role == 0 else rows[..., rank:]

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def reset(self) -> None:
        self._forget()

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove > 0:
            raise folio_kv.Error(
                f"tokens_to_remove: expected 0 or a negative number, got {tokens_to_remove}"
            )
        self.flush()
        self.length = max(0, self.length + tokens_to_remove)

    # Rows are chosen for all layers at once, by the cache.
    def reorder_cache(self, beam_idx: torch.LongTensor) -> None: ...
    def batch_repeat_interleave(self, repeats: int) -> None: ...
    def batch_select_indices(self, indices: torch.Tensor) -> None: ...
    def offload(self) -> None: ...
    def prefetch(self) -> None: ...


class FolioCache(cache_utils.Cache):
    """A cache for `past_key_values` whose keys and values live in folio's pages.

    config: the model's configuration. dtype: None for the model's own, or "int8" or "fp8" (one
    float32 scale for each token and head); latent rows (MLA) stay in the model's dtype. capacity:
    tokens that each row has room for at first (None: what the first forward brings, and as much
    again); it doubles when it is full. page_size: tokens of a page.

    Errors: folio_kv.Error for another dtype, or numbers below 1.
    """

    def __init__(
        self, config: Any, *, dtype: Any = None, capacity: int | None = None, page_size: int = 64
    ):
        if dtype is not None and dtype not in DTYPES:
            raise folio_kv.Error(f'dtype: expected None, "int8" or "fp8", got {dtype!r}')
        for name, value in (("capacity", capacity), ("page_size", page_size)):
            if value is not None and value < 1:
                raise folio_kv.Error(f"{name}: expected at least 1, got {value}")
        self.dtype = DTYPES.get(dtype)
        self.capacity, self.page_size = capacity, page_size
        self.pool: RowPool | None = None
        self._steps: dict[Any, Any] = {}
        config = config.get_text_config(decoder=True)
        types, arguments = cache_utils.get_layer_types_and_kwargs(config)
        super().__init__(
            layers=[self._layer(*x) for x in zip(types, arguments, config.per_layer_config)]
        )

    def _layer(self, kind: str, arguments: dict[str, Any], config: Any) -> Any:
        from .cache_layers import LAYERS

        if kind not in LAYERS:
            return cache_utils.DYNAMIC_LAYER_TYPE_MAPPING[kind](**arguments)
        layer = LAYERS[kind](self, is_sliding="sliding" in kind or "chunked" in kind, **arguments)
        rank, rope = (
            getattr(config, "kv_lora_rank", None),
            getattr(config, "qk_rope_head_dim", None),
        )
        layer.latent_dims = (rank, rope) if rank and rope else None
        return layer

    def _paged_layers(self) -> list[FolioLayer]:
        return [layer for layer in self.layers if isinstance(layer, FolioLayer)]

    def make_room(self, rows: int, length: int) -> None:
        """Pages for `length` tokens of each of `rows` rows; called before a layer's rows are
        appended.
        """
        if self.pool is None:
            self.pool = RowPool(rows, self.capacity or 2 * length, self.page_size)
        if rows != len(self.pool.ids):
            raise folio_kv.Error(
                f"key_states: expected {len(self.pool.ids)} rows as before, got {rows}"
            )
        copies = self.pool.extend(length)
        if copies is None:
            self._grow(length)
        else:
            self._copy(copies)

    def _grow(self, length: int) -> None:
        for layer in self._paged_layers():
            layer.flush()
        self._steps.clear()
        copies = self.pool.grow(length)
        for layer in self._paged_layers():
            old = layer.planes
            if old is None:
                continue
            dims = (old.key.shape[-1], None if old.value is None else old.value.shape[-1])
            layer.planes = Planes(
                self.pool.num_pages, self.page_size, old.key.shape[1], dims, old.dtype
            )
            if copies:
                folio_kv.copy_pages([old.pages], [layer.planes.pages], copies)
        self._copy(self.pool.extend(length))

    def _copy(self, copies: list[tuple[int, int, int]]) -> None:
        pages = [layer.planes.pages for layer in self._paged_layers() if layer.planes is not None]
        if copies and pages:
            folio_kv.copy_pages(pages, pages, copies)
            self.pool.pool.take_copies()  # says that they have run

    def step(self, start: int, new: int, sight: Sight | None = None) -> Any:
        """The step that puts `new` tokens of each row behind its first `start`; layers that ask
        alike share it.
        """
        visible = None if sight is None else sight.visible
        key = (start, new, None if visible is None else id(visible))
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= KEPT_STEPS:
                self._steps.clear()
            rows = len(self.pool.ids)
            table, row_starts = self.pool.table()
            step = folio_kv.Step(
                [new * i for i in range(rows + 1)],
                [start + new] * rows,
                table,
                row_starts=row_starts,
                visible=visible,
            )
            found = self._steps[key] = (step, visible)
        return found[0]

    def _select(self, rows: list[int]) -> None:
        if self.pool is None:
            return
        for layer in self._paged_layers():
            layer.flush()
        self._steps.clear()
        if len(rows) > self.pool.rows:
            self._widen(len(rows))
        self._copy(self.pool.select(rows))

    def _widen(self, rows: int) -> None:
        self.pool.rows = rows
        self.pool.columns = max(1, self.pool.columns // 2)
        self._grow(max(1, self.pool.length))

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Row i becomes row beam_idx[i]: pages are shared, only cut ones are copied."""
        self._select(beam_idx.tolist())
        super().reorder_cache(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row becomes `repeats` rows that share its pages."""
        if self.pool is not None:
            self._select([row for row in range(len(self.pool.ids)) for _ in range(repeats)])
        super().batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps the rows `indices` (numbers, or a mask)."""
        chosen = torch.arange(len(self.pool.ids))[indices] if self.pool is not None else indices
        self._select(chosen.tolist())
        super().batch_select_indices(indices)

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last `-tokens_to_remove` tokens."""
        super().crop(tokens_to_remove)
        self._steps.clear()
        lengths = [layer.length for layer in self._paged_layers()]
        if self.pool is not None and lengths:
            self._copy(self.pool.trim(min(self.pool.length, max(lengths))))

    def reset(self) -> None:
        """Forgets all tokens and gives up the pages."""
        super().reset()
        self.pool = None
        self._steps.clear()
