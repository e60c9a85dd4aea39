# SPDX-License-Identifier: Apache-2.0
"""The attention function that transformers calls for our names.

Three sources of keys and values: the pages of a FolioCache (described tensors: append and attend in
one call), the pages of transformers' continuous batching (`continuous`), and dense tensors [batch,
heads, keys, dim] as no cache or any other cache gives them, which are read in place as ragged rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import torch

import folio_kv

from . import latent, reporting
from .continuous import attend_paged, in_generation_loop
from .described import Described
from .problem import Ask, NotServed, as_tokens, is_causal, kind_of, refusal, stock_attention
from .rows import CachedRows

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
    if cache is None and in_generation_loop():
        raise NotImplementedError(
            f"continuous batching: {type(module).__name__} does not hand transformers' paged cache "
            "to its attention"
        )
    try:
        if cache is not None:
            out = attend_paged(module, query, key, value, cache, options)
        else:
            out = _attend(module, query, key, value, attention_mask, options)
        reporting.served(module)
        return out, None
    except NotServed as reason:
        reporting.not_served(module, str(reason))
    return _stock(module, query, key, value, attention_mask, cache, options)


def _attend(
    module: Any, query: Any, key: Any, value: Any, mask: Any, options: dict[str, Any]
) -> torch.Tensor:
    if isinstance(query, Described):
        query = query.dense()
    if options.get("cu_seq_lens_q") is not None and mask is None:
        return _packed(module, query, key, value, options)
    if isinstance(key, CachedRows) and mask is not None and mask.shape[-1] < key.shape[2]:
        raise folio_kv.Error(
            f"attention_mask: expected at least {key.shape[2]} keys, as the cache has, "
            f"got {tuple(mask.shape)}"
        )
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
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern)
    return _over_pages(ask, kind, query, key).unflatten(0, (ask.batch, ask.queries))


def _over_pages(ask: Ask, kind: Any, query: torch.Tensor, key: CachedRows) -> torch.Tensor:
    layer, length = key.layer, key.shape[2]
    why = refusal(kind, layer.planes.pages, ask, query.dtype)
    if why is not None:
        raise NotServed(why)
    pages, rows = layer.planes.pages, query if query.dim() == 3 else as_tokens(query)
    if layer.pending is not None and layer.pending[0].shape[2] != ask.queries:
        layer.flush()  # cross attention: other new keys than queries
    new = layer.take_pending() if length == layer.length else None
    step = layer.owner.step(length - ask.queries, ask.queries, ask.sight)
    if new is None:
        return step.attend(kind, pages, rows, bias=ask.bias, sinks=ask.sinks)
    return step(kind, pages, rows, *new, bias=ask.bias, sinks=ask.sinks)


def _latent(ask: Ask, query: torch.Tensor, key: latent.ExpandedRows) -> torch.Tensor:
    """Keys and values that are expanded from latent rows: attention over the rows themselves."""
    latents, maps = key.latents, key.maps
    rank = latents.shape[-1]
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


def _packed(module: Any, query: Any, key: Any, value: Any, options: dict[str, Any]) -> torch.Tensor:
    """Sequences side by side in one row of the batch, as flash attention's variable-length form
    gives them.
    """
    lengths = options["cu_seq_lens_q"], options["cu_seq_lens_k"]
    if query.shape[0] != 1:
        raise NotServed(f"cu_seq_lens_q with a batch of {query.shape[0]}")
    offsets, starts = (x.to("cpu", torch.int32) for x in lengths)
    ask = Ask.read(module, query, key.shape[2], None, options)
    pages = folio_kv.Pages.ragged(as_tokens(stored(key)), as_tokens(stored(value)))
    kind = kind_of(ask.heads, ask.scale, ask.softcap, ask.sight.pattern)
    why = refusal(kind, pages, ask, query.dtype)
    if why is not None:
        raise NotServed(why)
    step = folio_kv.Step(offsets, starts.diff(), starts[:-1, None].contiguous())
    return step.attend(kind, pages, as_tokens(query), bias=ask.bias, sinks=ask.sinks)[None]


def _mask_of_packed(query: Any, options: dict[str, Any], causal: bool) -> torch.Tensor:
    """The mask that packed sequences need where attention does not know of them."""
    q_ends, k_ends = (options[name][1:].cpu() for name in ("cu_seq_lens_q", "cu_seq_lens_k"))
    q_at, k_at = torch.arange(int(q_ends[-1])), torch.arange(int(k_ends[-1]))
    of_q, of_k = (
        torch.searchsorted(x, at, right=True) for x, at in ((q_ends, q_at), (k_ends, k_at))
    )
    seen = of_q[:, None] == of_k
    if causal:
        seen = seen & (k_at - k_ends[of_k] <= (q_at - q_ends[of_q])[:, None])
    hidden = torch.zeros(seen.shape, dtype=query.dtype)
    return hidden.masked_fill_(~seen, torch.finfo(query.dtype).min)[None, None].to(query.device)


def _stock(
    module: Any, query: Any, key: Any, value: Any, mask: Any, cache: Any, options: dict[str, Any]
) -> Any:
    """The model's own attention over dense tensors."""
    if cache is not None:
        raise NotImplementedError(f"continuous batching: {reporting.reason(module)}")
    query, key, value = (stored(x) for x in (query, key, value))
    if mask is not None:
        mask = stored(mask)
    elif options.get("cu_seq_lens_q") is not None:
        mask = _mask_of_packed(query, options, is_causal(module, options))
    options = {
        name: option
        for name, option in options.items()
        if not name.startswith(("cu_seq_lens", "max_length"))
    }
    return stock_attention(module)(module, query, key, value, mask, **options)
