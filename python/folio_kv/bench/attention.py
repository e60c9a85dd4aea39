# SPDX-License-Identifier: Apache-2.0
"""Attention of one layer: folio over scattered pages, SDPA as engines call it and as they should.

    folio             a Step made and planned anew in each call, pages of 16 tokens
    sdpa as called    an engine on a paged cache: gathers each sequence's pages into a padded batch,
                      repeats K and V for each q head, and builds a mask
    sdpa dense        K and V lie dense already and nothing is gathered or padded: a call for each
                      sequence, enable_gqa, no mask where none is needed
    sdpa folded       decode alone: as dense, q heads of a KV head as rows of one matrix

All give the same numbers, which is checked before anything is timed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
import torch.nn.functional as F

import folio_kv

from .timing import Row, medians

PAGE_SIZE = 16
Q_HEADS, KV_HEADS = 32, 8
_SECONDS = 4.0  # of a case, all contestants together


@dataclasses.dataclass(frozen=True)
class Case:
    """New tokens and context (new tokens included) of each sequence."""

    name: str
    new: tuple[int, ...]
    contexts: tuple[int, ...]
    head_size: int = 128


def cases() -> Iterator[Case]:
    """Decode, prefill and mixed batches."""
    for context in 1024, 8192, 32768:
        for batch in 1, 8:
            yield Case(f"decode, {batch} of {context:,}", (1,) * batch, (context,) * batch)
    yield Case("decode, 8 of 8,192, heads of 64", (1,) * 8, (8192,) * 8, 64)
    yield Case("decode, one of 32,768 among 7 of 512", (1,) * 8, (32768, *(512,) * 7))
    for new in 1024, 8192:
        yield Case(f"prefill, {new:,} tokens", (new,), (new,))
    lengths = (4096, 2048, 512, 64)
    yield Case("prefill, ragged: 4,096, 2,048, 512, 64", lengths, lengths)
    for context in 1024, 8192, 32768:
        yield Case(f"chunk of 512 up to {context:,}", (512,), (context,))
        name = f"mixed, chunk of 512 and 7 decoding at {context:,}"
        yield Case(name, (512, *(1,) * 7), (context,) * 8)


class Problem:
    """The arrays of a case, the same numbers for every contestant."""

    def __init__(self, case: Case) -> None:
        generator = torch.Generator().manual_seed(0)

        def random(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(torch.bfloat16)

        self.new, self.contexts = case.new, case.contexts
        counts = [-(-context // PAGE_SIZE) for context in case.contexts]
        pages = sum(counts)
        self.key = random(pages, PAGE_SIZE, KV_HEADS, case.head_size)
        self.value = random(pages, PAGE_SIZE, KV_HEADS, case.head_size)
        ids = torch.randperm(pages, generator=generator).to(torch.int32).split(counts)
        self.table = torch.full((len(counts), max(counts)), -1, dtype=torch.int32)
        for row, own in zip(self.table, ids):
            row[: own.numel()] = own
        self.q = random(sum(case.new), Q_HEADS, case.head_size)
        self.offsets = torch.tensor([0, *case.new]).cumsum(0).to(torch.int32)
        self.lengths = torch.tensor(case.contexts, dtype=torch.int32)
        self.is_decode = set(case.new) == {1}

    def folio(self):
        """One call of a layer, planning included."""
        pages, kind = folio_kv.Pages(self.key, self.value), folio_kv.Kind(Q_HEADS)
        out = torch.empty_like(self.q)

        def call() -> torch.Tensor:
            step = folio_kv.Step(self.offsets, self.lengths, self.table)
            return step.attend(kind, pages, self.q, out=out)

        return call

    def sdpa_as_called(self):
        """Gather, pad, repeat, mask: all sequences at once where they have as many new tokens."""
        if len(set(self.new)) == 1:
            groups = [slice(0, len(self.new))]
        else:
            groups = [slice(b, b + 1) for b in range(len(self.new))]
        calls = [self._padded(group) for group in groups]
        return lambda: torch.cat([call() for call in calls])

    def _padded(self, group: slice):
        """SDPA over sequences with as many new tokens each, the shorter contexts padded."""
        new, contexts = self.new[group][0], torch.tensor(self.contexts[group])
        longest = int(contexts.max())
        columns = self.table[group, : -(-longest // PAGE_SIZE)].clamp(min=0).long()
        rows = self.q[int(self.offsets[group.start]) : int(self.offsets[group.stop])]
        query_at = torch.arange(new) + (contexts - new).unsqueeze(1)

        def gathered(cache: torch.Tensor) -> torch.Tensor:
            dense = cache[columns].flatten(1, 2)[:, :longest].transpose(1, 2)
            return dense.repeat_interleave(Q_HEADS // KV_HEADS, dim=1)

        def call() -> torch.Tensor:
            q = rows.view(-1, new, *rows.shape[1:]).transpose(1, 2)
            mask = (torch.arange(longest) <= query_at.unsqueeze(2)).unsqueeze(1)
            key, value = gathered(self.key), gathered(self.value)
            out = F.scaled_dot_product_attention(q, key, value, attn_mask=mask)
            return out.transpose(1, 2).flatten(0, 1)

        return call

    def _dense(self) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Each sequence's q, K and V as [1, heads, tokens, dim]."""
        dense = []
        for q, row, context in zip(self.q.split(self.new), self.table, self.contexts):
            own = row[row >= 0].long()
            kv = [
                cache[own].flatten(0, 1)[:context].transpose(0, 1).contiguous().unsqueeze(0)
                for cache in (self.key, self.value)
            ]
            dense.append((q.transpose(0, 1).unsqueeze(0), *kv))
        return dense

    def sdpa_dense(self):
        """Nothing to gather: the best a caller without pages can do with one call a sequence."""
        dense = self._dense()
        masks = [
            torch.ones(new, context, dtype=torch.bool).tril(context - new)
            if 1 < new < context
            else None
            for new, context in zip(self.new, self.contexts)
        ]
        if len(set(self.contexts)) == 1 and len(set(self.new)) == 1:
            dense = [tuple(torch.cat(parts) for parts in zip(*dense))]
            masks = masks[:1]

        def call() -> torch.Tensor:
            out = [
                F.scaled_dot_product_attention(
                    q, k, v, attn_mask=mask, is_causal=mask is None and q.shape[2] > 1,
                    enable_gqa=True,
                ).transpose(1, 2)
                for (q, k, v), mask in zip(dense, masks)
            ]  # fmt: skip
            return torch.cat([rows.flatten(0, 1) for rows in out])

        return call

    def sdpa_folded(self):
        """Each K row is read once for all q heads of its group."""
        dense = self._dense()
        if len(set(self.contexts)) == 1:
            dense = [tuple(torch.cat(parts) for parts in zip(*dense))]

        def call() -> torch.Tensor:
            out = []
            for q, k, v in dense:
                rows = q.reshape(q.shape[0], KV_HEADS, Q_HEADS // KV_HEADS, q.shape[3])
                out.append(F.scaled_dot_product_attention(rows, k, v).reshape(q.shape[0], -1))
            return torch.cat(out).view(self.q.shape)

        return call

    def contestants(self):
        """By name; all give q's shape."""
        calls = {
            "folio": self.folio(),
            "sdpa as called": self.sdpa_as_called(),
            "sdpa dense": self.sdpa_dense(),
        }
        return calls | ({"sdpa folded": self.sdpa_folded()} if self.is_decode else {})


def run(longest: int) -> Iterator[Row]:
    """Times the cases up to this context; microseconds for all tokens of the batch, one layer."""
    for case in cases():
        if max(case.contexts) > longest:
            continue
        problem = Problem(case)
        calls = problem.contestants()
        want = calls["sdpa dense"]().float()
        for name, call in calls.items():
            difference = float((call().float() - want).abs().max())
            if difference > 0.05:
                raise RuntimeError(f"{case.name}: {name} is off by {difference}")
        times = medians(calls, _SECONDS)
        values = {name: seconds * 1e6 for name, seconds in times.items()}
        yield Row("attention", case.name, "us", values)
