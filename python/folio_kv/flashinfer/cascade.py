# SPDX-License-Identifier: Apache-2.0
"""Joining attention over disjoint keys, with FlashInfer's logarithms in base 2."""

from __future__ import annotations

import math

import torch

from .. import merge
from .._compat import check_no_gradient, check_tensor

LN_2 = math.log(2.0)
LOG2_E = math.log2(math.e)


def merge_state(
    v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """v [tokens, heads, dim] and s [tokens, heads] (base 2) of the keys of a and b together.

    Where s_a or s_b is -inf, or +inf, as flash-attn 2 says of a query that sees no key, its v is not
    read. Returns new tensors, v in v_a's dtype, s in f32.
    """
    name = "merge_state"
    _check_state(name, ("v_a", v_a), ("s_a", s_a), v_a.shape)
    _check_state(name, ("v_b", v_b), ("s_b", s_b), v_a.shape)
    return _merged([v_a, v_b], [s_a, s_b])


def merge_states(v: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of v [tokens, states, heads, dim] and s [tokens, states, heads]: all states of each token."""
    check_tensor("merge_states", "v", v, ["tokens", "states", "heads", "dim"])
    check_tensor("merge_states", "s", s, list(v.shape[:3]))
    check_no_gradient("merge_states", v, s)
    if v.shape[1] == 0:  # nobody has seen a key
        tokens, _, heads, dim = v.shape
        return v.new_zeros(tokens, heads, dim), torch.full((tokens, heads), -math.inf)
    return _merged(list(v.unbind(1)), list(s.unbind(1)))


def merge_state_in_place(
    v: torch.Tensor,
    s: torch.Tensor,
    v_other: torch.Tensor,
    s_other: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> None:
    """merge_state into v and s; tokens whose `mask` [tokens] is False keep theirs."""
    name = "merge_state_in_place"
    _check_state(name, ("v", v), ("s", s), v.shape)
    _check_state(name, ("v_other", v_other), ("s_other", s_other), v.shape)
    merged_v, merged_s = _merged([v, v_other], [s, s_other])
    if mask is not None:
        check_tensor(name, "mask", mask, [v.shape[0]])
        keep = ~mask.to(torch.bool)
        merged_v[keep] = v[keep]
        merged_s[keep] = s[keep].to(merged_s.dtype)
    v.copy_(merged_v)
    s.copy_(merged_s)


def _merged(
    values: list[torch.Tensor], logs: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = merge(values, [(s.to(torch.float32) * LN_2).contiguous() for s in logs])
    return out, lse.mul_(LOG2_E)


def _check_state(
    function: str,
    v: tuple[str, torch.Tensor],
    s: tuple[str, torch.Tensor],
    shape: torch.Size,
) -> None:
    tokens, heads, dim = shape if len(shape) == 3 else ("tokens", "heads", "dim")
    check_tensor(function, *v, [tokens, heads, dim])
    check_tensor(function, *s, [tokens, heads])
    check_no_gradient(function, v[1], s[1])
