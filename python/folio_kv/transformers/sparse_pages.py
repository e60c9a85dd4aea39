# SPDX-License-Identifier: Apache-2.0
"""Sparse attention for models without an indexer: a query reads the pages whose keys could matter
most to it.

A cache with `SparsePages` keeps of each page of its layers the smallest and the largest number of
each channel of K. Those bound the logits of the page's keys, so that a query finds the best pages
without reading them. What it does not read is an error that the model was not trained for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

import folio_kv

from .masks import Pattern, Sight
from .problem import Ask, as_tokens
from .rows import CachedRows

__all__ = ["LeftOut", "SparsePages", "Watch", "read_option", "with_pages"]

MOST_PAGES = 4096  # of a list


@dataclass(frozen=True)
class SparsePages:
    """FolioCache's `sparse_pages`: which keys a query attends to.

    tokens: that a query reads, whole pages of the cache's page_size. first_pages, last_pages: are
    always among them. per_kv_head: pages of each KV head, instead of one list for all. score: of a
    page for the heads of a list, the "greatest" or the "sum" of theirs. dense_below: contexts of at
    most so many tokens are read whole, as those of at most `tokens` are in any case.

    Decode steps (one query a row) choose pages; a prompt is read whole, unless every_query.
    watched: `FolioCache.left_out` says by how much outputs can be wrong; it takes a little time.

    Errors: folio_kv.Error for numbers out of range.
    """

    tokens: int
    first_pages: int = 1
    last_pages: int = 1
    per_kv_head: bool = False
    score: str = "greatest"
    dense_below: int = 0
    every_query: bool = False
    watched: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("tokens", 1),
            ("first_pages", 0),
            ("last_pages", 1),  # the newest keys, a query's own among them
            ("dense_below", 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise folio_kv.Error(
                    f"sparse_pages: {name}: expected at least {least}, got {value!r}"
                )
        if self.score not in ("greatest", "sum"):
            raise folio_kv.Error(
                f"sparse_pages: score: expected 'greatest' or 'sum', got {self.score!r}"
            )

    def pages(self, page_size: int) -> int:
        """Pages of a list. Errors: folio_kv.Error."""
        count, always = self.tokens // page_size, self.first_pages + self.last_pages
        if not always <= count <= MOST_PAGES:
            raise folio_kv.Error(
                f"sparse_pages: tokens: expected {max(1, always)} to {MOST_PAGES} pages of "
                f"{page_size} tokens, got {self.tokens}"
            )
        return count


def read_option(given: SparsePages | int | None, page_size: int) -> SparsePages | None:
    """FolioCache's `sparse_pages`; a number is of tokens. Errors: folio_kv.Error."""
    if given is None:
        return None
    if not isinstance(given, (int, SparsePages)) or isinstance(given, bool):
        raise folio_kv.Error(
            f"sparse_pages: expected SparsePages or a number of tokens, got {given!r}"
        )
    options = SparsePages(given) if isinstance(given, int) else given
    options.pages(page_size)
    return options


@dataclass(frozen=True)
class LeftOut:
    """What queries did not read, of all layers that choose pages, since the cache was made.

    keys: read, of those that they saw. share: at most so much of a query's attention weights, summed
    over what it left out, on average over queries and heads; most: the greatest. No output of
    attention is further from the dense one than twice its share times the largest |v|.
    """

    queries: int
    keys: float
    share: float
    most: float


@dataclass
class Watch:
    """Sums of what LeftOut says."""

    queries: int = 0
    shares: int = 0
    read: int = 0
    seen: int = 0
    share: float = 0.0
    most: float = 0.0

    def note_keys(self, read: int, seen: int, queries: int) -> None:
        self.queries += queries
        self.read += read
        self.seen += seen

    def note_shares(self, missed: torch.Tensor, lse: torch.Tensor) -> None:
        """Logs [queries, heads] of the weights that were left out, at the most, and were not."""
        shares = torch.sigmoid(missed.double() - lse.double())
        shares.masked_fill_(missed == -torch.inf, 0.0)  # of queries that see nothing, too
        self.shares += shares.numel()
        self.share += float(shares.sum())
        self.most = max(self.most, float(shares.max()))

    def note_whole(self, queries: int, heads: int, seen: int) -> None:
        self.note_keys(seen, seen, queries)
        self.shares += queries * heads

    @property
    def left_out(self) -> LeftOut:
        return LeftOut(
            self.queries,
            self.read / max(1, self.seen),
            self.share / max(1, self.shares),
            self.most,
        )


def with_pages(ask: Ask, query: torch.Tensor, rows: CachedRows) -> Ask:
    """The same with lists of the pages that matter; as it is where pages are not chosen: contexts
    that are short, prompts, windows, masks with holes.
    """
    layer, length = rows.layer, rows.shape[2]
    options, planes = layer.owner.sparse_pages, layer.planes
    if options is None or planes is None or planes.summaries is None or ask.bias is not None:
        return ask
    sight = ask.sight
    if sight.visible is None and sight.pattern != Pattern():
        return ask
    if ask.queries > 1 and not options.every_query:
        return ask
    watch = layer.owner.watch if options.watched else None
    if watch is not None and ask.softcap:
        raise folio_kv.Unsupported(
            "sparse_pages: watched: bounds are of logits without a softcap, "
            f"this layer has {ask.softcap}"
        )
    if length <= max(options.tokens, options.dense_below):
        if watch is not None:
            watch.note_whole(ask.batch * ask.queries, ask.heads, _seen(ask, length))
        return ask
    layer.flush()
    step = layer.step(length - ask.queries, ask.queries, sight)
    tokens = query if query.dim() == 3 else as_tokens(query)
    found = step.select_pages(
        planes.pages,
        planes.summaries,
        step.rotate(tokens, pages=planes.pages) if planes.is_turned else tokens,
        k_pages=options.pages(planes.pages.page_size),
        first_pages=options.first_pages,
        last_pages=options.last_pages,
        per_kv_head=options.per_kv_head,
        score=options.score,
        scale=ask.scale,
        missed=watch is not None,
    )
    if watch is None:
        return replace(ask, slots=found, sight=Sight(Pattern(), length))
    slots, missed = found
    lists = slots.shape[1] if slots.dim() == 3 else 1
    watch.note_keys(int((slots >= 0).sum()) // lists, _seen(ask, length), ask.batch * ask.queries)
    return replace(ask, slots=slots, missed=missed, sight=Sight(Pattern(), length))


def _seen(ask: Ask, length: int) -> int:
    """Keys that the queries see, all together."""
    if ask.sight.visible is not None:
        begin, end = ask.sight.visible
        return int((end - begin).clamp(min=0).sum())
    first = length - ask.queries + 1
    return ask.batch * sum(range(first, length + 1))
