# SPDX-License-Identifier: Apache-2.0
"""Which keys each query sees: transformers' masks, read instead of built.

transformers composes a mask from functions of (batch, head, query, key) and a 2-D padding mask.
`describe_mask`, registered as the mask function of our names, returns a `MaskTensor`: it keeps what
the mask was composed from and becomes eager's dense mask only where a model computes with it.
`Sight` is what the attention function needs:

- a `Pattern` (causal, window, chunk) that a kind of layer expresses, or
- intervals: one run of visible positions for each query (padding, packed sequences, prefixes), or
- a bias with -inf for hidden keys, where the visible keys of a query have holes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from transformers import masking_utils

import folio_kv

from .described import Described, version_of

__all__ = ["MaskRows", "MaskTensor", "Pattern", "Sight", "describe_mask", "sight_of"]


class Pattern(NamedTuple):
    """The query at position p sees p - left to p + right, within its chunk; -1: unlimited, chunk 0:
    no chunks.
    """

    left: int = -1
    right: int = 0
    chunk: int = 0


@dataclass
class Sight:
    """What the queries of one call see.

    Shapes: visible: (begin, end), int32 [batch * queries] each, key indices; bias: float32 [heads
    or 1, batch * queries, keys]. `context` is the number of keys that take part. With `visible` the
    pattern is not used; a bias joins either.
    """

    pattern: Pattern
    context: int
    visible: tuple[torch.Tensor, torch.Tensor] | None = None
    bias: torch.Tensor | None = None
    steps: dict[Any, Any] = field(default_factory=dict)


def _closure(function: Callable) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells)}


def _is_made_by(function: Callable, maker: Callable) -> bool:
    return getattr(function, "__qualname__", "").startswith(maker.__qualname__ + ".<locals>.")


def read_pattern(function: Callable) -> tuple[Pattern, torch.Tensor | None] | None:
    """The pattern of one of transformers' mask functions and the [batch] positions where chunks
    begin to count.

    None if the function is not one of those that a pattern can express: its dense mask has to be
    looked at.
    """
    if function is masking_utils.causal_mask_function:
        return Pattern(), None
    if function is masking_utils.bidirectional_mask_function:
        return Pattern(right=-1), None
    if _is_made_by(function, masking_utils.sliding_window_overlay):
        return Pattern(left=_closure(function)["sliding_window"] - 1, right=-1), None
    if _is_made_by(function, masking_utils.sliding_window_bidirectional_overlay):
        window = _closure(function)["sliding_window"]
        return Pattern(left=window, right=window), None
    if _is_made_by(function, masking_utils.chunked_overlay):
        cells = _closure(function)
        return Pattern(right=-1, chunk=cells["chunk_size"]), cells["left_padding"]
    if _is_made_by(function, masking_utils.and_masks):
        return _intersection([read_pattern(part) for part in _closure(function)["mask_functions"]])
    return None


def _intersection(parts: list) -> tuple[Pattern, torch.Tensor | None] | None:
    pattern, origin = Pattern(right=-1), None
    for part in parts:
        if part is None:
            return None
        other, its_origin = part
        if pattern.chunk and other.chunk:
            return None
        narrower = [
            min(a, b) if min(a, b) >= 0 else max(a, b) for a, b in zip(pattern[:2], other[:2])
        ]
        pattern = Pattern(*narrower, chunk=pattern.chunk or other.chunk)
        origin = its_origin if its_origin is not None else origin
    return pattern, origin


class MaskTensor(Described):
    """Eager's mask [batch, 1, queries, keys], described: 0 or the dtype's least value where it
    becomes dense.

    Members: function, arguments (of eager_mask), q_offset, kv_offset, padding (bool [batch, keys]
    or None).
    """

    function: Callable
    arguments: dict[str, Any]
    q_offset: int
    kv_offset: int
    padding: torch.Tensor | None
    sight: Sight | None
    _kept: torch.Tensor | None = None

    def before_view(self) -> None:
        if self._kept is None:
            self._kept = self.dense().clone()

    @property
    def is_description(self) -> bool:
        return not self._is_written and (
            self._kept is None or torch.equal(self._kept, self.dense())
        )

    def make_dense(self) -> torch.Tensor:
        return masking_utils.eager_mask(**self.arguments)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.select.int and args[1:] == (1, 0):  # of its only head
            mask = args[0]
            shape = (mask.shape[0], *mask.shape[2:])
            return MaskRows(shape, mask.dtype, mask.device, mask=mask)
        return super().__torch_dispatch__(func, types, args, kwargs)

    @property
    def pattern(self) -> Pattern | None:
        """What it shows of every sequence alike, by the distance of query and key; None if it says
        more than that.
        """
        found = read_pattern(self.function) if self.is_description else None
        if found is None or self.padding is not None:
            return None
        pattern, origin = found
        return pattern if origin is None or not bool(origin.any()) else None

    def look(self) -> Sight:
        """What the queries see; found once."""
        if self.sight is None:
            self.sight = self._from_pattern() or sight_of_dense(self.dense(), self.shape[-1])
        return self.sight

    def _from_pattern(self) -> Sight | None:
        found = read_pattern(self.function)
        if found is None:
            return None
        pattern, origin = found
        batch, _, queries, keys = self.shape
        if origin is not None and not bool(origin.any()):
            origin = None
        context = (
            min(keys, self.q_offset + queries - self.kv_offset) if pattern.right == 0 else keys
        )
        is_aligned = self.q_offset + queries == self.kv_offset + context
        if (
            self.padding is None
            and is_aligned
            and not (pattern.chunk and (self.kv_offset or origin is not None))
        ):
            return Sight(pattern, context)
        begin, end = self._pattern_bounds(pattern, origin)
        begin, end = begin.expand(batch, queries), end.expand(batch, queries)
        if self.padding is not None:
            first, last = _runs(self.padding)
            if first is None:
                return None
            begin, end = torch.maximum(begin, first[:, None]), torch.minimum(end, last[:, None])
        return Sight(pattern, context, visible=_as_visible(begin, end, context))

    def _pattern_bounds(
        self, pattern: Pattern, origin: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Key indices [batch or 1, queries] that the pattern shows to each query: [begin, end)."""
        position = torch.arange(self.shape[2])[None] + (self.q_offset - self.kv_offset)
        begin, end = torch.zeros_like(position), torch.full_like(position, self.shape[3])
        if pattern.left >= 0:
            begin = torch.maximum(begin, position - pattern.left)
        if pattern.right >= 0:
            end = torch.minimum(end, position + pattern.right + 1)
        if pattern.chunk:
            shift = self.kv_offset - (0 if origin is None else origin[:, None])
            start = (position + shift).div(
                pattern.chunk, rounding_mode="floor"
            ) * pattern.chunk - shift
            begin, end = torch.maximum(begin, start), torch.minimum(end, start + pattern.chunk)
        return begin, end


