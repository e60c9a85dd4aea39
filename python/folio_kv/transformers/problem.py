# SPDX-License-Identifier: Apache-2.0
"""What a call of transformers' attention interface asks for: the kind of layer, and arguments as
folio takes them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

import folio_kv

from .masks import Pattern, Sight, sight_of

__all__ = [
    "Ask",
    "NotServed",
    "as_tokens",
    "expect_inference",
    "expect_no_gradient",
    "is_causal",
    "kind_of",
    "refusal",
    "sinks_of",
    "stock_attention",
]

FLOATS = (torch.float32, torch.bfloat16, torch.float16)

# Options of a call that say what attention is: read here, or by `attention` (packed sequences).
READ = frozenset(
    "cu_seq_lens_k cu_seq_lens_q dropout indices is_causal max_length_k max_length_q "
    "output_attentions position_bias s_aux scaling sinks sliding_window softcap".split()
)
# What models hand on that is for others, or says what mask and cache say, too.
NOT_FOR_ATTENTION = frozenset(
    "cache_position encoder_hidden_states labels logits_to_keep num_items_in_batch "
    "output_hidden_states output_router_logits position_ids return_dict seq_idx use_cache".split()
)
# What a batch of continuous batching has beside them: `continuous` reads it, and its sampling.
OF_BATCH = frozenset(
    "block_table logits_indices logits_processor_args read_index write_index".split()
)
KNOWN = READ | NOT_FOR_ATTENTION | OF_BATCH


class NotServed(Exception):
    """Why folio does not serve a call: it goes to the model's stock function."""


@dataclass
class Ask:
    """One call: shapes of the tensors, options, and what the queries see."""

    batch: int
    heads: int
    queries: int
    scale: float | None
    softcap: float | None
    sight: Sight
    sinks: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    lists: torch.Tensor | None = None  # [batch, queries, count] the only keys that a query sees
    slots: torch.Tensor | None = None  # the same as slots of pages, or for each KV head
    missed: torch.Tensor | None = None  # of what the slots leave out, where that is watched

    @classmethod
    def read(
        cls,
        module: Any,
        query: torch.Tensor,
        keys: int,
        mask: torch.Tensor | None,
        options: dict[str, Any],
    ) -> Ask:
        """Errors: NotServed, with the reason."""
        expect_inference(query, options)
        batch, heads, queries, _ = query.shape
        causal = is_causal(module, options)
        sight = sight_of(mask, batch, queries, keys, causal, options.get("sliding_window"))
        parts = (
            sight.bias,
            _bias(options.get("position_bias"), batch, queries, keys),
        )
        given = [part for part in parts if part is not None]
        bias = sum(given[1:], given[0]) if given else None
        sinks = sinks_of(options, batch, heads, queries)
        return cls(
            batch,
            heads,
            queries,
            options.get("scaling"),
            options.get("softcap"),
            sight,
            sinks,
            bias,
            options.get("indices"),
        )

    def with_lists_as_bias(self, keys: int) -> Ask:
        """The same, where keys that no list has are hidden."""
        lists = getattr(self.lists, "keys", self.lists)
        hidden = _selection(lists, self.batch, self.queries, keys)
        if hidden is None:
            return self
        return replace(self, lists=None, bias=hidden if self.bias is None else hidden + self.bias)


def is_causal(module: Any, options: dict[str, Any]) -> bool:
    """What the call says, or else its module."""
    given = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if given is None else given)


def expect_inference(query: torch.Tensor, options: dict[str, Any]) -> None:
    """Errors: NotServed for what folio does not compute, or does not know."""
    if query.device.type != "cpu":
        raise NotServed(f"tensors are on {query.device}, folio serves the CPU")
    if query.dtype not in FLOATS:
        raise NotServed(f"queries are {query.dtype}")
    if options.get("dropout"):
        raise NotServed("dropout is on")
    if options.get("output_attentions"):
        raise NotServed("attention weights are asked for (output_attentions)")
    for name in options.keys() - KNOWN:
        if options[name] is not None:
            raise NotServed(f"folio does not know the option {name}")


def expect_no_gradient(*operands: Any) -> None:
    """Errors: NotServed where autograd follows one of the tensors among them."""
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in operands):
        raise NotServed("gradients are recorded (use torch.no_grad() or torch.inference_mode())")


