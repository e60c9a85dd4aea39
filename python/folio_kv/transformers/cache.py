# SPDX-License-Identifier: Apache-2.0
"""`FolioCache`: transformers' cache with K and V in folio's pages.

Layers without a window share one pool of pages and one step (plan) per forward and kind of layer;
layers with a window keep what it sees. Layers that keep other states (convolutions, recurrent
states) are transformers' own; layers that keep both are transformers' classes with the attention
part in pages.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import cache_utils

import folio_kv

from .cache_layers import LAYERS, FolioIndexedLayer
from .masks import Sight
from .paged_layer import FolioLayer
from .planes import Storage, copy_summaries, room_for
from .rows import RowPool
from .sparse_pages import LeftOut, SparsePages, Watch, read_option
from .window_layer import FolioWindowLayer

__all__ = ["FolioCache"]

KEPT_STEPS = 8


class FolioCache(cache_utils.Cache):
    """A cache for `past_key_values` whose keys and values live in folio's pages.

    config: the model's configuration. dtype, v_dtype, granularity, scale_dtype: as folio_kv.KVCache
    takes them, None for the model's own; latent rows (MLA) stay in the model's dtype. Beside its
    names, "int8" is i8 with a float16 scale for each 32 elements (one for a whole row where heads
    are no multiple of that), and "int8_per_row" i8 with one float32 scale for each token and head;
    of four bits, "int4" is i4 with a float16 scale for 32 elements, "nvfp4" f4_e2m1 with an f8_e4m3
    scale for 16 and a tensor scale, "mxfp4" f4_e2m1 with an f8_e8m0 scale for 32; "kv4" is K as i8
    with a float16 scale for 64 and V as u4 with an f8_e4m3 scale and a zero point for 16. rotated:
    K and V are stored rotated, in blocks of so many elements, or (True) of the largest power of
    two, at most 256, that divides the head. channel_scales: of each layer f32 [kv_heads,
    head_size], or None, by which keys are divided before that, or a pair, of keys and values
    (`calibrate`).
    capacity: tokens that each row has room for at first (None: what the first forward brings);
    room grows by a 32nd. page_size: tokens of a page. sparse_pages: layers without a window read
    only the pages that matter most to a query: so many tokens, or SparsePages; None: all.

    A layer with a window keeps the tokens that its window sees. Copies (`copy.deepcopy`) and
    pickles hold rows of their own.

    Errors: folio_kv.Error for another dtype, or numbers below 1; the first forward's, for heads that
    the dtype, or the rotation, does not fit; folio_kv.Unsupported for sparse_pages of latent rows.
    """

    def __init__(
        self,
        config: Any,
        *,
        dtype: Any = None,
        v_dtype: Any = None,
        granularity: int | None = None,
        scale_dtype: Any = None,
        rotated: bool | int | None = None,
        channel_scales: Sequence[Any] | None = None,
        capacity: int | None = None,
        page_size: int = 16,
        sparse_pages: SparsePages | int | None = None,
    ):
        for name, value in (("capacity", capacity), ("page_size", page_size)):
            if value is not None and value < 1:
                raise folio_kv.Error(f"{name}: expected at least 1, got {value}")
        self.storage = Storage.read(
            dtype, v_dtype, granularity, scale_dtype, rotated, channel_scales
        )
        self.capacity, self.page_size = capacity, page_size
        self.sparse_pages, self.watch = read_option(sparse_pages, page_size), Watch()
        self.rows: int | None = None
        self.pool: RowPool | None = None
        self._steps: dict[Any, Any] = {}
        config = config.get_text_config(decoder=True)
        types, arguments = cache_utils.get_layer_types_and_kwargs(config)
        super().__init__(
            layers=[
                self._layer(i, *x)
                for i, x in enumerate(zip(types, arguments, config.per_layer_config))
            ]
        )
        self.storage.expect_layers(len(self.layers))

    def _layer(self, index: int, kind: str, arguments: dict[str, Any], config: Any) -> Any:
        if kind not in LAYERS:
            return cache_utils.DYNAMIC_LAYER_TYPE_MAPPING[kind](**arguments)
        layer = LAYERS[kind](self, **arguments)
        layer.index = index
        rank, rope = (
            getattr(config, "kv_lora_rank", None),
            getattr(config, "qk_rope_head_dim", None),
        )
        layer.latent_dims = (rank, rope) if rank and rope else None
        return layer

    def _paged_layers(self) -> list[FolioLayer]:
        """Those that keep rows in pages; the keys of an indexer are one beside its layer."""
        layers = [layer for layer in self.layers if isinstance(layer, FolioLayer)]
        return layers + [x.index_keys for x in layers if isinstance(x, FolioIndexedLayer)]

    def _pool_layers(self) -> list[FolioLayer]:
        """Those whose pages are the pool's."""
        return [x for x in self._paged_layers() if not isinstance(x, FolioWindowLayer)]

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values of all paged layers, with the room that they have."""
        return sum(x.planes.nbytes for x in self._paged_layers() if x.planes is not None)

    def left_out(self) -> LeftOut:
        """What queries did not read so far, of a cache whose sparse_pages are watched. Errors:
        folio_kv.Error for others.
        """
        if self.sparse_pages is None or not self.sparse_pages.watched:
            raise folio_kv.Error("left_out: expected a cache with SparsePages(watched=True)")
        return self.watch.left_out

    def expect_rows(self, rows: int) -> None:
        """The rows of the batch are what they were."""
        if self.rows is None:
            self.rows = rows
        if rows != self.rows:
            raise folio_kv.Error(f"key_states: expected {self.rows} rows as before, got {rows}")

    def make_room(self, start: int, length: int) -> None:
        """Pages of the pool for `length` tokens of each row, of which those from `start` on will be
        written to.
        """
        if self.pool is None:
            tokens = max(self.capacity or 0, self.page_size * room_for(length, self.page_size))
            self.pool = RowPool(self.rows, tokens, self.page_size)
        copies = None if start < self.pool.shared else self.pool.extend(length)
        if copies is None:
            self._grow(length)
        else:
            self._copy(copies)

    def _grow(self, length: int) -> None:
        for layer in self._pool_layers():
            layer.flush()
        self._steps.clear()
        copies = self.pool.grow(length)
        for layer in self._pool_layers():
            layer.moved(copies)
        self._copy(self.pool.extend(length))

    def _copy(self, copies: list[tuple[int, int, int]]) -> None:
        planes = [layer.planes for layer in self._pool_layers() if layer.planes is not None]
        if copies and planes:
            pages = [x.pages for x in planes]
            folio_kv.copy_pages(pages, pages, copies)
            copy_summaries(planes, planes, copies)
            self.pool.pool.take_copies()  # says that they have run

    def step_of_lists(self, start: int, new: int, slots: torch.Tensor) -> Any:
        """The step of `new` tokens behind the first `start`, which attend to the keys of `slots`
        [rows * new, count] alone.
        """
        table, row_starts = self.pool.table()
        offsets = [new * i for i in range(self.rows + 1)]
        contexts = [start + new] * self.rows
        return folio_kv.Step(offsets, contexts, table, row_starts=row_starts, selected=slots)

    def step(
        self, start: int, new: int, sight: Sight | None = None, in_one_page: bool = False
    ) -> Any:
        """The step that puts `new` tokens of each row behind its first `start`; layers that ask
        alike share it. in_one_page: each row's tokens are page `row`, not in the pool's pages.
        """
        visible = None if sight is None else sight.visible
        key = (start, new, in_one_page, None if visible is None else id(visible))
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= KEPT_STEPS:
                self._steps.clear()
            if in_one_page:
                table, row_starts = torch.arange(self.rows, dtype=torch.int32)[:, None], None
            else:
                table, row_starts = self.pool.table()
            step = folio_kv.Step(
                [new * i for i in range(self.rows + 1)],
                [start + new] * self.rows,
                table,
                row_starts=row_starts,
                visible=visible,
            )
            found = self._steps[key] = (step, visible)
        return found[0]

    def _select(self, rows: list[int]) -> None:
        if self.rows is None:
            return
        for layer in self._paged_layers():
            layer.settle()
            layer.before_change()
        self._steps.clear()
        if self.pool is not None:
            if len(rows) > self.pool.rows:
                self.pool.rows = len(rows)
                self._grow(max(1, self.pool.length))
            self._copy(self.pool.select(rows))
        for layer in self._paged_layers():
            layer.select(rows)
        self.rows = len(rows)

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Row i becomes row beam_idx[i]: the pool's pages are shared, only cut ones are copied."""
        rows = beam_idx.tolist()
        if self.rows is not None and any(not 0 <= row < self.rows for row in rows):
            raise folio_kv.Error(f"beam_idx: expected numbers of {self.rows} rows, got {rows}")
        self._select(rows)
        super().reorder_cache(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row becomes `repeats` rows that share its pages."""
        if self.rows is not None:
            self._select([row for row in range(self.rows) for _ in range(repeats)])
        super().batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps the rows `indices` (numbers, or a mask)."""
        chosen = torch.arange(self.rows)[indices] if self.rows is not None else indices
        self._select(chosen.tolist())
        super().batch_select_indices(indices)

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last `-tokens_to_remove` tokens, in all layers or, with an error, in none."""
        for layer in self._paged_layers():
            layer.expect_crop(tokens_to_remove)
        super().crop(tokens_to_remove)
        self._steps.clear()
        lengths = [layer.length for layer in self._pool_layers()]
        if self.pool is not None and lengths:
            self._copy(self.pool.trim(min(self.pool.length, max(lengths))))

    def reset(self) -> None:
        """Forgets all tokens and gives up the pages."""
        super().reset()
        self.rows = self.pool = None
        self._steps.clear()
        self.watch = Watch()

    def __deepcopy__(self, memo: dict[int, Any]) -> FolioCache:
        for layer in self._paged_layers():
            layer.settle()
        other = memo[id(self)] = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, _steps={}, watch=copy.copy(self.watch))
        copies: list[tuple[int, int, int]] = []
        if self.pool is not None:
            other.pool = copy.copy(self.pool)
            copies = other.pool.grow(self.pool.length)
        other.layers = copy.deepcopy(self.layers, memo)
        for layer in other._paged_layers():
            layer.moved(copies)
        return other

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pool": None, "_steps": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for layer in self._paged_layers():
            layer.restore()
