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
from transformers.generation.continuous_batching.cache import PagedAttentionCache

import folio_kv

from .masks import Pattern, Sight
from .problem import Ask, NotServed, kind_of, refusal, sinks_of

__all__ = ["attend_paged", "in_generation_loop"]


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


def in_generation_loop() -> bool:
    """Whether this thread runs the forwards of continuous batching."""
    target = getattr(threading.current_thread(), "_target", None)
    return getattr(target, "__name__", "") == "_run_generation_loop"


def attend_paged(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cache: Any,
    options: dict[str, Any],
) -> torch.Tensor:
    """query [1, heads, tokens, dim], key and value [1, kv_heads, tokens, dim]: appended, then
    attended to.

    Returns [1, tokens, heads, v_dim]; rows of padding tokens are zero. Errors: NotServed.
    """
    if not isinstance(cache, PagedAttentionCache):
        raise NotServed(f"cache: expected a PagedAttentionCache, got {type(cache).__name__}")
    allocator = cache.layer_to_allocator[module.layer_idx]
    if allocator.layer_type not in ("full_attention", "sliding_attention"):
        raise NotServed(f"pages of layer type {allocator.layer_type}")
    is_ring = allocator.layer_type == "sliding_attention"
    window = allocator.sliding_window if is_ring else options.get("sliding_window")
    pages = _pages_of(allocator, module.layer_idx, is_ring)
    forward = _forward_of(allocator, options, is_ring)
    ask = _ask(query, window, options)
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern)
    why = refusal(kind, pages, ask, query.dtype)
    if why is not None:
        raise NotServed(why)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    k, v = k[: forward.tokens], v[: forward.tokens]
    if forward.step is None:
        return _before_they_overwrite(forward, kind, pages, q, k, v, ask)[None]
    return forward.step(kind, pages, q, k, v, slots=forward.slots, sinks=ask.sinks)[None]


def _ask(query: torch.Tensor, window: int | None, options: dict[str, Any]) -> Ask:
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
    forward: Forward, kind: Any, pages: Any, q: Any, k: Any, v: Any, ask: Ask
) -> torch.Tensor:
    """New rows among themselves, joined with the ring's old rows; then the new rows go into the
    ring.
    """
    new_pages = folio_kv.Pages.ragged(k, v)
    if forward.old_rows is None:
        out = forward.new_rows.attend(kind, new_pages, q, sinks=ask.sinks)
    else:
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