def _bias(bias: torch.Tensor | None, batch: int, queries: int, keys: int) -> torch.Tensor | None:
    """[batch or 1, heads or 1, queries, >= keys] -> float32 [heads or 1, batch * queries, keys]."""
    if bias is None:
        return None
    if bias.dim() != 4 or bias.shape[2] not in (1, queries) or bias.shape[3] < keys:
        raise NotServed(
            f"position_bias of shape {tuple(bias.shape)} for {queries} queries and {keys} keys"
        )
    bias = bias[..., :keys].expand(batch, -1, queries, -1)
    return (
        bias.float().permute(1, 0, 2, 3).reshape(bias.shape[1], batch * queries, keys).contiguous()
    )


def _selection(
    indices: torch.Tensor | None, batch: int, queries: int, keys: int
) -> torch.Tensor | None:
    """The only keys that each query may see, [batch, queries, count]: a bias [1, batch * queries,
    keys] that hides others.
    """
    if indices is None:
        return None
    if indices.dim() != 3 or indices.shape[:2] != (batch, queries):
        raise NotServed(f"indices of shape {tuple(indices.shape)} for {batch} x {queries} queries")
    indices = indices.reshape(1, batch * queries, -1).long()
    hidden = torch.full((1, batch * queries, keys + 1), -torch.inf)
    return hidden.scatter_(2, torch.where(indices < 0, keys, indices), 0.0)[..., :keys]


def sinks_of(options: dict[str, Any], batch: int, heads: int, queries: int) -> torch.Tensor | None:
    """The sink logits of a call, under either of the names that models use: [heads], or
    [batch * queries, heads] where each query has its own.
    """
    given = options.get("s_aux")
    given = options.get("sinks") if given is None else given
    if given is None:
        return None
    sinks = given.detach() if given.dtype in FLOATS else given.detach().float()
    if sinks.numel() == heads:
        return sinks.flatten().contiguous()
    if sinks.shape != (batch, heads, queries, 1):
        raise NotServed(
            f"sinks of shape {tuple(sinks.shape)}: expected one for each of {heads} query heads"
        )
    return sinks[..., 0].transpose(1, 2).reshape(batch * queries, heads).contiguous()


def as_tokens(x: torch.Tensor) -> torch.Tensor:
    """[batch, heads, length, dim] -> [batch * length, heads, dim]: a view where the strides allow
    one.
    """
    if x.shape[0] == 1:
        return x[0].transpose(0, 1)
    return x[:, :, 0] if x.shape[2] == 1 else x.transpose(1, 2).flatten(0, 1)


_kinds: dict[Any, Any] = {}
_lock = threading.Lock()


def kind_of(
    heads: int,
    scale: float | None,
    softcap: float | None,
    pattern: Pattern,
    v_in_key: int | None = None,
    int8_operands: bool = False,
) -> Any:
    """The Kind of these options: one object for all layers that ask for the same."""
    key = (heads, scale, softcap, pattern, v_in_key, int8_operands)
    with _lock:
        if key not in _kinds:
            causal = pattern.right == 0
            window = (
                None if pattern.left < 0 and pattern.right <= 0 else (pattern.left, pattern.right)
            )
            _kinds[key] = folio_kv.Kind(
                heads,
                scale=scale,
                softcap=softcap,
                window=window,
                chunk=pattern.chunk or None,
                causal=causal,
                v_in_key=v_in_key,
                int8_operands=int8_operands,
            )
        return _kinds[key]


_refusals: dict[Any, str | None] = {}


def refusal(kind: Any, pages: Any, ask: Ask, dtype: torch.dtype, formats: str = "") -> str | None:
    """Why no kernel serves the call, or None; asked once for each kind of call. formats: what else
    there is to say of the pages' rows than their dtypes.
    """
    geometry = (
        pages.page_size,
        pages.kv_heads,
        pages.head_size,
        pages.v_head_size,
        pages.dtype,
        pages.v_dtype,
    )
    options: dict[str, Any] = {
        "q_dtype": dtype,
        "bias": ask.bias is not None,
        "intervals": ask.sight.visible is not None,
        "selected": ask.slots is not None,
        "selected_per_head": ask.slots is not None and ask.slots.dim() == 3,
    }
    if ask.sinks is not None:
        per_query = ask.sinks.dim() == 2
        options |= {"sinks": True, "sinks_per_query": per_query, "sinks_dtype": ask.sinks.dtype}
    key = (kind, geometry, formats, *options.values())
    if key not in _refusals:
        _refusals[key] = folio_kv.why_not(kind, pages, **options)
    return _refusals[key]


def stock_attention(module: Any) -> Callable:
    """The model's own eager attention, or torch's."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    for kind in type(module).__mro__:
        found = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
        if found is not None:
            return found
    return sdpa_attention_forward
