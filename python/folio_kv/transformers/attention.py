# SPDX-License-Identifier: Apache-2.0
"""The attention function that transformers calls for our names.

Three sources of keys and values: the pages of a FolioCache (described tensors: append and attend in
one call), the pages of transformers' continuous batching (`continuous`), and dense tensors [batch,
heads, keys, dim] as no cache or any other cache gives them, which are read in place as ragged rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import torch

import folio_kv

from .._compat import offsets_tensor
from ..flash_attn.call import check_longest
from . import latent, reporting
from .calibration import note
from .continuous import attend_paged, is_batch, mask_of_batch, paged_update
from .described import Described
from .indexer import KeyLists
from .masks import MaskTensor, Pattern, Sight
from .problem import (
    Ask,
    NotServed,
    as_tokens,
    expect_no_gradient,
    is_causal,
    kind_of,
    refusal,
    stock_attention,
)
from .rows import CachedRows
from .sparse_pages import with_pages

__all__ = ["attention"]


@torch.compiler.disable
def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    cache: Any = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """transformers' attention interface: query [batch, heads, queries, dim] over key and value
    [batch, kv_heads, keys, dim].

    Returns (output [batch, queries, heads, v_dim], None); what folio does not serve goes to the
    model's eager attention, which may return its weights.
    """
    if hasattr(module, "expand_kv"):
        latent.patch(module)
    note(module, query, key, value)
    paged = paged_update(module, key, value, attention_mask, cache, options)
    if paged is None and attention_mask is not None and is_batch(options):
        attention_mask = mask_of_batch(query, attention_mask, options)
    try:
        if paged is not None:
            expect_no_gradient(query, paged.key, paged.value, *options.values())
            out = attend_paged(paged, query, options)
        else:
            out = _attend(module, query, key, value, attention_mask, options)
        reporting.served(module)
        return out, None
    except NotServed as reason:
        reporting.not_served(module, str(reason))
    return _stock(module, query, key, value, attention_mask, paged, options)


def _attend(
    module: Any, query: Any, key: Any, value: Any, mask: Any, options: dict[str, Any]
) -> torch.Tensor:
    if isinstance(query, Described):
        query = query.dense()
    if isinstance(key, CachedRows) and mask is not None and mask.shape[-1] < key.shape[2]:
        raise folio_kv.Error(
            f"attention_mask: expected at least {key.shape[2]} keys, as the cache has, "
            f"got {tuple(mask.shape)}"
        )
    pending = key.layer.pending if isinstance(key, CachedRows) else None
    expect_no_gradient(query, key, value, mask, *(pending or ()), *options.values())
    if _is_packed(options):
        if mask is None:
            return _packed(module, query, key, value, None, options)
        if isinstance(mask, MaskTensor) and mask.pattern is not None:
            return _packed(module, query, key, value, mask.pattern, options)
        mask = _joined(mask, _mask_of_packed(query, key.shape[2], options, Pattern(right=-1)))
    ask = Ask.read(module, query, key.shape[2], mask, options)
    if (
        isinstance(key, CachedRows)
        and isinstance(value, CachedRows)
        and _belong_together(key, value)
    ):
        return _cached(ask, query, key)
    if isinstance(key, latent.ExpandedRows) and isinstance(value, latent.ExpandedRows):
        return _latent(ask, query, key)
    return _dense(ask, query, stored(key), stored(value))


def stored(x: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or what a described one stands for."""
    return x.dense() if isinstance(x, Described) else x


def _belong_together(key: CachedRows, value: CachedRows) -> bool:
    return (
        key.layer is value.layer
        and (key.role, value.role) == (0, 1)
        and not key.layer.is_latent
        and key.is_description
        and value.is_description
    )


def _cached(ask: Ask, query: torch.Tensor, key: CachedRows) -> torch.Tensor:
    """Keys and values in the pages of a FolioCache."""
    planes = key.layer.planes
    ask = _listed(ask, key)
    if ask.slots is None:
        ask = with_pages(ask, query, key)
    rounds = planes is not None and planes.has_four_bits  # q loses less than K has lost
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern, int8_operands=rounds)
    return _over_pages(ask, kind, query, key).unflatten(0, (ask.batch, ask.queries))


def _listed(ask: Ask, rows: CachedRows) -> Ask:
    """The lists of keys as slots of the layer's pages, or else as a bias."""
    lists = ask.lists
    if isinstance(lists, KeyLists) and lists.owner is rows.layer.owner and ask.bias is None:
        return replace(ask, slots=lists.slots, sight=Sight(Pattern(), rows.shape[2]))
    return ask.with_lists_as_bias(rows.shape[2])


