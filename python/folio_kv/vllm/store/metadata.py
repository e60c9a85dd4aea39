# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's half of FolioConnector tells the worker's, and back."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorMetadata,
    KVConnectorWorkerMetadata,
)


@dataclass
class Blocks:
    """Blocks of one group; lists of equal length."""

    group: int
    names: list[bytes] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    tiers: list[int] = field(default_factory=list)
    parents: list[bytes | None] = field(default_factory=list)


@dataclass
class LoadOrder:
    """Blocks of a request."""

    request: str
    parts: list[Blocks]
    in_step: bool
    """The step waits for them, layer by layer."""


@dataclass
class StepMetadata(KVConnectorMetadata):
    """Of one step."""

    loads: list[LoadOrder] = field(default_factory=list)
    stores: dict[int, list[Blocks]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    """Requests whose loads nobody waits for."""


@dataclass
class StepResults(KVConnectorWorkerMetadata):
    """Stores of which nothing is read any more."""

    stored: list[int] = field(default_factory=list)

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        """Of several workers: there is one."""
        assert isinstance(other, StepResults)
        return StepResults(self.stored + other.stored)
