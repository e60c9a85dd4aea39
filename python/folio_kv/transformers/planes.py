# SPDX-License-Identifier: Apache-2.0
"""The memory of a layer of a FolioCache: what its elements are, and pages of them, head-major."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

import folio_kv

from .._formats import FOUR_BITS, PAIRS, block_of, but_for, format_of
from .calibration import ChannelScales

__all__ = ["Planes", "Storage", "copy_summaries", "room_for"]

FLOATS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


BOUNDS = 2  # rows of a summary


def copy_summaries(
    source: Sequence[Planes], target: Sequence[Planes], copies: list[tuple[int, int, int]]
) -> None:
    """Those of the pages of a list for copy_pages, as a whole, where planes have any."""
    pairs = [(a.summaries, b.summaries) for a, b in zip(source, target) if a.summaries is not None]
    if pairs:
        whole = [(a, b, BOUNDS) for a, b, tokens in copies if tokens]
        folio_kv.copy_pages(*map(list, zip(*pairs)), whole)


def room_for(tokens: int, page_size: int) -> int:
    """Pages to make for so many tokens: a 32nd more, so that growing copies each row 32 times."""
    return -(-tokens // page_size) + tokens // (32 * page_size)


@dataclasses.dataclass(frozen=True)
class Stored:
    """What K, or V, is stored as: a Format, or `options` of one. rotated: in blocks of so many
    elements, or of the head's own (True). wishes: the granularity is for heads that are a multiple
    of it.
    """

    format: Any = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    rotated: bool | int | None = None
    wishes: bool = False

    @classmethod
    def read(cls, given: Any, rotated: bool | int | None, **words: Any) -> Stored:
        """Of FolioCache's dtype or v_dtype. Errors: folio_kv.Error."""
        if not isinstance(given, folio_kv.Format):
            return cls.of_options(format_of(given, **words), rotated, words)
        for name, word in {"rotated": rotated, **words}.items():
            if word is not None:
                raise folio_kv.Error(f"{name}: given beside a Format, which says it")
        return cls(given)

    @classmethod
    def of_options(
        cls, options: dict[str, Any], rotated: bool | int | None, words: dict[str, Any]
    ) -> Stored:
        is_wish = options["dtype"] == "i8" and "granularity" in options
        return cls(None, options, rotated, is_wish and words["granularity"] is None)

    def of(self, dim: int, layer: int, channel_scales: Any = None) -> Any:
        """The Format of heads of `dim` elements of this layer. Errors: folio_kv.Error."""
        if self.format is not None:
            return self.format.of_layer(layer)
        options = self.options
        if self.wishes and dim % options["granularity"]:
            options = {"dtype": options["dtype"]}
        if self.rotated:
            options = options | {"hadamard": block_of(dim, self.rotated)}
        return folio_kv.Format(**options, channel_scales=channel_scales)


