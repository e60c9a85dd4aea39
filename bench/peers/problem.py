# SPDX-License-Identifier: Apache-2.0
"""The numbers of a shape, the same in every process, and what attention over them is in double."""

from __future__ import annotations

import math

import torch

from shapes import Shape

MOST_COPIES = 512
SAMPLED_SEQUENCES, SAMPLED_TOKENS = 4, 8


class Problem:
    """q, and K and V of each sequence; the copies of them that a contender keeps in its cache.

    Decode rotates through copies on pages of their own, so that none is still in a processor's cache
    when its turn comes again. Sequences share one draw: rolled along tokens and columns, so that a
    contender which mixes them up gives other numbers. What a shape shares is the first sequence's.
    """

    def __init__(self, shape: Shape, rotate_bytes: int) -> None:
        self.shape = shape
        generator = torch.Generator().manual_seed(20261122)

        def random(*extents: int) -> torch.Tensor:
            return torch.randn(extents, generator=generator).to(torch.bfloat16)

        self.q = random(shape.tokens, shape.q_heads, shape.head_size)
        self._key = random(shape.context, shape.kv_heads, shape.head_size)
        self._value = None
        if not shape.is_latent:
            self._value = random(shape.context, shape.kv_heads, shape.v_head_size)
        self.scale = 1 / math.sqrt(shape.head_size)
        self.copies = self.dense_copies = 1  # in pages; without them, of every sequence by itself
        if shape.kind != "prefill":
            of_pages = shape.cache_bytes * shape.distinct_tokens // (shape.batch * shape.context)
            self.copies = max(1, min(MOST_COPIES, -(-rotate_bytes // of_pages)))
            self.dense_copies = max(1, min(MOST_COPIES, -(-rotate_bytes // shape.cache_bytes)))

    def key(self, sequence: int) -> torch.Tensor:
        """[context, kv_heads, head_size] bf16."""
        rows = self._key.roll((37 * sequence, sequence), (0, -1))
        return torch.cat([self._key[: self.shape.shared], rows[self.shape.shared :]])

    def value(self, sequence: int) -> torch.Tensor:
        """[context, kv_heads, v_head_size] bf16; of a latent cache a part of `key`."""
        if self._value is None:
            return self.key(sequence)[..., : self.shape.v_head_size]
        rows = self._value.roll(sequence, -1)
        return torch.cat([self._value[: self.shape.shared], rows[self.shape.shared :]])

    def all_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of all sequences one after the other: [batch * context, kv_heads, ...]."""
        every = range(self.shape.batch)
        return torch.cat([self.key(b) for b in every]), torch.cat([self.value(b) for b in every])

    def own_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The same without what a sequence shares with the first: [distinct tokens, kv_heads, ...]."""
        every = range(self.shape.batch)
        key = torch.cat([self.key(b)[self._own_begin(b) :] for b in every])
        return key, torch.cat([self.value(b)[self._own_begin(b) :] for b in every])

    def own_offsets(self) -> torch.Tensor:
        """int32 [batch + 1] where each sequence's own rows begin."""
        counts = [self.shape.context - self._own_begin(b) for b in range(self.shape.batch)]
        return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)

    def _own_begin(self, sequence: int) -> int:
        return 0 if sequence == 0 else self.shape.shared

    def new_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of the new tokens alone: [tokens, kv_heads, ...]."""
        every, new = range(self.shape.batch), self.shape.new
        key = torch.cat([self.key(b)[-new:] for b in every])
        return key, torch.cat([self.value(b)[-new:] for b in every])

    def num_pages(self, page_size: int) -> int:
        """Of all copies."""
        shape, pages = self.shape, -(-self.shape.context // page_size)
        return self.copies * (shape.batch * pages - (shape.batch - 1) * (shape.shared // page_size))

    def table(self, page_size: int) -> torch.Tensor:
        """int32 [copies, batch, pages of a sequence]: every page once, shared ones in each row, in
        random order."""
        shape, pages = self.shape, -(-self.shape.context // page_size)
        shared = shape.shared // page_size
        generator = torch.Generator().manual_seed(page_size)
        ids = torch.randperm(self.num_pages(page_size), generator=generator).to(torch.int32)
        ids = ids.reshape(self.copies, -1)
        prompt = ids[:, :shared].unsqueeze(1).expand(-1, shape.batch, -1)
        rest = ids[:, shared:].reshape(self.copies, shape.batch, pages - shared)
        return torch.cat([prompt, rest], dim=2)

    def slots(self, table: torch.Tensor, page_size: int, last: int | None = None) -> torch.Tensor:
        """int64 page * page_size + offset of the `last` (all) tokens of each row of a copy's table."""
        offsets = torch.arange(page_size)
        slots = (table.long().unsqueeze(-1) * page_size + offsets).flatten(1)
        return slots[
            :, self.shape.context - (last or self.shape.context) : self.shape.context
        ].flatten()

    def own_slots(self, table: torch.Tensor, page_size: int) -> torch.Tensor:
        """int64 slots of `own_rows` in a copy's table."""
        rows = self.slots(table, page_size).view(self.shape.batch, -1)
        return torch.cat([row[self._own_begin(b) :] for b, row in enumerate(rows)])

    def query_offsets(self) -> torch.Tensor:
        return torch.arange(0, self.shape.tokens + 1, self.shape.new, dtype=torch.int32)

    def lengths(self) -> torch.Tensor:
        return torch.full((self.shape.batch,), self.shape.context, dtype=torch.int32)

    def sampled_rows(self) -> list[int]:
        """Rows of q that are compared with the reference."""
        shape = self.shape
        sequences = spread(shape.batch, SAMPLED_SEQUENCES)
        return [b * shape.new + i for b in sequences for i in spread(shape.new, SAMPLED_TOKENS)]

    def reference(self) -> torch.Tensor:
        """float64 [sampled rows, q_heads, v_head_size]."""
        shape, rows, key, held = self.shape, [], None, -1
        for row in self.sampled_rows():
            sequence, token = divmod(row, shape.new)
            if sequence != held:
                held = sequence
                key, value = self.key(sequence).double(), self.value(sequence).double()
            visible = shape.context - shape.new + token + 1
            q = self.q[row].double().view(shape.kv_heads, -1, shape.head_size)
            logits = torch.einsum("hgd,nhd->hgn", q, key[:visible]) * self.scale
            weights = logits.softmax(-1)
            out = torch.einsum("hgn,nhe->hge", weights, value[:visible])
            rows.append(out.reshape(shape.q_heads, shape.v_head_size))
        return torch.stack(rows)


def spread(count: int, most: int) -> list[int]:
    """Up to `most` of range(count), the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [i * (count - 1) // (most - 1) for i in range(most)]


def relative_rms(got: torch.Tensor, want: torch.Tensor) -> float:
    """Root of the mean square of the error, over that of what is right; infinite if not finite."""
    error = ((got.double() - want).square().mean() / want.square().mean()).sqrt().item()
    return error if math.isfinite(error) else math.inf
