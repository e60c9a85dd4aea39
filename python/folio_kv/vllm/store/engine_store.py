# SPDX-License-Identifier: Apache-2.0
"""The tiers of an engine, which the connector's two halves share in one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.logger import init_logger

from folio_kv import tiers
from folio_kv._below import Below
from folio_kv._lending import Lender, Lending, PeerLink
from folio_kv._open_tiers import open_tiers
from folio_kv._options import Options
from folio_kv.errors import Error
from folio_kv.vllm.store.configuration import Configuration
from folio_kv.vllm.store.identity import fingerprint
from folio_kv.vllm.store.pages import Names, allocations, arrays_of_groups, reach_of

logger = init_logger("vllm.folio_kv.store")

_of_engines: dict[str, EngineStore] = {}


@dataclass
class EngineStore:
    """Where an engine's blocks are, and the tiers below them."""

    configuration: Configuration
    below: Below
    names: Names
    arrays: dict[int, tuple[tiers.PageArrays, list[str]]]
    reaches: dict[int, int | None]
    """group -> tokens in front of a hit that it needs; None: all"""
    find_wait_ms: int
    """How long a prompt waits for what Redis says of its blocks; 0 without one"""
    lender: Lender | None = None
    link: PeerLink | None = None

    @classmethod
    def open(cls, vllm_config: Any, kv_cache_config: Any, kv_caches: dict[str, Any]) -> EngineStore:
        """Of the worker, which has the blocks."""
        transfer = vllm_config.kv_transfer_config
        options = Options("FolioConnector", transfer.kv_connector_extra_config)
        configuration, lending = Configuration.read(options), Lending(options)
        stands_for = fingerprint(
            vllm_config, kv_cache_config, kv_caches, options, configuration.model
        )
        opened = open_tiers(options, stands_for, least=0 if lending.serve or lending.peer else 1)
        arrays = arrays_of_groups(kv_cache_config, kv_caches)
        page_bytes = max(pages.page_bytes for pages, _ in arrays.values())
        store = cls(
            configuration,
            Below(opened.tiers, configuration.load_timeout_ms),
            Names(stands_for),
            arrays,
            {g: reach_of(kv_cache_config.kv_cache_groups[g].kv_cache_spec) for g in arrays},
            opened.find_wait_ms,
        )
        record_bytes = tiers.record_bytes("disk", page_bytes)
        if 0 < opened.segment_bytes < record_bytes:
            store.below.close(0)
            expected = f"{record_bytes} or more, for a block of {page_bytes} bytes"
            raise options.wrong("segment_bytes", expected, opened.segment_bytes)
        if lending.serve:
            store.lender = Lender(lending, stands_for, page_bytes)
        if lending.peer:
            store.link = PeerLink(lending, stands_for, allocations(kv_caches), logger)
        _of_engines[transfer.engine_id] = store
        groups = len(kv_cache_config.kv_cache_groups)
        said = "folio keeps blocks of %d of %d groups in %s"
        logger.info(said, len(arrays), groups, opened.describe() or "no tier of its own")
        return store

    @classmethod
    def of(cls, engine_id: str) -> EngineStore:
        """Of the scheduler, in the same process."""
        if engine_id not in _of_engines:
            raise Error(
                "FolioConnector: expected the worker in the scheduler's process (one worker, "
                "VLLM_ENABLE_V1_MULTIPROCESSING=0), got one elsewhere"
            )
        return _of_engines[engine_id]

    @property
    def fails_by_blocks(self) -> bool:
        """A request whose load has failed may go on behind its last good block: all that it can
        read is in the blocks before, which with windows have been left out.
        """
        return list(self.reaches.values()) == [None]

    def has_all(self, names: list[bytes]) -> list[bool]:
        """Of each whether it is wherever it is to be stored."""
        there = self.below.has_all(names)
        if self.lender is None:
            return there
        return [a and b for a, b in zip(there, self.lender.find_each(names), strict=True)]

    def close(self, engine_id: str) -> None:
        """Writes what is under way, and ends the tiers."""
        _of_engines.pop(engine_id, None)
        if self.lender is not None:
            self.lender.close()
        self.below.close(60_000)
