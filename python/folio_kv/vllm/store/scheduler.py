# SPDX-License-Identifier: Apache-2.0
"""The scheduler's half of FolioConnector: what is loaded, and what is stored.

Blocks that are being stored are held as a request holds them (`BlockPool.touch`), so that nobody
writes to them whatever becomes of their request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from folio_kv.vllm.store.adapters import Adapters
from folio_kv.vllm.store.engine_store import EngineStore
from folio_kv.vllm.store.lookup import Hit, Lookup
from folio_kv.vllm.store.metadata import Blocks, LoadOrder, StepMetadata, StepResults

PREFILLED = "folio_prefilled_tokens"
"""In kv_transfer_params: so many tokens of the prompt a producer has lent."""


@dataclass
class _Request:
    """Of one that runs."""

    request: Any
    adapter: bytes | None
    """Stands for the weights of its adapter; None: they cannot be told, nothing is kept of it."""
    cursors: dict[int, int] = field(default_factory=dict)
    """group -> full blocks that have been looked at"""


class SchedulerHalf:
    """One thread calls: the scheduler's."""

    def __init__(
        self,
        store: EngineStore,
        roles: Any,
        kv_cache_config: Any,
        kv_cache_manager: Any,
        alone: Callable[[], bool],
    ) -> None:
        self._store = store
        self._manager = kv_cache_manager
        self._pool = kv_cache_manager.block_pool
        self._alone = alone
        groups = kv_cache_config.prefix_cacheable_group_ids
        all_groups = len(groups) == len(kv_cache_config.transfer_group_ids)
        self._loads_any = all_groups and roles.is_kv_consumer
        self._stores_any = all_groups and roles.is_kv_producer
        self._lookup = Lookup(kv_cache_manager, groups)
        self._reaches = store.reaches
        self._block_bytes = {g: arrays.page_bytes for g, (arrays, _) in store.arrays.items()}
        self._requests: dict[str, _Request] = {}
        self._hits: dict[str, Hit] = {}
        self._asked: dict[str, float] = {}
        self._loads: list[LoadOrder] = []
        self._loading: set[str] = set()
        self._cancelled: list[str] = []
        self._new: list[Blocks] = []
        self._adapters = Adapters()
        self._held: dict[int, list[Blocks]] = {}
        self._on_their_way: set[bytes] = set()
        self._held_bytes = 0
        self._next_store = 0

    # ---- loads

    def matched(self, request: Any, num_computed: int) -> tuple[int | None, bool]:
        """Tokens behind memory's that tiers have, and whether others run on meanwhile; None: to be
        asked again."""
        self._hits.pop(request.request_id, None)
        adapter = self._adapter_of(request)
        if not self._loads_any or adapter is None or request.skip_reading_prefix_cache:
            return 0, False
        if self._store.link is not None:
            self._store.link.look(self._store.below)

        def find(asked: list[tuple[int, list[bytes]]]) -> dict[int, list[tuple[bytes, int]]]:
            out = {}
            for group, hashes in asked:
                names = [self._store.names.of(h, group, adapter) for h in hashes]
                out[group] = list(zip(names, self._store.below.find_each(names), strict=True))
            return out

        hit = self._lookup.search(request, num_computed, find)
        if self._may_find_more(request, hit.tokens):
            return None, False
        tokens = hit.tokens - num_computed
        if tokens < self._store.configuration.min_load_tokens:
            return 0, False
        self._hits[request.request_id] = hit
        return tokens, not self._loads_in_step()

    def _may_find_more(self, request: Any, tokens: int) -> bool:
        """Redis is asked by the first search; a prefill elsewhere may not have been told of yet."""
        configuration = self._store.configuration
        given = (request.kv_transfer_params or {}).get(PREFILLED, 0)
        promised = given if isinstance(given, int) and self._store.link is not None else 0
        size = max(self._lookup.block_sizes.values())
        is_whole = tokens >= (request.num_tokens - 1) // size * size
        link = self._store.link
        if promised > tokens:
            patience_ms = configuration.load_timeout_ms
        elif link is not None and link.is_new and not is_whole:
            return True
        else:
            patience_ms = 0 if is_whole else self._store.find_wait_ms
        if patience_ms == 0:
            return False
        now = time.monotonic()
        return now < self._asked.setdefault(request.request_id, now) + patience_ms / 1000

    def _loads_in_step(self) -> bool:
        """Of such loads failures can be told by blocks only."""
        load = self._store.configuration.load
        if load == "between_steps" or not self._store.fails_by_blocks:
            return False
        return load == "layers" or self._alone()

    def allocated(self, request: Any, block_ids: tuple[list[int], ...], num_external: int) -> None:
        """The request has blocks: of what tiers have, too."""
        hit = self._hits.pop(request.request_id, None)
        self._asked.pop(request.request_id, None)
        known = self._requests.get(request.request_id)
        if known is None or num_external:
            known = _Request(request, self._adapter_of(request))
            self._requests[request.request_id] = known
        if not num_external or hit is None:
            return
        parts = []
        for group, found in hit.blocks.items():
            part = Blocks(group)
            for number, name, tier in found:
                block = block_ids[group][number]
                if block != self._pool.null_block.block_id:
                    part.names.append(name)
                    part.blocks.append(block)
                    part.tiers.append(tier)
            if part.names:
                parts.append(part)
        self._loads.append(LoadOrder(request.request_id, parts, self._loads_in_step()))
        self._loading.add(request.request_id)

    def sources(self, request: Any, num_external: int) -> dict[str, int]:
        """Tokens that are being loaded, by the label of the tier that has the leading group's."""
        order = next(o for o in reversed(self._loads) if o.request == request.request_id)
        tiers = order.parts[0].tiers
        labels = [self._store.below.tiers[tier][0] for tier in tiers]
        tokens = {label: num_external * labels.count(label) // len(labels) for label in labels}
        tokens[labels[-1]] += num_external - sum(tokens.values())
        return tokens

    # ---- stores

    def step(self, scheduler_output: Any) -> StepMetadata:
        """What the worker does in this step."""
        cached = scheduler_output.scheduled_cached_reqs
        computed = {r.req_id: r.num_computed_tokens for r in scheduler_output.scheduled_new_reqs}
        computed |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for request_id, new_tokens in scheduler_output.num_scheduled_tokens.items():
            known = self._requests.get(request_id)
            if known is not None and request_id in computed:
                self._store_full(known, computed[request_id] + new_tokens)
        metadata = StepMetadata(self._loads, {}, self._cancelled)
        if self._new:
            metadata.stores[self._next_store] = self._new
            self._held[self._next_store] = self._new
            self._next_store += 1
        self._loads, self._new, self._cancelled = [], [], []
        return metadata

    def _store_full(self, known: _Request, num_tokens: int) -> None:
        """Blocks that are full after this step, as far as a hit may need them."""
        if known.adapter is None or not self._stores_any:
            return
        ids = None
        for group, size in self._lookup.block_sizes.items():
            hashed = len(known.request.block_hashes) * self._lookup.hash_block_size // size
            full = min(num_tokens // size, hashed)
            begin = known.cursors.get(group, 0)
            if full <= begin:
                continue
            known.cursors[group] = full
            ids = ids or self._manager.get_block_ids(known.request.request_id)
            ends = self._ends_of(known.request, group)
            self._queue(known, group, ids[group], range(begin, full), ends)

    def _ends_of(self, request: Any, group: int) -> list[int] | None:
        """Where hits are likely to end, in tokens; None: all blocks are needed."""
        if self._reaches[group] is None:
            return None
        size = self._lookup.block_sizes[group]
        ends = [(request.num_prompt_tokens - 1) // size * size]
        interval = self._store.configuration.hit_interval
        if interval:
            interval = max(size, interval // size * size)
            ends += range(interval, request.num_tokens + 1, interval)
        return ends

    def _queue(
        self,
        known: _Request,
        group: int,
        ids: list[int],
        numbers: Iterable[int],
        ends: list[int] | None,
    ) -> None:
        if self._adapter_of(known.request) != known.adapter:
            return  # its weights may have changed meanwhile
        size, reach = self._lookup.block_sizes[group], self._reaches[group]
        scale = size // self._lookup.hash_block_size
        hashes = known.request.block_hashes
        part = Blocks(group)

        def name(number: int) -> bytes:
            block_hash = bytes(hashes[(number + 1) * scale - 1])
            return self._store.names.of(block_hash, group, known.adapter or b"")

        for number in numbers:
            if number >= len(ids):
                break
            block = self._pool.blocks[ids[number]]
            begin, end = number * size, (number + 1) * size
            is_needed = ends is None or any(begin < e and end > e - (reach or 0) for e in ends)
            if not is_needed or block.is_null or block.block_hash is None:
                continue
            part.names.append(name(number))
            part.blocks.append(block.block_id)
            part.parents.append(name(number - 1) if number > 0 else None)
        self._hold(part)

    def _hold(self, part: Blocks) -> None:
        """Takes those that are new, as far as the budget goes."""
        there = self._store.has_all(part.names) if part.names else []
        new = Blocks(part.group)
        size = self._block_bytes[part.group]
        for i, is_there in enumerate(there):
            if is_there or part.names[i] in self._on_their_way:
                continue
            if self._held_bytes + size > self._store.configuration.max_store_bytes:
                self._store.below.counts["unstored_pages"] += 1
                continue
            self._held_bytes += size
            self._on_their_way.add(part.names[i])
            self._pool.touch([self._pool.blocks[part.blocks[i]]])
            new.names.append(part.names[i])
            new.blocks.append(part.blocks[i])
            new.parents.append(part.parents[i])
        if new.names:
            self._new.append(new)

    def stored(self, results: StepResults | None) -> None:
        """Gives blocks back that nobody reads any more."""
        for number in results.stored if results else ():
            parts = self._held.pop(number)
            for part in parts:
                self._on_their_way.difference_update(part.names)
                self._held_bytes -= self._block_bytes[part.group] * len(part.blocks)
            blocks = [self._pool.blocks[block] for part in parts for block in part.blocks]
            self._pool.free_blocks(reversed(blocks))

    def finished(self, request: Any, block_ids: tuple[list[int], ...]) -> dict[str, Any] | None:
        """What who decodes is to be told."""
        known = self._requests.pop(request.request_id, None)
        self._hits.pop(request.request_id, None)
        self._asked.pop(request.request_id, None)
        if request.request_id in self._loading:
            self._cancelled.append(request.request_id)
        if known is None or known.adapter is None or not self._stores_any:
            return None
        for group, reach in self._reaches.items():
            if reach is None:
                continue
            size = self._lookup.block_sizes[group]
            full = min(
                request.num_computed_tokens // size,
                len(request.block_hashes) * self._lookup.hash_block_size // size,
            )
            begin = max(0, (full * size - reach) // size)
            self._queue(known, group, block_ids[group], range(begin, full), [full * size])
        if self._store.lender is None:
            return None
        size = max(self._lookup.block_sizes.values())
        return {PREFILLED: (request.num_prompt_tokens - 1) // size * size}

    def loaded(self, request_ids: Iterable[str]) -> None:
        """Their loads have ended."""
        self._loading.difference_update(request_ids)

    @property
    def has_stores(self) -> bool:
        """Blocks are held, or are to be stored."""
        return bool(self._held or self._new)

    def forget(self) -> None:
        """Nothing that was stored is found any more, and nothing that will be by a later process:
        the weights may have changed."""
        self._store.names.renew()
        self._store.below.drop_all()

    # ---- adapters

    def _adapter_of(self, request: Any) -> bytes | None:
        """vLLM's hashes have an adapter's name and path; its files may change under these."""
        return self._adapters.digest_of(request.lora_request)
