# SPDX-License-Identifier: Apache-2.0
"""Counts of FolioConnector for vLLM's log and its Prometheus page."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

COUNTS = {
    "stored_pages": "Blocks that tiers have taken.",
    "unstored_pages": "Blocks that no tier took: no room, no budget, a fault.",
    "loaded_pages": "Blocks that came from tiers.",
    "lost_pages": "Blocks that tiers were to have, and that were computed or came from elsewhere.",
}


class StoreStats(KVConnectorStats):  # type: ignore[misc]
    """What has happened since the last time."""

    def reset(self) -> None:
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        """Sums."""
        for name, value in other.data.items():
            self.data[name] = self.data.get(name, 0) + value
        return self

    def reduce(self) -> dict[str, int | float]:
        """Of the log's interval."""
        return dict(self.data)

    def is_empty(self) -> bool:
        """Nothing has happened."""
        return not any(self.data.values())


class StoreMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """vllm:folio_stored_pages_total and so on, among vLLM's own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._counters = {
            name: self._counter_cls(
                name=f"vllm:folio_{name}_total", documentation=text, labelnames=self._labelnames
            )
            for name, text in COUNTS.items()
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, value in transfer_stats_data.items():
            self._counters[name].labels(*self.per_engine_labelvalues[engine_idx]).inc(value)