class MaskRows(Described):
    """A mask without its dimension of heads, [batch, queries, keys]: a view of it."""

    mask: MaskTensor

    def make_dense(self) -> torch.Tensor:
        self.mask.before_view()
        return self.mask.dense()[:, 0]

    def look(self) -> Sight | None:
        """What the queries see; None if somebody has written to it."""
        return self.mask.look() if self.is_description and self.mask.is_description else None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_slice = func is torch.ops.aten.slice.Tensor and args[2:] in ((), (0,), (0, sys.maxsize))
        if is_slice or func is torch.ops.aten.alias.default:
            return args[0]  # the whole of it
        return super().__torch_dispatch__(func, types, args, kwargs)


def _as_visible(
    begin: torch.Tensor, end: torch.Tensor, context: int
) -> tuple[torch.Tensor, torch.Tensor]:
    begin = begin.clamp(0, context)
    return tuple(
        x.to(torch.int32).flatten().contiguous()
        for x in (begin, end.clamp(max=context).maximum(begin))
    )


def _runs(allowed: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """First allowed index and the one behind the last along the last dimension; (None, None) if one
    has holes.
    """
    length = allowed.shape[-1]
    as_int = allowed.to(torch.uint8)
    count = as_int.sum(-1, dtype=torch.int64)
    first = as_int.argmax(-1)
    last = torch.where(count > 0, length - as_int.flip(-1).argmax(-1), first)
    return (first, last) if bool((last - first == count).all()) else (None, None)


def sight_of_dense(mask: torch.Tensor, keys: int) -> Sight:
    """What a dense mask [batch, 1 or heads, queries, >= keys] shows: bool (True: seen), or added to
    the logits.
    """
    mask = mask[..., :keys]
    batch, heads, queries, _ = mask.shape
    context, bidirectional = keys, Pattern(right=-1)
    if mask.dtype == torch.bool:
        allowed, is_plain = mask, True
    else:
        allowed = mask > torch.finfo(mask.dtype).min / 2
        is_plain = bool(((mask == 0) | ~allowed).all())
    if is_plain and heads == 1:
        first, last = _runs(allowed[:, 0])
        if first is not None:
            return Sight(bidirectional, context, visible=_as_visible(first, last, context))
    bias = torch.zeros(()) if mask.dtype == torch.bool else mask.float()
    bias = torch.where(allowed, bias, -torch.inf)
    return Sight(
        bidirectional,
        context,
        bias=bias.permute(1, 0, 2, 3).reshape(heads, batch * queries, keys).contiguous(),
    )


def sight_of(
    mask: torch.Tensor | None, batch: int, queries: int, keys: int, causal: bool, window: int | None
) -> Sight:
    """What the queries of a call see: [batch, heads, queries, dim] over keys [batch, heads, keys,
    dim].

    Without a mask the call's own flags count: `causal` (the last query sees all keys) and `window`,
    the last so many keys. Errors: folio_kv.Error for a mask of another shape.
    """
    if mask is None:
        left = -1 if window is None else window - 1
        return Sight(Pattern(left=left, right=0 if causal else left), keys)
    if isinstance(mask, MaskTensor):
        if mask.is_description and mask.shape[2:] == (queries, keys):
            return mask.look()
        return sight_of_dense(_fitted(mask.dense(), batch, queries, keys), keys)
    version = version_of(mask)
    known = getattr(mask, "_folio_sight", None)
    if known is not None and version is not None and known[:2] == (version, keys):
        return known[2]
    full = _with_padding(mask, queries, keys, causal, window) if mask.dim() == 2 else mask
    found = sight_of_dense(_fitted(full, batch, queries, keys), keys)
    mask._folio_sight = (version, keys, found)
    return found


def _fitted(mask: torch.Tensor, batch: int, queries: int, keys: int) -> torch.Tensor:
    """The mask [batch, 1 or heads, queries, >= keys], broadcast as a sum with the logits would."""
    fits = mask.dim() == 4 and mask.shape[0] in (1, batch) and mask.shape[2] in (1, queries)
    if not fits or 1 < mask.shape[3] < keys:
        raise folio_kv.Error(
            f"attention_mask: expected [{batch}, 1 or heads, {queries}, {keys}], "
            f"got {tuple(mask.shape)}"
        )
    return mask.expand(batch, -1, queries, keys if mask.shape[3] == 1 else -1)


def _with_padding(
    padding: torch.Tensor, queries: int, keys: int, causal: bool, window: int | None
) -> torch.Tensor:
    """The mask [batch, 1, queries, keys] of a 2-D padding mask beside the call's own flags."""
    query = torch.arange(queries)[:, None] + (keys - queries)
    key = torch.arange(keys)[None]
    allowed = torch.ones(queries, keys, dtype=torch.bool)
    if causal:
        allowed &= key <= query
    if window is not None:
        allowed &= (key > query - window) & (key < query + window)
    return allowed & padding.bool()[:, None, None, -keys:]


@torch.compiler.disable
def describe_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable = masking_utils.causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    **kwargs: Any,
) -> MaskTensor:
    """transformers' mask function for our names: the mask [batch, 1, queries, keys], described and
    not built.
    """
    arguments = dict(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        dtype=dtype,
        device=device,
        use_vmap=kwargs.get("use_vmap", False),
    )
    padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = padding[:, kv_offset : kv_offset + kv_length].bool()
        padding = None if bool(padding.all()) else padding
    return MaskTensor(
        (batch_size, 1, q_length, kv_length),
        dtype,
        device,
        function=mask_function,
        arguments=arguments,
        q_offset=int(q_offset),
        kv_offset=int(kv_offset),
        padding=padding,
        sight=None,
    )