def _over_pages(ask: Ask, kind: Any, query: torch.Tensor, key: CachedRows) -> torch.Tensor:
    layer, length = key.layer, key.shape[2]
    why = refusal(kind, layer.planes.pages, ask, query.dtype, layer.planes.described)
    if why is not None:
        raise NotServed(why)
    pages, rows = layer.planes.pages, query if query.dim() == 3 else as_tokens(query)
    if layer.pending is not None and layer.pending[0].shape[2] != ask.queries:
        layer.flush()  # cross attention: other new keys than queries
    new = layer.take_pending() if length == layer.held else None
    if ask.slots is not None:
        step = layer.owner.step_of_lists(length - ask.queries, ask.queries, ask.slots)
    else:
        step = layer.step(length - ask.queries, ask.queries, ask.sight)
    if new is not None:
        options = {"bias": ask.bias, "sinks": ask.sinks, "summaries": layer.planes.summaries}
        return step(kind, pages, rows, *new, **options)
    if ask.missed is None:
        return step.attend(kind, pages, rows, bias=ask.bias, sinks=ask.sinks)
    out, lse = step.attend(kind, pages, rows, sinks=ask.sinks, lse=True)
    layer.owner.watch.note_shares(ask.missed, lse)
    return out


def _latent(ask: Ask, query: torch.Tensor, key: latent.ExpandedRows) -> torch.Tensor:
    """Keys and values that are expanded from latent rows: attention over the rows themselves."""
    latents, maps = key.latents, key.maps
    rank = latents.shape[-1]
    ask = _listed(ask, latents)
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern, v_in_key=rank)
    out = maps.output(_over_pages(ask, kind, maps.query(query), latents))
    return out.unflatten(0, (ask.batch, ask.queries))


_local = threading.local()
KEPT_STEPS = 16


def _step_over_rows(ask: Ask, first_rows: tuple[int, ...], context: int) -> Any:
    """The step over ragged rows; kept for other layers, and, without intervals, for other forwards
    of the same sizes.
    """
    key = (ask.batch, ask.queries, context, first_rows)
    visible = ask.sight.visible
    if visible is not None:
        kept: Any = ask.sight.steps
    else:
        kept = _local.__dict__.setdefault("steps", OrderedDict())
    if key not in kept:
        while len(kept) >= KEPT_STEPS:
            kept.popitem(last=False) if isinstance(kept, OrderedDict) else kept.clear()
        offsets = [ask.queries * i for i in range(ask.batch + 1)]
        table = torch.tensor(first_rows, dtype=torch.int32).view(ask.batch, 1)
        kept[key] = folio_kv.Step(offsets, [context] * ask.batch, table, visible=visible)
    return kept[key]


