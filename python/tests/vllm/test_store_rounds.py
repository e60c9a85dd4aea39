# SPDX-License-Identifier: Apache-2.0
"""FolioConnector's two halves over vLLM's own block manager, with requests at random: small memory,
blocks given up and taken anew, prompts that share beginnings, loads that fail.

The model writes for each token what its whole prefix says, and looks whether everything that a
step may read is there.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from folio_kv import tiers

pytest.importorskip("vllm")
pytestmark = pytest.mark.quick

BLOCK, WIDTH, NUM_BLOCKS, WINDOW = 16, 4, 48, 40
STEPS = 400
GROUPS = ["f", "w", "fw", "fww", "ww"]  # of full layers, and of layers with windows


class Store:
    """What EngineStore is, over two tiers that a test may take pages from."""

    def __init__(
        self,
        arrays: dict[int, Any],
        reaches: dict[int, int | None],
        host_bytes: int,
        **options: Any,
    ) -> None:
        from folio_kv._below import Below
        from folio_kv.vllm.store.configuration import Configuration
        from folio_kv.vllm.store.pages import Names

        self.configuration = Configuration(**options)
        self.tiers = {"host": tiers.HostTier(host_bytes), "disk": tiers.HostTier(1 << 20)}
        self.below = Below(self.tiers, 10_000)
        self.names = Names(b"f" * 32)
        self.arrays = arrays
        self.reaches = reaches
        self.fails_by_blocks = list(reaches.values()) == [None]
        self.find_wait_ms = 0
        self.lender = self.link = None
        self.has_all = self.below.has_all


class Engine:
    """vLLM's scheduler and worker as far as they meet the connector."""

    def __init__(self, groups: str, draw: random.Random, host_bytes: int, **options: Any) -> None:
        import torch
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.kv_cache_interface import (
            FullAttentionSpec,
            KVCacheConfig,
            KVCacheGroupSpec,
            SlidingWindowSpec,
        )

        from folio_kv.vllm.store.scheduler import SchedulerHalf
        from folio_kv.vllm.store.worker import WorkerHalf

        sizes: dict[str, Any] = dict(
            block_size=BLOCK, num_kv_heads=1, head_size=WIDTH, dtype=torch.float32
        )
        self.draw, self.groups = draw, groups
        config = KVCacheConfig(
            num_blocks=NUM_BLOCKS,
            kv_cache_tensors=[],
            kv_cache_groups=[
                KVCacheGroupSpec(
                    [f"layer {i}"],
                    FullAttentionSpec(**sizes)
                    if kind == "f"
                    else SlidingWindowSpec(**sizes, sliding_window=WINDOW),
                )
                for i, kind in enumerate(groups)
            ],
        )
        init_none_hash(sha256)
        self.hasher = get_request_block_hasher(BLOCK, sha256)
        self.manager = KVCacheManager(
            config, max_model_len=4096, scheduler_block_size=BLOCK, hash_block_size=BLOCK
        )
        # all groups take blocks of one pool, and each block's bytes are one layer's
        self.cache = torch.zeros(NUM_BLOCKS, BLOCK)
        arrays = {g: (tiers.PageArrays([self.cache]), [f"layer {g}"]) for g in range(len(groups))}
        reaches = {g: None if kind == "f" else WINDOW for g, kind in enumerate(groups)}
        self.store = Store(arrays, reaches, host_bytes, **options)
        roles = SimpleNamespace(is_kv_consumer=True, is_kv_producer=True)
        self.half = SchedulerHalf(self.store, roles, config, self.manager, lambda: False)  # type: ignore[arg-type]
        self.worker = WorkerHalf(self.store)  # type: ignore[arg-type]
        self.waiting: list[Any] = []
        self.loading: dict[str, Any] = {}
        self.running: list[Any] = []
        self.loaded_tokens = self.failed_loads = self.finished = 0
        self.made = 0
        self.seen: list[Any] = []
        self.sums: dict[str, list[int]] = {}

    # ---- requests

    def make(self, tokens: Sequence[int]) -> None:
        from vllm import SamplingParams
        from vllm.v1.request import Request

        self.made += 1
        parameters = SamplingParams(max_tokens=self.draw.randrange(1, 60), ignore_eos=True)
        request = Request(f"r{self.made}", list(tokens), parameters, None, block_hasher=self.hasher)
        self.seen.append(request)
        self.waiting.append(request)

    def expected(self, request: Any, position: int) -> float:
        """What token `position` has written: something of all tokens up to it."""
        sums = self.sums.setdefault(request.request_id, [0])
        for token in request.all_token_ids[len(sums) - 1 : position + 1]:
            sums.append(zlib.crc32(b"%d," % token, sums[-1]))
        return float(sums[position + 1] >> 9)

    # ---- a step

    def admit(self, request: Any) -> bool:
        computed, local, *_ = self.manager.get_computed_blocks(request)
        external, is_async = self.half.matched(request, local)
        assert external is not None
        chunk = 0 if is_async else min(64, request.num_tokens - local - external)
        blocks = self.manager.allocate_slots(
            request,
            chunk,
            num_new_computed_tokens=local,
            new_computed_blocks=computed,
            num_external_computed_tokens=external,
            delay_cache_blocks=is_async,
        )
        if blocks is None:
            return False
        ids = self.manager.get_block_ids(request.request_id)
        self.half.allocated(request, ids, external)
        request.num_computed_tokens = local + external
        self.loaded_tokens += external
        if is_async:
            self.loading[request.request_id] = request
        else:
            self.running.append(request)
            self.scheduled[request.request_id] = chunk
        return True

    def step(self) -> None:
        self.scheduled: dict[str, int] = {}
        for request in list(self.running):
            chunk = min(64, request.num_tokens - request.num_computed_tokens)
            if self.manager.allocate_slots(request, chunk) is None:
                self.preempt(request)
            else:
                self.scheduled[request.request_id] = chunk
        while self.waiting and len(self.running) + len(self.loading) < 5:
            if not self.admit(self.waiting[0]):
                break
            self.waiting.pop(0)
        rows = [r for r in self.running if r.request_id in self.scheduled]
        metadata = self.half.step(
            SimpleNamespace(
                scheduled_new_reqs=[],
                scheduled_cached_reqs=SimpleNamespace(
                    req_ids=[r.request_id for r in rows],
                    num_computed_tokens=[r.num_computed_tokens for r in rows],
                ),
                num_scheduled_tokens=self.scheduled,
            )
        )
        if metadata.loads and self.draw.random() < 0.2:
            self.lose(metadata.loads)
        self.worker.start_loads(metadata)
        self.worker.wait_for_layer("layer 0")
        self.void: set[str] = set()
        for request in rows:
            self.compute(request, self.scheduled[request.request_id])
        self.worker.start_stores(metadata)
        self.end_loads()
        self.half.stored(self.worker.take_results())
        for request in rows:
            self.advance(request)

    def compute(self, request: Any, chunk: int) -> None:
        """Writes the new tokens, and looks at all that they may read."""
        first = request.num_computed_tokens
        for group, ids in enumerate(self.manager.get_block_ids(request.request_id)):
            seen = first if self.groups[group] == "f" else min(first, WINDOW - 1)
            for position in range(first - seen, first + chunk):
                at = ids[position // BLOCK], position % BLOCK
                if position >= first:
                    self.cache[at] = self.expected(request, position)
                elif self.cache[at] != self.expected(request, position):
                    self.void.add(request.request_id)

    def lose(self, orders: list[Any]) -> None:
        """A page that was found is gone before it is loaded."""
        part = self.draw.choice(self.draw.choice(orders).parts)
        name = self.draw.choice(part.names)
        for tier in self.store.tiers.values():
            tier.drop([name])

    def forget_some(self) -> None:
        """One of the tiers has less than the other, and gets it again."""
        tier = self.draw.choice(list(self.store.tiers.values()))
        tier.drop([name for name in tier.names() if self.draw.random() < 0.5])

    def end_loads(self) -> None:
        ended, failed = self.worker.take_ended()
        bad_blocks = self.worker.take_failed_blocks()
        for request_id in ended:
            request = self.loading.pop(request_id)
            ids = self.manager.get_block_ids(request_id)[0]
            bad = [i for i, block in enumerate(ids) if block in bad_blocks]
            if request_id in failed or bad:
                self.failed_loads += 1
                request.num_computed_tokens = 0 if request_id in failed else bad[0] * BLOCK
            if request.num_computed_tokens == 0:
                self.manager.free(request)
            else:
                self.manager.cache_blocks(request, request.num_computed_tokens)
            (self.running if request.num_computed_tokens else self.waiting).append(request)
        self.half.loaded(ended)
        # of a step that has waited for its loads: who shares a block that did not come computes anew
        for request in list(self.running):
            ids = self.manager.get_block_ids(request.request_id)[0]
            known = request.num_computed_tokens // BLOCK
            bad = [i for i, block in enumerate(ids[:known]) if block in bad_blocks]
            if bad and request.request_id in self.scheduled:
                self.failed_loads += 1
                self.void.discard(request.request_id)
                request.num_computed_tokens = bad[0] * BLOCK
                self.scheduled[request.request_id] = 0
        assert not self.void

    def advance(self, request: Any) -> None:
        request.num_computed_tokens += self.scheduled[request.request_id]
        if request.num_computed_tokens < request.num_tokens:
            return
        request.append_output_token_ids(self.draw.randrange(500))
        if request.num_output_tokens >= request.max_tokens or self.draw.random() < 0.02:
            self.half.finished(request, self.manager.get_block_ids(request.request_id))
            self.manager.free(request)
            self.running.remove(request)
            self.finished += 1

    def preempt(self, request: Any) -> None:
        self.manager.free(request)
        request.num_computed_tokens = 0
        self.running.remove(request)
        self.waiting.insert(0, request)

    def look_below(self) -> int:
        """How many pages tiers have; each is what its name says."""
        import numpy

        names = {
            self.store.names.of(bytes(block_hash), group, b""): (request, number)
            for request in self.seen
            for number, block_hash in enumerate(request.block_hashes)
            for group in range(len(self.groups))
        }
        pages = 0
        for tier in self.store.tiers.values():
            there = tier.names()
            rows = numpy.zeros((max(1, len(there)), BLOCK), numpy.float32)
            transfer = tier.load(there, list(rows)) if there else None
            assert transfer is None or transfer.wait()
            for name, row in zip(there, rows):
                request, number = names[name]
                wanted = [self.expected(request, number * BLOCK + i) for i in range(BLOCK)]
                assert row.tolist() == wanted
            pages += len(there)
        return pages


@pytest.mark.parametrize(
    "case",
    [f"{groups} {load}" for groups in GROUPS for load in ("between_steps", "layers")],
)
def test_requests_at_random_read_what_they_wrote(case: str) -> None:
    groups, load = case.split()
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    talks = [[draw.randrange(500) for _ in range(draw.randrange(1, 90))] for _ in range(6)]
    options: dict[str, Any] = dict(
        hit_interval=draw.choice([0, 32, 96]),
        max_store_bytes=draw.choice([BLOCK * 4 * 6, 1 << 20]),
        min_load_tokens=draw.choice([1, 40]),
        load=load,
    )
    engine = Engine(groups, draw, draw.choice([1 << 14, 1 << 20]), **options)
    for _ in range(STEPS):
        if len(engine.waiting) < 3 and draw.random() < 0.5:
            talk = draw.choice(talks)
            talk += [draw.randrange(500) for _ in range(draw.randrange(0, 30))]
            engine.make(talk[: draw.randrange(len(talk) // 2, len(talk) + 1) or 1][-200:])
            if len(talk) > 220:
                talks[talks.index(talk)] = talk[:20]
        if draw.random() < 0.02:
            engine.manager.reset_prefix_cache()
        if draw.random() < 0.05:
            engine.forget_some()
        engine.step()
    while engine.half.has_stores:
        engine.step()
    assert engine.finished > 5
    assert engine.look_below() > 0 or options["max_store_bytes"] < 1000
    held = sum(b.ref_cnt for b in engine.manager.block_pool.blocks if not b.is_null)
    ids = [
        i
        for r in [*engine.running, *engine.loading.values()]
        for group in engine.manager.get_block_ids(r.request_id)
        for i in group
        if i != 0
    ]
    assert held == len(ids)
    assert engine.loaded_tokens > 0 or options["max_store_bytes"] < 1000


def test_behind_a_reset_nothing_is_found_by_this_process_or_the_next() -> None:
    """vLLM resets a connector when its weights have changed: what is stored from then on is of
    weights that no fingerprint stands for.
    """
    engine = Engine("f", random.Random(1), 1 << 20)
    prompt = list(range(4 * BLOCK))

    def ask() -> tuple[int, list[bytes]]:
        engine.manager.reset_prefix_cache()
        before = engine.loaded_tokens
        engine.make(prompt)
        while engine.waiting or engine.running or engine.loading or engine.half.has_stores:
            engine.step()
        return engine.loaded_tokens - before, engine.store.tiers["host"].names()

    first, names = ask()
    assert (first, ask()[0]) == (0, 3 * BLOCK)
    engine.half.forget()
    later, others = ask()
    assert later == 0 and others and not set(others) & set(names)
    assert ask()[0] == 3 * BLOCK
