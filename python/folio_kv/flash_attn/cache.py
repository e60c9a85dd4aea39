# SPDX-License-Identifier: Apache-2.0
"""The cache and the rotation of flash_attn_with_kvcache, as folio's pages and tables."""

from __future__ import annotations

import dataclasses

import torch

from .. import Pages, Rope
from .._compat import check_tensor, index_tensor, refuse, wrong
from .call import dense_pages, pages_in_order


class Cache:
    """A dense cache or a paged one: pages, table and how many tokens a row of the table holds.

    A dense cache is pages of whole sequences, picked by cache_batch_idx. With cache_leftpad it is
    seen as single rows, so that a sequence can begin anywhere.
    """

    def __init__(
        self,
        function: str,
        key: torch.Tensor,
        value: torch.Tensor,
        block_table: torch.Tensor | None,
        batch_idx: torch.Tensor | None,
        leftpad: torch.Tensor | None,
        batch: int,
    ) -> None:
        self._function = function
        self._batch = batch
        self.leftpad: torch.Tensor | None = None
        first = "batch_cache" if block_table is None else "num_blocks"
        second = "seqlen_cache" if block_table is None else "block_size"
        check_tensor(function, "k_cache", key, [first, second, "nheads_k", "headdim"])
        check_tensor(function, "v_cache", value, [*key.shape[:3], "headdim"])
        self.room = key.shape[1]
        if block_table is not None:
            for parameter, came in ("cache_batch_idx", batch_idx), ("cache_leftpad", leftpad):
                if came is not None:
                    raise refuse(function, parameter, came, "not together with block_table")
            check_tensor(function, "block_table", block_table, [batch, "blocks"])
            self.pages, self.table = Pages(key, value), block_table
            self.room *= block_table.shape[1]
            return
        of_sequence = self._sequences(batch_idx, key.shape[0])
        if leftpad is not None:
            self.leftpad = index_tensor(function, "cache_leftpad", leftpad, batch)
            if bool((self.leftpad < 0).any()):
                raise wrong(function, "cache_leftpad", "0 or more", self.leftpad.tolist())
        if leftpad is None or self.room == 0:
            self.pages, self.table = dense_pages(key, value), of_sequence
            return
        key_rows, apart = self._as_rows("k_cache", key)
        value_rows, value_apart = self._as_rows("v_cache", value)
        if apart != value_apart:
            raise refuse(
                function, "cache_leftpad", leftpad, "k_cache and v_cache of different strides"
            )
        self.pages = Pages.ragged(key_rows, value_rows)
        self.table = (of_sequence * apart + self.leftpad.unsqueeze(1)).to(torch.int32)

    def _sequences(self, batch_idx: torch.Tensor | None, batch_cache: int) -> torch.Tensor:
        """[batch, 1] int32 which sequence of the cache each is."""
        if batch_idx is None:
            if batch_cache < self._batch:
                raise wrong(
                    self._function, "k_cache", f"{self._batch} sequences or more", batch_cache
                )
            return pages_in_order(self._batch)
        indices = index_tensor(self._function, "cache_batch_idx", batch_idx, self._batch)
        if bool(((indices < 0) | (indices >= batch_cache)).any()):
            expected = f"indices below {batch_cache}"
            raise wrong(self._function, "cache_batch_idx", expected, indices.tolist())
        return indices.unsqueeze(1)

    def _as_rows(self, parameter: str, cache: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The cache as [rows, nheads_k, headdim], and the rows from one sequence to the next."""
        sequences, slots, heads, dim = cache.shape
        sequence_stride, slot_stride, head_stride, dim_stride = cache.stride()
        if slot_stride == 0 or sequence_stride % slot_stride != 0:
            reason = f"{parameter}'s sequences are no whole number of rows apart"
            raise refuse(self._function, "cache_leftpad", cache.stride(), reason)
        apart = sequence_stride // slot_stride
        shape = ((sequences - 1) * apart + slots, heads, dim)
        strides = (slot_stride, head_stride, dim_stride)
        return cache.as_strided(shape, strides, cache.storage_offset()), apart

    def lengths(self, cache_seqlens: int | torch.Tensor | None, must_be_given: bool) -> list[int]:
        """[batch] tokens of each sequence before this call, those left of its pad not counted."""
        function = self._function
        if cache_seqlens is None:
            if must_be_given:
                raise wrong(function, "cache_seqlens", "the lengths before k", None)
            cache_seqlens = self.room
        if isinstance(cache_seqlens, int):
            lengths = [cache_seqlens] * self._batch
        else:
            lengths = index_tensor(function, "cache_seqlens", cache_seqlens, self._batch).tolist()
        if self.leftpad is not None:
            lengths = [length - pad for length, pad in zip(lengths, self.leftpad.tolist())]
        if min(lengths, default=0) < 0:
            raise wrong(function, "cache_seqlens", "0 or more behind cache_leftpad", cache_seqlens)
        return lengths

    def check_room(self, before: list[int], new: int) -> None:
        """A dense cache has no page behind its end, and a table none behind its last column."""
        pads = [0] * len(before) if self.leftpad is None else self.leftpad.tolist()
        longest = max((length + pad + new for length, pad in zip(before, pads)), default=0)
        if longest > self.room:
            expected = f"room for {longest} tokens of the longest sequence"
            raise wrong(self._function, "k_cache", expected, f"room for {self.room}")


@dataclasses.dataclass
class Rotary:
    """rotary_cos and rotary_sin [seqlen_ro, rotary_dim / 2], of any float dtype."""

    function: str
    cos: torch.Tensor
    sin: torch.Tensor
    interleaved: bool

    @classmethod
    def of(
        cls,
        function: str,
        cos: torch.Tensor | None,
        sin: torch.Tensor | None,
        interleaved: bool,
        has_new: bool,
    ) -> Rotary | None:
        if cos is None and sin is None:
            return None
        if cos is None or sin is None:
            missing = "rotary_cos" if cos is None else "rotary_sin"
            raise wrong(function, missing, "rotary_cos and rotary_sin together", None)
        if not has_new:
            raise wrong(function, "rotary_cos", "k and v, whose positions it takes", None)
        check_tensor(function, "rotary_cos", cos, ["seqlen_ro", "rotary_dim / 2"])
        check_tensor(function, "rotary_sin", sin, list(cos.shape))
        return cls(function, cos, sin, interleaved)

    def rope(self, before: list[int], tokens: int, advances: bool = True) -> Rope:
        """For `tokens` rows of each sequence, which begin at its length and advance or stay there.

        Only the rows that are needed are gathered: the caller's table may be of another dtype and
        is as long as its longest context.
        """
        ahead = torch.arange(tokens, dtype=torch.int64) * int(advances)
        positions = (torch.tensor(before).unsqueeze(1) + ahead).flatten()
        if positions.numel() and int(positions.max()) >= self.cos.shape[0]:
            expected = f"{int(positions.max()) + 1} rows or more"
            raise wrong(self.function, "rotary_cos", expected, self.cos.shape[0])
        cos_sin = torch.cat([self.cos[positions], self.sin[positions]], dim=1).to(torch.float32)
        return Rope(
            cos_sin,
            interleaved=self.interleaved,
            positions=torch.arange(positions.numel(), dtype=torch.int32),
        )
