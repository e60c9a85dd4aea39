# SPDX-License-Identifier: Apache-2.0
"""FolioConnector: vLLM's blocks in folio's tiers: host memory, a directory, Redis or Valkey.

    --kv-transfer-config '{"kv_connector": "FolioConnector",
        "kv_connector_module_path": "folio_kv.vllm.connector", "kv_role": "kv_both",
        "kv_connector_extra_config": {"disk": "DIR", "disk_bytes": "100GiB"}}'

docs/python_vllm.md lists the keys.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorRole,
    KVConnectorTransferResults,
    SupportsHMA,
)
from vllm.logger import init_logger
from vllm.v1.metrics.cache_hit_source import CacheHitSource

from folio_kv.errors import Error
from folio_kv.vllm.store.engine_store import EngineStore
from folio_kv.vllm.store.metadata import StepMetadata, StepResults
from folio_kv.vllm.store.scheduler import SchedulerHalf
from folio_kv.vllm.store.statistics import StoreMetrics, StoreStats
from folio_kv.vllm.store.worker import WorkerHalf
from folio_kv.vllm.versions import ENGINE

logger = init_logger("vllm.folio_kv.connector")

__all__ = ["FolioConnector"]

SOURCES = {
    "host": CacheHitSource.HOST,
    "disk": CacheHitSource.DISK,
    "redis": CacheHitSource.EXTERNAL_UNSPECIFIED,
    "peer": CacheHitSource.P2P,
}


def _check(vllm_config: Any) -> None:
    """Raises Error for an engine whose blocks cannot be kept."""
    ENGINE.expect("FolioConnector", logger)
    cache = vllm_config.cache_config
    if not cache.enable_prefix_caching:
        raise Error("enable_prefix_caching: expected True beside FolioConnector, got False")
    if not str(cache.prefix_caching_hash_algo).startswith("sha256"):
        raise Error(
            "prefix_caching_hash_algo: expected sha256 or sha256_cbor, as blocks outlive the "
            f"process, got {cache.prefix_caching_hash_algo}"
        )
    parallel = vllm_config.parallel_config
    if parallel.world_size != 1:
        raise Error(
            f"world_size: expected one worker beside FolioConnector, got {parallel.world_size}"
        )
    if parallel.distributed_executor_backend == "mp":  # a CPU's vLLM makes this of "uni", too
        raise Error(
            "VLLM_ENABLE_V1_MULTIPROCESSING: expected 0 in the environment, so that FolioConnector's "
            "worker is in the scheduler's process, got a worker of its own process"
        )


class FolioConnector(KVConnectorBase_V1, SupportsHMA):
    """One object for the scheduler, one for the worker; they share an EngineStore."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        _check(vllm_config)
        # What does not come is computed: the scheduler reads this behind this call.
        self._kv_transfer_config.kv_load_failure_policy = "recompute"
        self._engine_id = str(self._kv_transfer_config.engine_id)
        self._store: EngineStore | None = None
        self._scheduler: SchedulerHalf | None = None
        self._worker: WorkerHalf | None = None
        self._running: Any = None

    @classmethod
    def get_required_kvcache_layout(cls, vllm_config: Any) -> str | None:
        """Any. vLLM asks before it computes anything, so what is wrong ends the start here."""
        _check(vllm_config)
        return None

    @property
    def requires_kv_delivery(self) -> bool:
        """A store that is dropped is a later miss."""
        return False

    # ---- worker

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        """Opens the tiers."""
        self._store = EngineStore.open(self._vllm_config, self._kv_cache_config, kv_caches)
        self._worker = WorkerHalf(self._store)

    def _step(self) -> StepMetadata:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, StepMetadata)
        return metadata

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        if self._worker is not None:
            self._worker.start_loads(self._step())

    def wait_for_layer_load(self, layer_name: str) -> None:
        if self._worker is not None:
            self._worker.wait_for_layer(layer_name)

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Blocks are stored whole, behind the step."""

    def wait_for_save(self) -> None:
        """Begins the step's stores; the scheduler holds their blocks."""
        if self._worker is not None:
            self._worker.start_stores(self._step())

    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:
        if self._worker is None:
            return KVConnectorTransferResults()
        ended, failed = self._worker.take_ended()
        return KVConnectorTransferResults(finished_recving=ended, failed_recving=failed)

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks that did not come are computed."""
        return self._worker.take_failed_blocks() if self._worker is not None else set()

    def build_connector_worker_meta(self) -> StepResults | None:
        """Stores that have ended."""
        return self._worker.take_results() if self._worker is not None else None

    def get_kv_connector_stats(self) -> StoreStats | None:
        """Of the worker since the last step."""
        if self._worker is None:
            return None
        return StoreStats(data=self._worker.take_counts())

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> StoreStats:
        return StoreStats(data=data or {})

    @classmethod
    def build_prom_metrics(cls, *arguments: Any) -> StoreMetrics:
        return StoreMetrics(*arguments)

    def shutdown(self) -> None:
        """Writes what is under way."""
        if self._worker is not None and self._store is not None:
            self._worker.finish()
            self._store.close(self._engine_id)
            self._worker = None

    # ---- scheduler

    def bind_kv_cache_manager(self, kv_cache_manager: Any) -> None:
        """The scheduler is made: its half begins."""
        super().bind_kv_cache_manager(kv_cache_manager)
        self._store = EngineStore.of(self._engine_id)
        if self._store.configuration.load == "layers" and self._schedules_ahead():
            raise Error(
                "load: expected auto or between_steps beside async_scheduling, whose next step is "
                "made before this one's loads have ended, got layers"
            )
        self._scheduler = SchedulerHalf(
            self._store,
            self._kv_transfer_config,
            self._kv_cache_config,
            kv_cache_manager,
            self._is_alone,
        )

    def _is_alone(self) -> bool:
        """Whether nothing else runs, and no step is scheduled ahead of the one before it."""
        return not self._running and not self._schedules_ahead()

    def _schedules_ahead(self) -> bool:
        return bool(self._vllm_config.max_concurrent_batches > 1)

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        assert self._scheduler is not None
        return self._scheduler.matched(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        assert self._scheduler is not None
        self._scheduler.allocated(request, blocks.get_block_ids(), num_external_tokens)

    def get_external_cache_hit_sources(
        self, request: Any, num_external_tokens: int
    ) -> dict[CacheHitSource, int]:
        """Of the loaded tokens, by the tiers that have the blocks."""
        if not num_external_tokens:
            return {}
        assert self._scheduler is not None
        tokens: dict[CacheHitSource, int] = {}
        for label, count in self._scheduler.sources(request, num_external_tokens).items():
            source = SOURCES[label]
            tokens[source] = tokens.get(source, 0) + count
        return tokens

    def build_connector_meta(self, scheduler_output: Any) -> StepMetadata:
        assert self._scheduler is not None
        self._running = len(scheduler_output.num_scheduled_tokens)
        return self._scheduler.step(scheduler_output)

    def update_connector_output(self, connector_output: Any) -> None:
        if self._scheduler is None:
            return
        self._scheduler.loaded(connector_output.finished_recving or ())
        self._scheduler.stored(connector_output.kv_connector_worker_meta)

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        assert self._scheduler is not None
        return False, self._scheduler.finished(request, block_ids)

    def has_pending_push_work(self) -> bool:
        """Steps go on until blocks that are stored are given back."""
        return self._scheduler is not None and self._scheduler.has_stores

    def has_pending_block_frees(self) -> bool:
        """Stores give blocks back: no request is thrown out for those."""
        return self._scheduler is not None and self._scheduler.has_stores

    def reset_cache(self) -> bool | None:
        """The weights have changed."""
        if self._scheduler is not None:
            self._scheduler.forget()
        return True
