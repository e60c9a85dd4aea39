# SPDX-License-Identifier: Apache-2.0
"""`Connector` below LMCache's L2 adapter and its storage manager."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lmcache")
import torch  # noqa: E402
from connector_client import MIB, WAIT_S, config_of, open_adapter  # noqa: E402
from lmcache.v1.distributed.api import (  # noqa: E402
    GroupedObjectKeys,
    MemoryLayoutDesc,
    ObjectKey,
    PrefetchTaskSpec,
)
from lmcache.v1.distributed.config import (  # noqa: E402
    EvictionConfig,
    L1ManagerConfig,
    L1MemoryManagerConfig,
    StorageManagerConfig,
)
from lmcache.v1.distributed.l2_adapters.config import L2AdaptersConfig  # noqa: E402
from lmcache.v1.distributed.storage_manager import StorageManager  # noqa: E402
from lmcache.v1.memory_management import (  # noqa: E402
    MemoryFormat,
    MemoryObjMetadata,
    TensorMemoryObj,
)
from redis_process import RedisProcess  # noqa: E402

LAYOUT = MemoryLayoutDesc(shapes=[torch.Size([2, 4, 16, 32])], dtypes=[torch.bfloat16])


def key_of(chunk: int, model: str = "llama", rank: int = 0) -> ObjectKey:
    return ObjectKey(ObjectKey.IntHash2Bytes(chunk), model, rank)


def object_of(size: int, seed: int) -> TensorMemoryObj:
    raw = torch.randint(
        0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )
    metadata = MemoryObjMetadata(
        shape=torch.Size([size]),
        dtype=torch.uint8,
        address=0,
        phy_size=size,
        fmt=MemoryFormat.KV_2LTD,
        ref_count=1,
    )
    return TensorMemoryObj(raw, metadata, parent_allocator=None)


@pytest.fixture
def adapter(disk: dict[str, Any]) -> Iterator[Any]:
    opened = open_adapter(disk)
    yield opened
    opened.close()


def wait(fd: int, result: Any) -> Any:
    end = time.monotonic() + WAIT_S
    while (found := result()) is None or found == {}:
        assert time.monotonic() < end
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        poller.poll(100)
    return found


def store(adapter: Any, keys: list[ObjectKey], objects: list[TensorMemoryObj]) -> bool:
    task = adapter.submit_store_task(keys, objects)
    return wait(adapter.get_store_event_fd(), adapter.pop_completed_store_tasks)[
        task
    ].is_successful()


def lookup(adapter: Any, keys: list[ObjectKey]) -> list[int]:
    task = adapter.submit_lookup_and_lock_task(keys, {})
    fd = adapter.get_lookup_and_lock_event_fd()
    return wait(fd, lambda: adapter.query_lookup_and_lock_result(task)).get_indices_list()


def load(adapter: Any, keys: list[ObjectKey], objects: list[TensorMemoryObj]) -> list[int]:
    task = adapter.submit_load_task(keys, objects)
    fd = adapter.get_load_event_fd()
    return wait(fd, lambda: adapter.query_load_result(task)).get_indices_list()


def test_lmcaches_adapter_stores_looks_up_loads_and_deletes(adapter: Any) -> None:
    keys = [key_of(i) for i in range(8)]
    objects = [object_of(3000, i) for i in range(8)]
    assert store(adapter, keys[:5], objects[:5])
    assert adapter.get_usage().total_bytes_used == 5 * 3000
    assert lookup(adapter, keys) == [0, 1, 2, 3, 4]
    adapter.submit_unlock(keys)
    into = [object_of(3000, 99) for _ in keys]
    untouched = into[6].raw_data.clone()
    assert load(adapter, [keys[i] for i in (3, 6, 0)], [into[i] for i in (3, 6, 0)]) == [0, 2]
    assert torch.equal(into[3].raw_data, objects[3].raw_data)
    assert torch.equal(into[0].raw_data, objects[0].raw_data)
    assert torch.equal(into[6].raw_data, untouched)
    adapter.delete(keys[:2])
    assert lookup(adapter, keys) == [2, 3, 4]
    assert adapter.get_usage().total_bytes_used == 3 * 3000
    assert adapter.report_status()["is_healthy"]


def test_keys_of_other_models_ranks_groups_and_salts_are_others(adapter: Any) -> None:
    assert store(adapter, [key_of(1)], [object_of(500, 1)])
    salted = ObjectKey(ObjectKey.IntHash2Bytes(1), "llama", 0, cache_salt="alice")
    grouped = ObjectKey(ObjectKey.IntHash2Bytes(1), "llama", 0, object_group_id=1)
    others = [key_of(2), key_of(1, "qwen"), key_of(1, rank=1), salted, grouped]
    assert lookup(adapter, [*others, key_of(1)]) == [5]


# ---- LMCache's storage manager


def manager_of(params: dict[str, Any]) -> StorageManager:
    memory = L1MemoryManagerConfig(size_in_bytes=16 * MIB, use_lazy=False, shm_name="")
    return StorageManager(
        StorageManagerConfig(
            l1_manager_config=L1ManagerConfig(memory_config=memory),
            eviction_config=EvictionConfig(eviction_policy="LRU"),
            l2_adapter_config=L2AdaptersConfig([config_of(params)]),
        )
    )


def write(manager: StorageManager, keys: list[ObjectKey]) -> list[torch.Tensor]:
    """Puts random chunks into LMCache's memory, from where they are stored behind."""
    reserved = manager.reserve_write(keys, LAYOUT)
    for key in keys:
        reserved[key].tensor.normal_()
    copies = [reserved[key].tensor.clone() for key in keys]
    manager.finish_write(keys)
    return copies


