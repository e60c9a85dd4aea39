# SPDX-License-Identifier: Apache-2.0
"""Keys and values on their way into transformers' paged cache, described.

Until 5.23 transformers hands its paged cache to the attention function. From 5.24 on a layer hands
its keys and values to the cache's `update`, which writes and gathers them, and attention gets what
that returns. `patch` wraps `update`: under our names it does nothing yet and returns described
rows, by which attention appends and attends in place. Whoever else computes with them gets what the
original returns.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

import folio_kv

from .described import Described

__all__ = ["PagedRows", "PagedUpdate", "patch", "update_of"]

# What transformers tells each layer of a batch.
BATCH = ("cu_seq_lens_q", "cu_seq_lens_k", "read_index", "write_index")


class PagedUpdate:
    """New keys and values [1, kv_heads, tokens, dim] of a layer, for `cache`.

    `batch` says who is in the forward, as transformers tells its layers; `of_caller` is the layer's
    own dictionary of that, which transformers' update changes. `is_written`: the new rows are in
    the cache.
    """

    def __init__(self, cache: Any, layer: int, key: Any, value: Any, batch: dict[str, Any]):
        self.cache, self.layer = cache, layer
        self.key, self.value = key, value
        self.batch = dict(batch)
        self.is_written = False
        self.of_caller = batch
        self._gathered: tuple[torch.Tensor, torch.Tensor] | None = None
        self._overwritten: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def allocator(self) -> Any:
        return self.cache.layer_to_allocator[self.layer]

    @property
    def ring(self) -> int | None:
        """The window of a layer whose rows lie in a ring; None: in pages."""
        of = self.allocator
        return of.sliding_window if of.layer_type == "sliding_attention" else None

    @property
    def keys(self) -> int:
        """Rows of the whole batch, as transformers counts them."""
        read = self.batch["read_index"] if self.batch.get("block_table") is None else []
        rows = read[self.allocator.index].numel() if len(read) else 0
        return rows or self.key.shape[2]

    def gathered(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What transformers' own update returns; it changes the layer's dictionary, too."""
        if self._gathered is None:
            self.before_they_overwrite()
            original = type(self.cache).update.folio_wraps
            self._gathered = original(
                self.cache, self.key, self.value, self.layer, kwargs=self.of_caller
            )
            self.is_written = True
        return self._gathered

    def options_of_gathered(self) -> dict[str, Any]:
        """What an attention call over gathered rows has to know of them."""
        self.gathered()
        window = {} if self.ring is None else {"sliding_window": self.ring}
        return {name: self.of_caller[name] for name in (*BATCH, "max_length_k")} | window

    def before_they_overwrite(self) -> None:
        """Puts a ring into the state in which new rows have not overwritten old ones: layers that
        share keys attend more than once.
        """
        if self.ring is None:
            return
        views = self.allocator._kv_token_views[self.layer]
        slots = self.batch["write_index"][self.allocator.index]
        if self._overwritten is None:
            self._overwritten = tuple(view[slots] for view in views)
        else:
            for view, rows in zip(views, self._overwritten):
                view.index_copy_(0, slots, rows)


class PagedRows(Described):
    """Keys (role 0) or values (role 1) [1, kv_heads, keys, dim] of all requests of a batch."""

    update: PagedUpdate
    role: int

    def make_dense(self) -> torch.Tensor:
        return self.update.gathered()[self.role]


def update_of(key: Any, value: Any) -> PagedUpdate | None:
    """The update whose keys and values these are, unchanged; else None."""
    if not (isinstance(key, PagedRows) and isinstance(value, PagedRows)):
        return None
    unchanged = key.is_description and value.is_description
    return key.update if unchanged and key.update is value.update else None


def patch(kind: Any, names: tuple[str, ...]) -> None:
    """Wraps `update` of transformers' paged cache for attention under these names; once."""
    original = kind.update
    if hasattr(original, "folio_wraps"):
        return

    @torch.compiler.disable  # as the original
    @functools.wraps(original)
    def update(
        self: Any, key_states: Any, value_states: Any, layer_idx: int, kwargs: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.config._attn_implementation not in names:
            return original(self, key_states, value_states, layer_idx, kwargs=kwargs)
        if missing := [name for name in BATCH if name not in kwargs]:
            raise folio_kv.Unsupported(
                f"continuous batching: layer {layer_idx} does not hand {', '.join(missing)} to "
                "transformers' paged cache"
            )
        new = PagedUpdate(self, layer_idx, key_states, value_states, kwargs)
        return tuple(
            PagedRows(
                (*x.shape[:2], new.keys, x.shape[3]), x.dtype, x.device, update=new, role=role
            )
            for role, x in enumerate((key_states, value_states))
        )

    update.folio_wraps = original
    kind.update = update