@dataclasses.dataclass(frozen=True)
class Storage:
    """What K and V of a cache are stored as; None: in the model's dtype."""

    key: Stored | None = None
    value: Stored | None = None
    channel_scales: Sequence[Any] | None = None  # of K, or of K and V, one for each layer

    @classmethod
    def read(
        cls,
        dtype: Any,
        v_dtype: Any,
        granularity: int | None,
        scale_dtype: Any,
        rotated: bool | int | None,
        channel_scales: Sequence[Any] | None = None,
    ) -> Storage:
        """Of FolioCache's arguments. Errors: folio_kv.Error."""
        words = {"granularity": granularity, "scale_dtype": scale_dtype}
        if dtype is None:
            for name, value in {
                "v_dtype": v_dtype,
                "rotated": rotated or None,
                "channel_scales": channel_scales,
                **words,
            }.items():
                if value is not None:
                    raise folio_kv.Error(f"{name}: expected a dtype beside it, got None")
            return cls()
        if rotated is not None and not isinstance(rotated, bool):
            _expect_block(rotated)
        if channel_scales is not None and not hasattr(channel_scales, "__len__"):
            raise folio_kv.Error(
                f"channel_scales: expected one for each layer, got {channel_scales!r}"
            )
        if isinstance(dtype, str) and dtype in PAIRS:
            if v_dtype is not None:
                raise folio_kv.Error(f'v_dtype: given beside "{dtype}", which says it')
            pair = (
                Stored.of_options(but_for(x, **words), rotated or None, words) for x in PAIRS[dtype]
            )
            return cls(*pair, channel_scales)
        is_format = isinstance(dtype, folio_kv.Format)
        if channel_scales is not None and is_format:
            raise folio_kv.Error("channel_scales: given beside a Format, which says it")
        if is_format and v_dtype is None and dtype.channel_scales is not None:
            raise folio_kv.Error(
                "v_dtype: expected V's own, for channel_scales of dtype are K's, got None"
            )
        key = Stored.read(dtype, rotated or None, **words)
        value = key if v_dtype is None else Stored.read(v_dtype, rotated or None, **words)
        return cls(key, value, channel_scales)

    def of(self, model: torch.dtype, dims: tuple[int, int | None], layer: int) -> tuple[Any, Any]:
        """The Formats of K and V of a layer that gives rows of this dtype and these dims."""
        if self.key is None or self.value is None:
            return FLOATS.get(model, "f32"), None
        scales = self._channel_scales(layer)
        value = None if dims[1] is None else self.value.of(dims[1], layer, scales.value)
        return self.key.of(dims[0], layer, scales.key), value

    def expect_layers(self, layers: int) -> None:
        """A model of so many layers. Errors: folio_kv.Error for channel scales of more."""
        if self.channel_scales is not None and len(self.channel_scales) > layers:
            raise folio_kv.Error(
                f"channel_scales: expected one for each of {layers} layers, got "
                f"{len(self.channel_scales)}"
            )

    def _channel_scales(self, layer: int) -> ChannelScales:
        if self.channel_scales is None:
            return ChannelScales(None)
        if layer >= len(self.channel_scales):
            raise folio_kv.Error(
                f"channel_scales: expected one for each layer, got {len(self.channel_scales)} for "
                f"layer {layer}"
            )
        scales = self.channel_scales[layer]
        is_pair = isinstance(scales, tuple) and len(scales) == 2
        return ChannelScales(*scales) if is_pair else ChannelScales(scales)


def _expect_block(rotated: Any) -> None:
    is_number = isinstance(rotated, int)
    if not (is_number and 16 <= rotated <= 512 and rotated & (rotated - 1) == 0):
        raise folio_kv.Error(
            f"rotated: expected True or a power of two from 16 to 512, got {rotated!r}"
        )