def prefetch(manager: StorageManager, keys: list[ObjectKey]) -> list[int]:
    """The chunks that came from below."""
    task = manager.submit_prefetch_task(PrefetchTaskSpec([GroupedObjectKeys(keys, 0, LAYOUT)]))
    assert manager.wait_prefetch_status(task, WAIT_S)
    return manager.query_prefetch_status(task).l2_hit_cells[0].get_indices_list()


def wait_until_stored(manager: StorageManager, size: int) -> None:
    end = time.monotonic() + WAIT_S
    while manager.get_l2_usages()[0][0] < size:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_server_that_restarts_finds_its_chunks(disk: dict[str, Any]) -> None:
    keys = [key_of(i) for i in range(6)]
    manager = manager_of(disk)
    want = write(manager, keys)
    wait_until_stored(manager, 6 * want[0].nbytes)
    manager.close()
    manager = manager_of(disk)
    assert prefetch(manager, [*keys, key_of(77)]) == [0, 1, 2, 3, 4, 5]
    with manager.read_prefetched_results(keys) as found:
        assert all(torch.equal(o.tensor, w) for o, w in zip(found, want))
    manager.finish_read_prefetched(keys)
    manager.close()


def test_servers_share_chunks_by_redis_until_it_is_killed(tmp_path: Path) -> None:
    server = RedisProcess(tmp_path)
    params = {"model": "tests", "dtype": "bfloat16", "redis": server.url, "ttl_s": 600}
    keys = [key_of(i) for i in range(6)]
    first, second = manager_of(params), manager_of(params)
    want = write(first, keys)
    wait_until_stored(first, 6 * want[0].nbytes)
    assert prefetch(second, keys[:3]) == [0, 1, 2]
    with second.read_prefetched_results(keys[:3]) as found:
        assert all(torch.equal(o.tensor, w) for o, w in zip(found, want))
    second.finish_read_prefetched(keys[:3])
    server.kill()
    assert prefetch(second, keys[3:]) == []
    write(second, [key_of(50)])  # goes nowhere, and holds nobody up
    first.close()
    second.close()
