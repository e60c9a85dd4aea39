# SPDX-License-Identifier: Apache-2.0
"""`generate_batch`: attention on the pages of transformers' continuous batching, in place.

transformers keeps all layers in one tensor. Of a layer with full attention, page p of P tokens
begins at row p * P of the layer's token view, and the physical index of a token is page * P +
offset: what folio calls a slot. A sliding layer is a ring of `sliding_window` slots for each
request, so its rows are found one by one: pages of one token, whose table is transformers' list of
rows to read. A row that decodes overwrites a key that it does not see any more; longer prompts are
attended to before they overwrite what their first tokens see.

What depends on the batch alone is made once per forward and kind of layer, and shared by its
layers.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import torch

import folio_kv

from .hooks import CONTINUOUS, refused
from .masks import MaskTensor, Pattern, Sight
from .paged_rows import PagedRows, PagedUpdate, update_of
from .problem import Ask, NotServed, expect_inference, kind_of, refusal, sinks_of

__all__ = ["attend_paged", "is_batch", "mask_of_batch", "paged_update"]


@dataclass
class Forward:
    """Who is in a forward, for the layers of one allocator.

    `lengths` is an object of the forward alone: its identity. Either `step` is over pages that hold
    the new rows too, or `new_rows` is over the new rows by themselves and `old_rows` over those in
    the ring.
    """

    lengths: Any
    tokens: int
    slots: torch.Tensor | None
    step: Any = None
    new_rows: Any = None
    old_rows: Any = None


_pages: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()
_forwards: weakref.WeakKeyDictionary[Any, dict[int, Forward]] = weakref.WeakKeyDictionary()


def is_batch(options: dict[str, Any]) -> bool:
    """Whether a call of attention, or the thread that makes it, is one of continuous batching."""
    target = getattr(threading.current_thread(), "_target", None)
    return "read_index" in options or getattr(target, "__name__", "") == "_run_generation_loop"


def paged_update(
    module: Any, key: Any, value: Any, mask: Any, cache: Any, options: dict[str, Any]
) -> PagedUpdate | None:
    """What goes into transformers' paged cache with a call of attention. None outside continuous
    batching, and where keys and values have to be gathered: the model has changed them, or masks
    them itself. Errors: folio_kv.Unsupported for a batch that cannot be served.
    """
    if cache is None and not is_batch(options):
        return None
    if why := refused(CONTINUOUS):
        raise folio_kv.Unsupported(why)
    if cache is not None:
        if mask is not None and not isinstance(mask, MaskTensor):
            raise folio_kv.Unsupported(
                f"{CONTINUOUS}: attention_mask: expected what transformers makes, got a mask of "
                f"{type(module).__name__}'s own, over new keys alone"
            )
        return PagedUpdate(cache, module.layer_idx, key, value, options)
    found = update_of(key, value)
    if found is not None and mask is None:
        return found
    rows = next((x for x in (key, value) if isinstance(x, PagedRows)), None)
    if rows is not None:
        options.update(rows.update.options_of_gathered())
    elif not isinstance(options.get("cu_seq_lens_k"), torch.Tensor):  # as update leaves them
        raise folio_kv.Unsupported(
            f"{CONTINUOUS}: {type(module).__name__} does not hand transformers' paged cache "
            "to its attention"
        )
    return None


def attend_paged(update: PagedUpdate, query: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """query [1, heads, tokens, dim]: the update's rows are appended, unless they have been, then
    attended to.

    Returns [1, tokens, heads, v_dim]; rows of padding tokens are zero. Errors: NotServed.
    """
    if not hasattr(update.cache, "layer_to_allocator"):
        raise NotServed(f"cache: expected a PagedAttentionCache, got {type(update.cache).__name__}")
    allocator = update.allocator
    if allocator.layer_type not in ("full_attention", "sliding_attention"):
        raise NotServed(f"pages of layer type {allocator.layer_type}")
    is_ring = update.ring is not None
    window = update.ring or options.get("sliding_window")
    pages = _pages_of(allocator, update.layer, is_ring)
    forward = _forward_of(allocator, update.batch, is_ring)
    ask = _ask(query, window, options)
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern)
    why = refusal(kind, pages, ask, query.dtype)
    if why is not None:
        raise NotServed(why)
    q, k, v = (x[0].transpose(0, 1) for x in (query, update.key, update.value))
    k, v = k[: forward.tokens], v[: forward.tokens]
    if forward.step is None:
        out = _before_they_overwrite(update, forward, kind, pages, q, k, v, ask)
    elif update.is_written:
        out = forward.step.attend(kind, pages, q, sinks=ask.sinks)
    else:
        out = forward.step(kind, pages, q, k, v, slots=forward.slots, sinks=ask.sinks)
    update.is_written = True
    return out[None]


def mask_of_batch(query: torch.Tensor, mask: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """A model's own mask [1, 1 or heads, queries, keys] over gathered keys, as additions; keys of
    other requests, behind a query or out of its window are hidden.
    """
    of, from_end = {}, {}
    for name, count in ("q", query.shape[2]), ("k", mask.shape[3]):
        ends = options[f"cu_seq_lens_{name}"][1:].long()
        at = torch.arange(count)
        of[name] = torch.searchsorted(ends, at, right=True)
        from_end[name] = at - ends[of[name].clamp(max=ends.numel() - 1)]  # padding: of no request
    distance = from_end["q"][:, None] - from_end["k"]
    seen = (of["q"][:, None] == of["k"]) & (distance >= 0)
    if (window := options.get("sliding_window")) is not None:
        seen &= distance < window
    hidden = torch.finfo(query.dtype).min
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, hidden)
    return mask.masked_fill(~seen, hidden)


def _ask(query: torch.Tensor, window: int | None, options: dict[str, Any]) -> Ask:
    expect_inference(query, options)
    for name in ("position_bias", "indices"):
        if options.get(name) is not None:
            raise NotServed(f"{name} in continuous batching")
    _, heads, tokens, _ = query.shape
    pattern = Pattern(left=-1 if window is None else window - 1)
    sinks = sinks_of(options, 1, heads, tokens)
    return Ask(
        1, heads, tokens, options.get("scaling"), options.get("softcap"), Sight(pattern, 0), sinks
    )


def _pages_of(allocator: Any, layer: int, is_ring: bool) -> Any:
    known = _pages.setdefault(allocator, {})
    if layer not in known:
        if is_ring:
            key, value = allocator._kv_token_views[layer]
            rows = min(key.shape[0], value.shape[0])
            known[layer] = folio_kv.Pages(key[:rows], value[:rows])
        else:
            known[layer] = folio_kv.Pages(*allocator.get_cache_for_block_table(layer))
    return known[layer]


def _forward_of(allocator: Any, options: dict[str, Any], is_ring: bool) -> Forward:
    known = _forwards.setdefault(allocator, {})
    found = known.get(allocator.index)
    if found is None or found.lengths is not options["cu_seq_lens_k"]:
        found = known[allocator.index] = (_ring_forward if is_ring else _paged_forward)(
            allocator, options
        )
    return found


def _paged_forward(allocator: Any, options: dict[str, Any]) -> Forward:
    lengths = options["cu_seq_lens_k"]
    offsets, ends = options["cu_seq_lens_q"], lengths[allocator.layer_type]
    contexts = ends.diff()
    tokens = int(offsets[-1])
    if options.get("block_table") is not None:
        table = options["block_table"][allocator.index][: contexts.numel()]
        return Forward(lengths, tokens, None, folio_kv.Step(offsets, contexts, table))
    read, write = options["read_index"][allocator.index], options["write_index"][allocator.index]
    rows, first = (read, ends) if read.numel() else (write, offsets)
    page = allocator.tokens_per_page
    columns = max(1, -(-int(contexts.max()) // page))
    at = first[:-1, None].long() + torch.arange(columns) * page
    table = (rows[at.clamp(max=rows.numel() - 1)] // page).to(torch.int32)
    return Forward(
        lengths, tokens, write[:tokens].contiguous(), folio_kv.Step(offsets, contexts, table)
    )


def _ring_forward(allocator: Any, options: dict[str, Any]) -> Forward:
    lengths = options["cu_seq_lens_k"]
    offsets, ends = (
        options["cu_seq_lens_q"].to(torch.int32),
        lengths[allocator.layer_type].to(torch.int32),
    )
    tokens, new = int(offsets[-1]), offsets.diff()
    read, write = options["read_index"][allocator.index], options["write_index"][allocator.index]
    old, slots = ends.diff() - new, write[:tokens].contiguous()
    starts = ends[:-1].to(torch.int64)
    if read.numel() and int(new.max()) == 1 == int(new.min()):
        rows = read.to(torch.int32)
        rows[ends[1:].long() - 1] = slots.to(torch.int32)
        return Forward(
            lengths, tokens, slots, folio_kv.Step(offsets, ends.diff(), rows, row_starts=starts)
        )
    forward = Forward(lengths, tokens, slots)
    forward.new_rows = folio_kv.Step(offsets, new, offsets[:-1, None].contiguous())
    if read.numel() and int(old.max()):
        rows = read.to(torch.int32)
        forward.old_rows = folio_kv.Step(offsets, old, rows, row_starts=starts, query_positions=old)
    return forward


def _before_they_overwrite(
    update: PagedUpdate,
    forward: Forward,
    kind: Any,
    pages: Any,
    q: Any,
    k: Any,
    v: Any,
    ask: Ask,
) -> torch.Tensor:
    """New rows among themselves, joined with the ring's old rows; then the new rows go into the
    ring.
    """
    new_pages = folio_kv.Pages.ragged(k, v)
    if forward.old_rows is None:
        out = forward.new_rows.attend(kind, new_pages, q, sinks=ask.sinks)
    else:
        update.before_they_overwrite()
        n = forward.tokens
        parts = [
            forward.new_rows.attend(kind, new_pages, q[:n], sinks=ask.sinks, lse=True),
            forward.old_rows.attend(kind, pages, q[:n], lse=True),
        ]
        joined, _ = folio_kv.merge(*zip(*parts))
        out = q.new_zeros(q.shape[0], q.shape[1], joined.shape[-1])
        out[:n] = joined
    folio_kv.append(None, pages, k, v, slots=forward.slots)
    return out
