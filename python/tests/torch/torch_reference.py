# SPDX-License-Identifier: Apache-2.0
"""Attention in double precision, written for reading, and the caches that tests hide keys in."""

from __future__ import annotations

import dataclasses
import math

import torch

EPS = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One sequence: q [n, heads, dim], k [m, kv_heads, dim], v [m, kv_heads, v_dim].

    The last query stands at the last key. Returns out [n, heads, v_dim] and lse [n, heads], f64.
    """
    n, heads, dim = q.shape
    m, kv_heads, _ = k.shape
    scale = 1.0 / math.sqrt(dim) if scale is None else scale
    query_at = torch.arange(n).unsqueeze(1) + (m - n)
    key_at = torch.arange(m).unsqueeze(0)
    visible = torch.ones(n, m, dtype=torch.bool)
    if causal:
        visible &= key_at <= query_at
    if window[0] >= 0:
        visible &= key_at >= query_at - window[0]
    if window[1] >= 0:
        visible &= key_at <= query_at + window[1]
    if mask is not None:
        visible &= mask

    out = torch.zeros(n, heads, v.shape[2], dtype=torch.float64)
    lse = torch.full((n, heads), -math.inf, dtype=torch.float64)
    for head in range(heads):
        kv_head = head * kv_heads // heads
        logits = q[:, head].double() @ k[:, kv_head].double().T * scale
        if softcap:
            logits = softcap * torch.tanh(logits / softcap)
        if alibi is not None:
            logits = logits - alibi[head].double() * (query_at - key_at).abs()
        logits = logits.masked_fill(~visible, -math.inf)
        joined = logits
        if sinks is not None:
            joined = torch.cat([logits, sinks[head].double().expand(n, 1)], dim=1)
        lse[:, head] = torch.logsumexp(joined, dim=1) if joined.shape[1] else -math.inf
        seen = visible.any(dim=1)
        weights = torch.exp(logits[seen] - lse[seen, head].unsqueeze(1))
        out[seen, head] = weights @ v[:, kv_head].double()
    return out, lse


def rotate(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: list[int], interleaved: bool
) -> torch.Tensor:
    """x [tokens, heads, dim] turned by row positions[t] of cos, sin [rows, rotary_dim / 2]."""
    half = cos.shape[1]
    y = x.double().clone()
    for t, position in enumerate(positions):
        for i in range(half):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
            c, s = cos[position, i].double(), sin[position, i].double()
            y[t, :, a] = x[t, :, a].double() * c - x[t, :, b].double() * s
            y[t, :, b] = x[t, :, b].double() * c + x[t, :, a].double() * s
    return y


def assert_close(got: torch.Tensor, want: torch.Tensor, v: torch.Tensor) -> None:
    """out within what the dtype of `got` and of the weights allow, by V's largest number, and what
    float32 sums of logits do to weights, in whatever order a machine's kernel adds.
    """
    largest = max(1.0, float(v.double().abs().nan_to_num(0).max()))
    bound = (4 * EPS[got.dtype] + 8 * EPS[torch.float32]) * largest
    difference = (got.double() - want).abs().max() if got.numel() else torch.tensor(0.0)
    assert not torch.isnan(got).any(), "NaN in the output"
    assert float(difference) <= bound, f"off by {float(difference):.2e}, bound {bound:.2e}"


def assert_lse_close(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> None:
    """-inf at the same places, elsewhere within f32 sums of products of `dtype`."""
    assert got.dtype == torch.float32
    assert torch.equal(torch.isneginf(got), torch.isneginf(want))
    finite = torch.isfinite(want)
    bound = 1e-4 if dtype == torch.float32 else 2e-2
    difference = (got.double() - want)[finite].abs().max() if finite.any() else 0.0
    assert float(difference) <= bound


@dataclasses.dataclass
class Paged:
    """Sequences in permuted pages of a larger pool; whatever holds no key is NaN."""

    key: torch.Tensor  # [pages, page_size, kv_heads, dim]
    value: torch.Tensor
    table: torch.Tensor  # [batch, columns] int32, -1 behind each sequence's pages
    lengths: list[int]

    @property
    def page_size(self) -> int:
        return self.key.shape[1]

    def csr(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """FlashInfer's indptr, indices and last_page_len."""
        counts = [-(-length // self.page_size) for length in self.lengths]
        indptr = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
        indices = torch.cat([row[:count] for row, count in zip(self.table, counts)])
        last = [
            length - (count - 1) * self.page_size if count else 0
            for length, count in zip(self.lengths, counts)
        ]
        return indptr, indices.to(torch.int32), torch.tensor(last, dtype=torch.int32)


def paged(
    keys: list[torch.Tensor],
    values: list[torch.Tensor],
    page_size: int,
    *,
    room: int = 0,
    seed: int = 0,
) -> Paged:
    """Hides each sequence's keys [m, kv_heads, dim]; pages reach `room` tokens behind the last."""
    order = torch.Generator().manual_seed(seed)
    counts = [-(-(k.shape[0] + room) // page_size) for k in keys]
    total = sum(counts) + 3
    _, heads, dim = keys[0].shape
    v_dim = values[0].shape[2]
    key = torch.full((total, page_size, heads, dim), math.nan, dtype=keys[0].dtype)
    value = torch.full((total, page_size, heads, v_dim), math.nan, dtype=values[0].dtype)
    table = torch.full((len(keys), max(counts, default=0) + 2), -1, dtype=torch.int32)
    free = torch.randperm(total, generator=order).tolist()
    for b, (k, v) in enumerate(zip(keys, values)):
        for page in range(counts[b]):
            table[b, page] = free.pop()
        for t in range(k.shape[0]):
            at = int(table[b, t // page_size]), t % page_size
            key[at], value[at] = k[t], v[t]
    return Paged(key, value, table, [k.shape[0] for k in keys])


def random(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)