class Planes:
    """The memory of one layer, `num_pages` pages of `page_size` tokens: `pages` are the views.

    dims: of a head of K and of V; a latent layer has rows [latent | rotated] of one head in K and
    None for V. formats: of K and V, as KVCache takes dtype and v_dtype. is_summarised: with
    `summaries` of the keys of each page, which whoever appends hands on.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        heads: int,
        dims: tuple[int, int | None],
        formats: tuple[Any, Any],
        is_summarised: bool = False,
    ):
        self.heads, self.dims, self.formats = heads, dims, formats
        is_latent = dims[1] is None
        self._memory = folio_kv.KVCache(
            1,
            num_pages,
            page_size,
            kv_heads=heads,
            head_size=dims[0],
            v_head_size=dims[1],
            dtype=formats[0],
            v_dtype=formats[1],
            latent=is_latent,
        )
        self.pages = self._memory[0]
        self._summaries = self._new_summaries(num_pages) if is_summarised else None
        self.summaries = self._summaries and self._summaries[0]
        self.described = repr(formats)
        self.has_four_bits = any(getattr(x, "dtype", x) in FOUR_BITS for x in formats)

    def _new_summaries(self, num_pages: int) -> Any:
        """Bounds of the keys of each page."""
        dtype = getattr(self.formats[0], "dtype", self.formats[0])
        return folio_kv.KVCache(
            1,
            num_pages,
            BOUNDS,
            kv_heads=self.heads,
            head_size=self.dims[0],
            dtype=dtype if dtype in FLOATS.values() else "bf16",
            latent=True,
        )

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes + (self._summaries.nbytes if self._summaries else 0)

    @property
    def is_turned(self) -> bool:
        """Whether K is stored rotated, or divided by channel scales."""
        key = self.formats[0]
        return isinstance(key, folio_kv.Format) and (
            key.hadamard is not None or key.channel_scales is not None
        )

    def __getstate__(self) -> dict[str, Any]:
        return {n: x for n, x in self.__dict__.items() if n not in ("pages", "summaries")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, pages=state["_memory"][0])
        self.summaries = self._summaries and self._summaries[0]

    def like(self, num_pages: int, page_size: int) -> Planes:
        """Others of the same elements."""
        is_summarised = self.summaries is not None
        return Planes(num_pages, page_size, self.heads, self.dims, self.formats, is_summarised)

    def copied(self, copies: list[tuple[int, int, int]], num_pages: int, page_size: int) -> Planes:
        """Others that hold copies of these pages."""
        made = self.like(num_pages, page_size)
        if copies:
            folio_kv.copy_pages([self.pages], [made.pages], copies)
            copy_summaries([self], [made], copies)
        return made

    def gathered(self, pages: torch.Tensor, length: int) -> Planes:
        """Copies of the first `length` rows of `pages` [batch, columns]: page after page."""
        page_size = self.pages.page_size
        used = pages[:, : -(-length // page_size)].flatten().tolist()
        copies = [(page, i, page_size) for i, page in enumerate(used)]
        return self.copied(copies, len(used), page_size)

    def take(self, pages: torch.Tensor, length: int, made: Planes) -> None:
        """The first `length` rows of `pages` [batch, columns] become those that were `gathered`."""
        batch, tokens, theirs = pages.shape[0], torch.arange(length), made.pages.page_size
        mine = self.pages.page_size
        columns = -(-length // theirs)
        source = torch.arange(batch)[:, None] * (columns * theirs) + tokens
        target = pages[:, tokens // mine] * mine + tokens % mine
        copies = torch.stack([source.flatten(), target.flatten().long()], 1)
        folio_kv.copy_slots([made.pages], [self.pages], copies)
        if self.summaries is not None:
            used = pages[:, : -(-length // mine)]
            filled = (length - mine * torch.arange(used.shape[1])).clamp(max=mine).expand_as(used)
            slots = dict(
                zip(used.flatten().tolist(), filled.flatten().tolist())
            )  # shared ones once
            folio_kv.summarise(self.pages, self.summaries, list(slots), list(slots.values()))

    def dense(
        self, pages: torch.Tensor, length: int, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """K and V of the first `length` rows of `pages` [batch, columns] as [batch, heads, length,
        dim] each: copies.
        """
        batch, page_size = pages.shape[0], self.pages.page_size
        used = pages[:, : max(1, -(-length // page_size))]
        as_pages = [
            None if dim is None else torch.empty(used.numel(), self.heads, page_size, dim)
            for dim in self.dims
        ]
        copies = [(int(page), i, page_size) for i, page in enumerate(used.flatten())]
        folio_kv.copy_pages([self.pages], [folio_kv.Pages(*as_pages, order="HND")], copies)

        def rows(of: torch.Tensor | None) -> torch.Tensor | None:
            if of is None:
                return None
            parts = of.unflatten(0, (batch, -1)).transpose(1, 2)
            return parts.flatten(2, 3)[:, :, :length].to(dtype)

        return rows(as_pages[0]), rows(as_pages[1])