def ragged(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """[batch, heads, keys, dim] as rows [rows, heads, dim] in place, and the rows from one sequence
    to the next.
    """
    if x.stride(3) != 1 or x.stride(2) <= 0 or (x.shape[0] > 1 and x.stride(0) % x.stride(2)):
        x = x.contiguous()
    between = x.stride(0) // x.stride(2) if x.shape[0] > 1 else 0
    rows = (x.shape[0] - 1) * between + x.shape[2]
    return x.as_strided((rows, x.shape[1], x.shape[3]), (x.stride(2), x.stride(1), 1)), between


def _dense(ask: Ask, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Dense keys and values [batch, heads, keys, dim]."""
    ask = ask.with_lists_as_bias(key.shape[2])
    if key.shape[0] != ask.batch:
        key, value = key.expand(ask.batch, -1, -1, -1), value.expand(ask.batch, -1, -1, -1)
    key_rows, between = ragged(key)
    value_rows, between_values = ragged(value)
    if between != between_values:
        key_rows, between = ragged(key.contiguous())
        value_rows, _ = ragged(value.contiguous())
    rows = min(key_rows.shape[0], value_rows.shape[0])
    pages = folio_kv.Pages.ragged(key_rows[:rows], value_rows[:rows])
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern)
    why = refusal(kind, pages, ask, query.dtype)
    if why is not None:
        raise NotServed(why)
    step = _step_over_rows(ask, tuple(between * b for b in range(ask.batch)), ask.sight.context)
    out = step.attend(kind, pages, as_tokens(query), bias=ask.bias, sinks=ask.sinks)
    return out.unflatten(0, (ask.batch, ask.queries))


OF_PACKED = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


def _is_packed(options: dict[str, Any]) -> bool:
    return any(options.get(name) is not None for name in OF_PACKED)


def _ends_of_packed(query: Any, keys: int, options: dict[str, Any]) -> list[torch.Tensor]:
    """cu_seq_lens_q and cu_seq_lens_k, [sequences + 1] int32 each, checked."""
    found = []
    for role, rows in ("q", query.shape[2]), ("k", keys):
        name = f"cu_seq_lens_{role}"
        given = options.get(name)
        if given is None:
            came = [other for other in OF_PACKED if options.get(other) is not None]
            raise folio_kv.Error(f"{name}: expected with {', '.join(came)}, got None")
        ends = offsets_tensor("attention", name, given.to("cpu"))
        if int(ends[-1]) != rows:
            raise folio_kv.Error(f"{name}: expected to end with {rows}, got {int(ends[-1])}")
        check_longest(
            "attention",
            f"max_length_{role}",
            options.get(f"max_length_{role}"),
            ends.diff().tolist(),
        )
        found.append(ends)
    if found[0].numel() != found[1].numel():
        raise folio_kv.Error(
            f"cu_seq_lens_k: expected {found[0].numel()} numbers, as cu_seq_lens_q has, "
            f"got {found[1].numel()}"
        )
    if query.shape[0] != 1:
        raise folio_kv.Error(f"cu_seq_lens_q: expected a batch of 1, got {query.shape[0]}")
    return found


def _packed(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    pattern: Pattern | None,
    options: dict[str, Any],
) -> torch.Tensor:
    """Sequences side by side in one row of the batch, as flash attention's variable-length form
    gives them. pattern: what a query sees of its own sequence; None: what the options say.
    """
    offsets, starts = _ends_of_packed(query, key.shape[2], options)
    ask = Ask.read(module, query, key.shape[2], None, options).with_lists_as_bias(key.shape[2])
    if pattern is not None:
        ask.sight = Sight(pattern, key.shape[2])
    pages = folio_kv.Pages.ragged(as_tokens(stored(key)), as_tokens(stored(value)))
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern)
    why = refusal(kind, pages, ask, query.dtype)
    if why is not None:
        raise NotServed(why)
    step = folio_kv.Step(offsets, starts.diff(), starts[:-1, None].contiguous())
    return step.attend(kind, pages, as_tokens(query), bias=ask.bias, sinks=ask.sinks)[None]


def _mask_of_packed(
    query: Any, keys: int, options: dict[str, Any], pattern: Pattern
) -> torch.Tensor:
    """The mask that packed sequences need where attention does not know of them. pattern: what a
    query sees of its own sequence, as a window and causality say it.
    """
    q_ends, k_ends = (ends[1:] for ends in _ends_of_packed(query, keys, options))
    q_at, k_at = torch.arange(int(q_ends[-1])), torch.arange(int(k_ends[-1]))
    of_q, of_k = (
        torch.searchsorted(x, at, right=True) for x, at in ((q_ends, q_at), (k_ends, k_at))
    )
    seen = of_q[:, None] == of_k
    behind = (q_at - q_ends[of_q])[:, None] - (k_at - k_ends[of_k])  # positions from key to query
    if pattern.right >= 0:
        seen = seen & (behind >= -pattern.right)
    if pattern.left >= 0:
        seen = seen & (behind <= pattern.left)
    hidden = torch.zeros(seen.shape, dtype=query.dtype)
    return hidden.masked_fill_(~seen, torch.finfo(query.dtype).min)[None, None].to(query.device)


def _joined(mask: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The mask, where `other` (0: shown) hides nothing. Errors: Unsupported."""
    mask = stored(mask)
    if mask.dim() != 4:
        raise folio_kv.Unsupported(
            f"attention_mask: expected 4 dimensions beside cu_seq_lens_q, got {tuple(mask.shape)}"
        )
    if mask.dtype == torch.bool:
        return mask & (other == 0)
    return mask.masked_fill(other != 0, torch.finfo(mask.dtype).min)  # it may add to what is shown


def _stock(
    module: Any, query: Any, key: Any, value: Any, mask: Any, paged: Any, options: dict[str, Any]
) -> Any:
    """The model's own attention over dense tensors; there is none for pages."""
    if paged is not None:
        raise folio_kv.Unsupported(f"continuous batching: {reporting.reason(module)}")
    query, key, value = (stored(x) for x in (query, key, value))
    mask = None if mask is None else stored(mask)
    if _is_packed(options):
        pattern = Pattern(right=-1)
        if mask is None:
            window = options.get("sliding_window")
            left = -1 if window is None else window - 1
            pattern = Pattern(left, 0 if is_causal(module, options) else left)
        packed = _mask_of_packed(query, key.shape[2], options, pattern)
        mask = packed if mask is None else _joined(mask, packed)
    options = {name: option for name, option in options.items() if name not in OF_PACKED}
    return stock_attention(module)(module, query, key, value, mask, **options)
