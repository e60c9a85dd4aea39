# SPDX-License-Identifier: Apache-2.0
"""One attention call of flash-attn's shape: what is the same for dense, packed and paged keys."""

from __future__ import annotations

import dataclasses
import functools

import torch

from .. import Kind, Pages, Step
from .._compat import check_no_gradient, check_tensor, kind, refuse, wrong

Window = tuple[int | None, int | None]


@dataclasses.dataclass
class Rows:
    """Which queries see which keys: what a Step is made from."""

    offsets: list[int]  # [batch + 1]
    contexts: list[int]  # [batch]
    table: torch.Tensor  # [batch, columns] int32

    def step(self) -> Step:
        return Step(self.offsets, self.contexts, self.table)

    def of(self, b: int) -> Rows:
        """Sequence b alone."""
        tokens = self.offsets[b + 1] - self.offsets[b]
        return Rows([0, tokens], self.contexts[b : b + 1], self.table[b : b + 1])


@dataclasses.dataclass
class Call:
    """The options of one call, checked."""

    function: str
    kind: Kind
    slopes: torch.Tensor | None = None  # [nheads], or [batch, nheads]: every sequence its own
    sinks: torch.Tensor | None = None

    def run(
        self, rows: Rows, pages: Pages, q: torch.Tensor, wants_lse: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """out [tokens, nheads, v_dim] and lse [tokens, nheads] or None, of q [tokens, ..]."""
        out = torch.empty(q.shape[0], q.shape[1], pages.v_head_size, dtype=q.dtype)
        lse = torch.empty(q.shape[0], q.shape[1], dtype=torch.float32) if wants_lse else None
        if self.slopes is None or self.slopes.dim() == 1:
            rows.step().attend(
                self.kind, pages, q, sinks=self.sinks, alibi=self.slopes, out=out, lse=lse
            )
            return out, lse
        for b, slopes in enumerate(self.slopes):
            own = slice(rows.offsets[b], rows.offsets[b + 1])
            rows.of(b).step().attend(
                self.kind,
                pages,
                q[own],
                sinks=self.sinks,
                alibi=slopes,
                out=out[own],
                lse=lse[own] if lse is not None else None,
            )
        return out, lse


def prepare(
    function: str,
    q: torch.Tensor,
    batch: int,
    *,
    softmax_scale: float | None,
    causal: bool,
    window: tuple[int, int],
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    s_aux: torch.Tensor | None,
    reproducible: str = "plan",
) -> Call:
    """Checks what all functions take; q's dimension -2 is its heads."""
    heads = q.shape[-2]
    if softcap < 0:
        raise wrong(function, "softcap", "0 (off) or more", softcap)
    check_no_gradient(function, alibi_slopes, s_aux)
    left, right = window
    if causal:
        right = 0
    chosen = kind(
        heads,
        scale=None if softmax_scale is None else float(softmax_scale),
        softcap=float(softcap) or None,
        window=(left, right) if (left, right) not in ((-1, -1), (-1, 0)) else None,
        causal=right == 0,
        reproducible=reproducible,
    )
    slopes = None
    if alibi_slopes is not None:
        per_sequence = isinstance(alibi_slopes, torch.Tensor) and alibi_slopes.dim() == 2
        shape = [batch, heads] if per_sequence else [heads]
        check_tensor(function, "alibi_slopes", alibi_slopes, shape)
        slopes = alibi_slopes.to(torch.float32).contiguous()
    sinks = None
    if s_aux is not None:
        check_tensor(function, "s_aux", s_aux, [heads])
        sinks = s_aux.to(torch.float32).contiguous()
    return Call(function, chosen, slopes, sinks)


def window_of(function: str, window_size: Window) -> tuple[int, int]:
    """(left, right) keys beside a query's own; None, as -1, is without bound."""
    sides = tuple(-1 if side is None else int(side) for side in window_size)
    if len(sides) != 2 or min(sides) < -1:
        raise wrong(function, "window_size", "(left, right), each -1 or more or None", window_size)
    return sides


def refuse_dropout(function: str, dropout_p: float) -> None:
    if dropout_p != 0.0:
        raise refuse(function, "dropout_p", dropout_p, "folio serves inference; expected 0.0")


def check_longest(function: str, parameter: str, bound: object, lengths: list[int]) -> None:
    """flash-attn sizes its grid by the caller's maximum; a smaller one would lose tokens."""
    longest = max(lengths, default=0)
    if bound is not None and int(bound) < longest:
        raise wrong(function, parameter, f"the longest sequence, {longest}, or more", int(bound))


def even_offsets(batch: int, each: int) -> list[int]:
    """[0, each, 2 each, ..]: offsets of sequences of one length."""
    return [b * each for b in range(batch + 1)]


@functools.lru_cache(maxsize=64)
def pages_in_order(batch: int) -> torch.Tensor:
    """[batch, 1] int32: the table of a dense cache, whose page b is sequence b. Not for writing."""
    return torch.arange(batch, dtype=torch.int32).unsqueeze(1)


def dense_pages(k: torch.Tensor, v: torch.Tensor) -> Pages:
    """Of k, v [batch, seqlen, nheads_k, dim], a page for each sequence; no rows where seqlen is 0."""
    return Pages(k, v) if k.shape[1] else Pages.ragged(k.flatten(0, 1), v.flatten(0, 1))


def dense_lse(lse: torch.Tensor, batch: int) -> torch.Tensor:
    """[batch * seqlen, nheads] as flash-attn returns it: [batch, nheads, seqlen]."""
    return lse.view(batch, -1, lse.shape[1]).transpose(1, 2).contiguous()
