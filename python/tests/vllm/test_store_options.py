# SPDX-License-Identifier: Apache-2.0
"""What FolioConnector is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from folio_kv.errors import Error

pytest.importorskip("vllm")
pytestmark = pytest.mark.quick

HOST = {"host_bytes": "1MiB"}


def _read(extra: dict[str, Any]) -> Any:
    """As EngineStore reads it; what it opens is closed again."""
    from folio_kv._lending import Lending
    from folio_kv._open_tiers import open_tiers
    from folio_kv._options import Options
    from folio_kv.vllm.store.configuration import Configuration

    options = Options("FolioConnector", extra)
    configuration = Configuration.read(options)
    Lending(options)
    for tier in open_tiers(options, bytes(32)).tiers.values():
        tier.close()
    return configuration


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({}, "disk: expected a directory, or one of the keys redis and host_bytes"),
        ({"host_bytes": 0}, "disk: expected a directory, or one of the keys redis and host_bytes"),
        (
            {**HOST, "segment_bytes": "1MiB"},
            "disk: expected a directory, as segment_bytes is given",
        ),
        ({**HOST, "redis_bytes": 1}, "redis: expected a URL, as redis_bytes is given"),
        ({**HOST, "ttl_s": 5}, "redis: expected a URL, as ttl_s is given"),
        ({**HOST, "disc": 1}, "disc: expected one of the keys"),
        ({**HOST, "load": "now"}, "load: expected one of auto, layers, between_steps, got 'now'"),
        ({**HOST, "load": 3}, "load: expected a text, got 3"),
        ({**HOST, "hit_interval": -1}, "hit_interval: expected a whole number from 0 to"),
        ({**HOST, "min_load_tokens": 0}, "min_load_tokens: expected a whole number from 1 to"),
        ({**HOST, "load_timeout_ms": 0}, "load_timeout_ms: expected a whole number from 1 to"),
        ({**HOST, "max_store_bytes": []}, "max_store_bytes: expected bytes: a number, or a text"),
        ({**HOST, "max_store_bytes": "lots"}, "max_store_bytes: expected bytes: a number, or a"),
        ({**HOST, "model": ""}, "model: expected a text, got ''"),
        ({"serve": "F"}, "serve_bytes: expected bytes of pages to lend"),
        ({"serve_bytes": 1}, "serve: expected the path of an address file"),
        (
            {"peer": "F", "transport": "smoke"},
            "transport: expected one of shared_memory, ucx, nixl",
        ),
        ({"peer": 7}, "peer: expected a text, got 7"),
    ],
)
def test_a_wrong_configuration_is_refused_in_one_line(extra: dict[str, Any], words: str) -> None:
    with pytest.raises(Error) as refusal:
        _read(extra)
    assert str(refusal.value).startswith(f"FolioConnector: {words}")
    assert "\n" not in str(refusal.value)


def test_a_worker_in_another_process_is_refused_before_anything_is_computed() -> None:
    from folio_kv.vllm.connector import FolioConnector

    def engine(backend: str) -> Any:
        cache = SimpleNamespace(enable_prefix_caching=True, prefix_caching_hash_algo="sha256")
        parallel = SimpleNamespace(world_size=1, distributed_executor_backend=backend)
        return SimpleNamespace(cache_config=cache, parallel_config=parallel)

    assert FolioConnector.get_required_kvcache_layout(engine("uni")) is None
    with pytest.raises(Error, match="^VLLM_ENABLE_V1_MULTIPROCESSING: expected 0 "):
        FolioConnector.get_required_kvcache_layout(engine("mp"))


def test_sizes_are_numbers_or_texts() -> None:
    read = _read({**HOST, "max_store_bytes": "3 MiB"})
    assert (read.max_store_bytes, read.load_timeout_ms) == (3 << 20, 10_000)
    assert _read({**HOST, "max_store_bytes": 12}).max_store_bytes == 12
