# SPDX-License-Identifier: Apache-2.0
"""The worker's half of FolioConnector: moves blocks."""

from __future__ import annotations

import time
from dataclasses import dataclass

from folio_kv._below import Load, Part, Store, new_counts
from folio_kv.vllm.store.engine_store import EngineStore
from folio_kv.vllm.store.metadata import Blocks, LoadOrder, StepMetadata, StepResults

LOOK_SECONDS = 1e-4  # between two looks at how far a load is


@dataclass
class _Loading:
    order: LoadOrder
    load: Load


class WorkerHalf:
    """One thread calls: the worker's."""

    def __init__(self, store: EngineStore) -> None:
        self._store = store
        self._layers = {
            layer: (group, number)
            for group, (_, layers) in store.arrays.items()
            for number, layer in enumerate(layers)
        }
        self._loads: dict[str, _Loading] = {}
        self._in_step: list[_Loading] = []
        self._stores: dict[int, Store] = {}
        self._failed_blocks: set[int] = set()
        self._failed_requests: set[str] = set()

    def start_loads(self, metadata: StepMetadata) -> None:
        """Those that the step waits for go layer by layer."""
        for order in metadata.loads:
            load = self._store.below.load(
                [self._part(blocks) for blocks in order.parts],
                [blocks.tiers for blocks in order.parts],
                by_layers=order.in_step,
            )
            loading = _Loading(order, load)
            if order.in_step:
                self._in_step.append(loading)
            else:
                self._loads[order.request] = loading
        for request in metadata.cancelled:
            if request in self._loads:
                self._loads[request].load.cancel()

    def _part(self, blocks: Blocks) -> Part:
        arrays, _ = self._store.arrays[blocks.group]
        return Part(arrays, blocks.names, blocks.blocks, blocks.parents or None)

    def wait_for_layer(self, layer: str) -> None:
        """Until this layer of what the step waits for is there, or will not be."""
        if not self._in_step or layer not in self._layers:
            return
        group, number = self._layers[layer]
        for loading in self._in_step:
            for part, transfer in loading.load.transfers:
                if loading.order.parts[part].group != group:
                    continue
                while transfer.landed() <= number and not transfer.is_done:
                    time.sleep(LOOK_SECONDS)

    def start_stores(self, metadata: StepMetadata) -> None:
        """Behind the step, which has filled the blocks: with nothing that is right, where something
        did not come that it has worked with."""
        is_void = self._end_loads_of_step()
        for number, orders in metadata.stores.items():
            if is_void:
                self._stores[number] = self._store.below.store([])
                continue
            parts = [self._part(blocks) for blocks in orders]
            self._stores[number] = self._store.below.store(parts)
            if self._store.lender is not None:
                self._store.lender.put(parts)

    def take_ended(self) -> tuple[set[str], set[str]]:
        """Requests whose loads have ended between steps, and those of them that failed.

        Of those that failed some go on behind their last good block (`take_failed_blocks`), the
        others begin anew.
        """
        self._end_loads_of_step()
        ended = {request for request, loading in self._loads.items() if loading.load.is_done}
        for request in ended:
            self._note_failures(self._loads.pop(request))
        failed, self._failed_requests = self._failed_requests, set()
        return ended, failed

    def _end_loads_of_step(self) -> bool:
        """Whether some of it has failed."""
        has_failed = False
        for loading in self._in_step:
            loading.load.wait()
            self._note_failures(loading)
            has_failed = has_failed or bool(loading.load.failed)
        self._in_step.clear()
        return has_failed

    def _note_failures(self, loading: _Loading) -> None:
        for part, i in loading.load.failed:
            if self._store.fails_by_blocks:
                self._failed_blocks.add(loading.order.parts[part].blocks[i])
            else:
                self._failed_requests.add(loading.order.request)

    def take_failed_blocks(self) -> set[int]:
        """That are to be computed."""
        failed, self._failed_blocks = self._failed_blocks, set()
        return failed

    def take_results(self) -> StepResults | None:
        """Stores that have ended."""
        done = [number for number, store in self._stores.items() if store.is_done]
        for number in done:
            del self._stores[number]
        return StepResults(done) if done else None

    def take_counts(self) -> dict[str, int]:
        """Since the last call."""
        counts, self._store.below.counts = self._store.below.counts, new_counts()
        return counts

    def finish(self) -> None:
        """Waits for stores under way, so that a restart finds them."""
        for loading in self._loads.values():
            loading.load.cancel()
        for store in self._stores.values():
            store.wait(60_000)
