# SPDX-License-Identifier: Apache-2.0
"""`FolioWindowLayer`: a layer of a FolioCache that keeps what its window sees."""

from __future__ import annotations

from typing import Any

import torch

import folio_kv

from .masks import Sight
from .paged_layer import FolioLayer, Owner
from .planes import room_for

__all__ = ["FolioWindowLayer"]


class FolioWindowLayer(FolioLayer):
    """A layer that sees the last `sliding_window` tokens: each row of the batch has one page, which
    holds those tokens and a few before them. Where it is full, what the window sees moves to its
    front.
    """

    is_sliding = True
    may_be_sparse = False

    def __init__(self, owner: Owner, sliding_window: int, **kwargs: Any):
        self.sliding_window = sliding_window
        self.record_past = False
        super().__init__(owner, **kwargs)

    def activate_past_recording(self) -> None:
        """From now on rows are given up by `crop` alone, so that it finds those behind it."""
        self.record_past = True

    @property
    def _room(self) -> int:
        """Rows of a page at the most, unless the past is recorded."""
        return self.sliding_window - 1 + max(1, self.sliding_window // 16)

    @property
    def _seen(self) -> int:
        """Old rows that the next token's window sees."""
        return min(self.held, self.sliding_window - 1)

    def _kept_before(self, new: int) -> int:
        """Old rows beside `new` ones in the next update."""
        return self.held if self.record_past or self.held + new <= self._room else self._seen

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self.sliding_window

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        if self._assigned:
            self.settle()
        kept = self._kept_before(query_length)
        return kept + query_length, self.length - kept

    def _take(
        self, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        new = key_states.shape[2]
        kept = self._kept_before(new)
        if self.record_past or kept + new <= self._room:
            self._keep(kept)
            return super()._take(key_states, value_states)
        # More than a page has: attention gets them as they are, behind the old rows that they see,
        # and the page those that later tokens see.
        rows = key_states, value_states
        if kept:
            old = (x[:, :, self.held - kept :] for x in self.dense(self.held))
            rows = tuple(torch.cat(pair, 2) for pair in zip(old, rows))
        length, last = self.length + new, min(kept + new, self.sliding_window - 1)
        self._keep(0)
        super()._take(*(x[:, :, x.shape[2] - last :] for x in rows))
        self.flush()
        self.length = length
        return rows

    def _keep(self, rows: int) -> None:
        """The last `rows` rows, in front; others are given up."""
        if rows < self.held:
            self.before_change()
            dropped, self.held = self.held - rows, rows
            self._resize(max(1, rows), dropped)

    def _make_room(self, rows: int) -> None:
        if self.planes is None or rows > self.planes.pages.page_size:
            self._resize(rows, 0)

    def _resize(self, rows: int, first: int) -> None:
        """Pages for `rows` rows, with those that the layer holds, which begin at row `first` of
        the old ones.
        """
        unit, batch = self.owner.page_size, self.owner.rows
        size = max(1, unit * room_for(rows, unit))
        if not self.record_past:
            size = min(size, max(rows, self._room))
        old, self.planes = self.planes, self._new_planes(batch, size)
        if old is not None and self.held:
            slots = [
                torch.arange(batch)[:, None] * page + start + torch.arange(self.held)
                for page, start in ((old.pages.page_size, first), (size, 0))
            ]
            copies = torch.stack([x.flatten() for x in slots], 1)
            folio_kv.copy_slots([old.pages], [self.planes.pages], copies)

    def step(self, start: int, new: int, sight: Sight | None = None) -> Any:
        return self.owner.step(start, new, sight, in_one_page=True)

    def _pages(self) -> torch.Tensor:
        return torch.arange(self.owner.rows)[:, None]

    def _kept(self, role: int) -> Any:
        if role not in self._assigned and not self._handed:
            self.settle()
            if not self.record_past:
                self._keep(self._seen)
        return super()._kept(role)

    def replace(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        length = self.length
        super().replace(keys, values)
        self.length = length

    def expect_crop(self, tokens_to_remove: int) -> None:
        super().expect_crop(tokens_to_remove)
        tokens = min(-tokens_to_remove, self.length)
        if self.held - tokens < min(self.sliding_window - 1, self.length - tokens):
            raise folio_kv.Error(
                f"tokens_to_remove: expected at most {self.held - self._seen} tokens of a layer with "
                f"a window of {self.sliding_window}, got {tokens}: those before them are gone "
                "(activate_past_recording() keeps them)"
            )

    def _drop(self, tokens: int) -> None:
        tokens = min(tokens, self.length)
        self.length, self.held = self.length - tokens, self.held - tokens
        if self.held > self._room:
            self._keep(self._seen)

    def select(self, rows: list[int]) -> None:
        if self.planes is not None:
            copies = [(row, i, self.held) for i, row in enumerate(rows) if self.held]
            self.planes = self.planes.copied(copies, len(rows), self.planes.pages.page_size)

    def moved(self, copies: list[tuple[int, int, int]]) -> None:
        self.select(list(range(self.owner.rows)) if self.planes is not None else [])
