# SPDX-License-Identifier: Apache-2.0
"""`Connector`: below LMCache's L2 adapter and its storage manager, and beside LMCache's own native
client for file systems, which answers the same calls.
"""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lmcache")
import torch  # noqa: E402
from lmcache.lmcache_fs import LMCacheFSClient  # noqa: E402
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
from lmcache.v1.distributed.l2_adapters import create_l2_adapter  # noqa: E402
from lmcache.v1.distributed.l2_adapters.config import L2AdaptersConfig  # noqa: E402
from lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter import (  # noqa: E402
    NativePluginL2AdapterConfig,
)
from lmcache.v1.distributed.storage_manager import StorageManager  # noqa: E402
from lmcache.v1.memory_management import (  # noqa: E402
    MemoryFormat,
    MemoryObjMetadata,
    TensorMemoryObj,
)
from redis_process import RedisProcess  # noqa: E402

import folio_kv.lmcache  # noqa: E402
from folio_kv import Error, Unsupported, _core, tiers  # noqa: E402
from folio_kv.lmcache import Connector  # noqa: E402

MIB = 1 << 20
WAIT_S = 30
LAYOUT = MemoryLayoutDesc(shapes=[torch.Size([2, 4, 16, 32])], dtypes=[torch.bfloat16])


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, Any]:
    model = {"model": "tests", "dtype": "bfloat16"}
    return {**model, "disk": str(tmp_path / "objects"), "disk_bytes": "64MiB"}


# ---- The native client's calls


class Client:
    """The calls of a native client, each waited for."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.poller = select.poll()
        self.poller.register(native.event_fd(), select.POLLIN)

    def ended(self, *wanted: int) -> dict[int, tuple[bool, str, list[bool] | None]]:
        found: dict[int, tuple[bool, str, list[bool] | None]] = {}
        end = time.monotonic() + WAIT_S
        while not set(wanted) <= found.keys():
            assert time.monotonic() < end, f"{wanted} have not ended"
            self.poller.poll(1000)
            for number, is_ok, error, results in self.native.drain_completions():
                assert number not in found
                found[number] = is_ok, error, results
        return found

    def set(self, keys: list[str], contents: list[bytes]) -> bool:
        views = [memoryview(bytearray(content)) for content in contents]
        number = self.native.submit_batch_set(keys, views)
        is_ok, _, results = self.ended(number)[number]
        assert results is None
        return is_ok

    def get(self, keys: list[str], sizes: list[int]) -> list[bytes | None]:
        buffers = [bytearray(size) for size in sizes]
        number = self.native.submit_batch_get(keys, [memoryview(b) for b in buffers])
        _, _, results = self.ended(number)[number]
        assert results is not None and len(results) == len(keys)
        return [bytes(b) if is_there else None for b, is_there in zip(buffers, results)]

    def exists(self, keys: list[str]) -> list[bool]:
        number = self.native.submit_batch_exists(keys)
        is_ok, _, results = self.ended(number)[number]
        assert is_ok and results is not None
        return results

    def delete(self, keys: list[str]) -> list[bool]:
        number = self.native.submit_batch_delete(keys)
        is_ok, _, results = self.ended(number)[number]
        assert is_ok and results is not None
        return results


def test_its_answers_are_those_of_lmcaches_own_client(disk: dict[str, Any], tmp_path: Path) -> None:
    """Random batches to both, and to a dict."""
    rng = random.Random(5)
    (tmp_path / "files").mkdir()
    ours, theirs = Client(Connector(**disk)), Client(LMCacheFSClient(str(tmp_path / "files"), 2))
    model: dict[str, bytes] = {}
    keys = [f"llama@00000000@0@{i:08x}" for i in range(30)]
    for _ in range(150):
        some = rng.sample(keys, rng.randint(1, 8))
        what = rng.choice(["set", "get", "exists", "delete"])
        if what == "set":
            new = [key for key in some if key not in model]  # a name says what it contains
            if not new:
                continue
            contents = [rng.randbytes(4096) for _ in new]
            assert ours.set(new, contents) and theirs.set(new, contents)
            model |= dict(zip(new, contents))
        elif what == "get":
            want = [model.get(key) for key in some]
            assert ours.get(some, [4096] * len(some)) == want
            assert theirs.get(some, [4096] * len(some)) == want
        elif what == "exists":
            want_there = [key in model for key in some]
            assert ours.exists(some) == want_there == theirs.exists(some)
        else:
            was_there = [model.pop(key, None) is not None for key in some]
            assert ours.delete(some) == was_there == theirs.delete(some)
    assert ours.exists(keys) == theirs.exists(keys) == [key in model for key in keys]
    ours.native.close()
    theirs.native.close()


def test_many_batches_are_under_way_at_once(disk: dict[str, Any]) -> None:
    """Calls return at once; each batch ends once; memory of theirs is held, not copied."""
    client = Client(Connector(**disk))
    contents = {f"k{i}": os.urandom(2000 + i) for i in range(400)}
    numbers = [
        client.native.submit_batch_set([key], [memoryview(bytearray(content))])
        for key, content in contents.items()
    ]
    assert all(is_ok for is_ok, _, _ in client.ended(*numbers).values())
    buffers = {key: bytearray(len(content)) for key, content in contents.items()}
    numbers = [client.native.submit_batch_get([k], [memoryview(b)]) for k, b in buffers.items()]
    ended = client.ended(*numbers)
    assert all(ended[number] == (True, "", [True]) for number in numbers)
    assert buffers == contents
    assert client.native.drain_completions() == []
    client.native.close()


def test_threads_may_call_it_at_once(disk: dict[str, Any]) -> None:
    connector = Connector(**disk)
    numbers: list[int] = []
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for i in range(50):
                key = f"{thread}-{i}"
                numbers.append(connector.submit_batch_set([key], [bytearray(100)]))
                numbers.append(connector.submit_batch_exists([key]))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len({*numbers}) == 400
    Client(connector).ended(*numbers)
    connector.close()


def test_what_a_batch_cannot_be_is_refused(disk: dict[str, Any]) -> None:
    connector = Connector(**disk)
    with pytest.raises(Error, match="keys: expected one or more, got none"):
        connector.submit_batch_get([], [])
    with pytest.raises(Error, match="keys: expected one or more, got none"):
        connector.submit_batch_exists([])
    with pytest.raises(Error, match="expected an array for each of 2 names, got 1"):
        connector.submit_batch_set(["a", "b"], [bytearray(4)])
    with pytest.raises(Error, match=r"where\[0\]"):
        connector.submit_batch_get(["a"], [b"read-only"])
    with pytest.raises(AttributeError):
        connector.submit_batch_exists([7])
    client = Client(connector)
    shared = bytearray(100)
    number = connector.submit_batch_get(["a", "b"], [memoryview(shared), memoryview(shared)])
    is_ok, error, results = client.ended(number)[number]
    assert (is_ok, results) == (False, [False, False]) and "share" in error
    connector.close()
    connector.close()
    with pytest.raises(Error, match="connector: it is closed"):
        connector.submit_batch_exists(["a"])
    assert connector.drain_completions() == []


def test_objects_of_another_size_are_missing(disk: dict[str, Any]) -> None:
    client = Client(Connector(**disk))
    assert client.set(["a"], [bytes(100)])
    assert client.get(["a", "a"], [99, 100]) == [None, bytes(100)]
    client.native.close()


def test_a_connector_that_is_forgotten_ends_its_tier(disk: dict[str, Any]) -> None:
    connector = Connector(**disk)
    connector.submit_batch_set(["a"], [bytearray(1000)])
    del connector
    client = Client(Connector(**disk))  # the directory is free again
    client.exists(["a"])
    client.native.close()


# ---- LMCache's adapter


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


def config_of(params: dict[str, Any]) -> NativePluginL2AdapterConfig:
    return NativePluginL2AdapterConfig.from_dict(
        {
            "type": "native_plugin",
            "module_path": "folio_kv.lmcache",
            "class_name": "Connector",
            "adapter_params": params,
        }
    )


def open_adapter(params: dict[str, Any]) -> Any:
    return create_l2_adapter(config_of(params), None)


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


# ---- Faults


def test_objects_of_an_engine_that_was_killed_are_found(disk: dict[str, Any]) -> None:
    content = os.urandom(5000)
    child = os.fork()
    if child == 0:
        try:
            assert Client(Connector(**disk)).set(["a"], [content])
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    client = Client(Connector(**disk))
    assert client.get(["a"], [5000]) == [content]
    client.native.close()


def test_a_redis_that_is_killed_makes_misses_and_failed_stores(tmp_path: Path) -> None:
    server = RedisProcess(tmp_path)
    client = Client(Connector(model="t", dtype="f", redis=server.url))
    contents = [os.urandom(1000) for _ in range(20)]
    keys = [f"{i}" for i in range(20)]
    assert client.set(keys, contents)
    other = Client(Connector(model="t", dtype="f", redis=server.url))
    assert other.exists([*keys, "x"]) == [True] * 20 + [False]  # knows nothing: it asks
    other.native.close()
    server.kill()
    assert client.get(keys, [1000] * 20) == [None] * 20
    assert not client.set(["new"], [bytes(10)])
    assert client.exists(["new"]) == [False]
    server.start()
    end = time.monotonic() + WAIT_S
    while not client.set(keys, contents):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert client.get(keys, [1000] * 20) == contents
    client.native.close()
    server.kill()


def test_a_full_disk_loses_objects_and_never_gives_wrong_ones(disk: dict[str, Any]) -> None:
    client = Client(Connector(**{**disk, "disk_bytes": 2 * MIB, "segment_bytes": MIB}))
    contents = {f"{i}": os.urandom(8000) for i in range(600)}  # 7 MiB of records
    for key, content in contents.items():
        client.set([key], [content])
    found = client.get(list(contents), [8000] * 600)
    there = [f == content for f, content in zip(found, contents.values()) if f is not None]
    assert all(there) and 0 < len(there) < 600
    used = sum(file.stat().st_size for file in Path(disk["disk"]).iterdir())
    assert used <= 2 * MIB
    assert not client.set(["large"], [bytes(2 * MIB)])  # fits no segment
    client.native.close()


def test_a_corrupted_directory_gives_misses(disk: dict[str, Any]) -> None:
    contents = {f"{i}": os.urandom(3000) for i in range(20)}
    client = Client(Connector(**disk))
    assert client.set(list(contents), list(contents.values()))
    client.native.close()
    rng = random.Random(3)
    for file in Path(disk["disk"]).glob("*"):
        if file.name == "format" or not file.stat().st_size:
            continue
        content = bytearray(file.read_bytes())
        for _ in range(100):
            content[rng.randrange(20 * 4096)] ^= 0x55
        file.write_bytes(content)
    client = Client(Connector(**disk))
    found = client.get(list(contents), [3000] * 20)
    assert not all(found)
    assert all(f in (None, content) for f, content in zip(found, contents.values()))
    client.native.close()


def test_two_engines_cannot_have_one_directory(disk: dict[str, Any]) -> None:
    adapter = open_adapter(disk)
    with pytest.raises(Error, match="^Connector: disk: ") as caught:
        open_adapter(disk)
    assert caught.value.code == "busy" and "\n" not in str(caught.value)
    adapter.close()
    open_adapter(disk).close()


def test_objects_of_other_weights_or_types_are_not_found(
    disk: dict[str, Any], tmp_path: Path
) -> None:
    """LMCache's key of a model is its name, which the next revision has, too."""
    (tmp_path / "model").mkdir()
    weights = tmp_path / "model/model.safetensors"
    disk["model"] = str(tmp_path / "model")
    there = []
    for content, dtype in ((b"1", "bfloat16"), (b"2", "bfloat16"), (b"1", "float16")):
        weights.write_bytes(content)
        client = Client(Connector(**{**disk, "dtype": dtype}))
        there.append(client.exists(["a"]))
        assert client.set(["a"], [content * 64])
        client.native.close()
    weights.write_bytes(b"1")
    client = Client(Connector(**disk))
    there.append(client.exists(["a"]))
    assert client.get(["a"], [64]) == [b"1" * 64]
    client.native.close()
    assert there == [[False], [False], [False], [True]]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"model": None}, "model: expected the model's folder, its name on the Hub, or a text"),
        ({"dtype": None}, "dtype: expected the type of the cache"),
        ({"model": 5}, "model: expected a text, got 5"),
        ({"disk": None}, "disk: expected a directory, as disk_bytes is given, got None"),
        ({"disk": None, "disk_bytes": None}, "disk: expected a directory, or one of the keys"),
        ({"disk": None, "disk_bytes": None, "host_bytes": 0}, "disk: expected a directory, or one"),
        ({"disk_bytes": None}, "disk_bytes: expected the bytes of the directory"),
        ({"disk_bytes": "64"}, "disk_bytes: expected bytes of 2097152 or more"),
        ({"redis": "redis://h"}, "redis: expected 1 of disk, redis and host_bytes, got 'disk and"),
        ({"workers": 8}, "workers: expected one of the keys"),
        ({"threads": 1000}, "threads: expected a whole number from 1 to 64, got 1000"),
        ({"load_timeout_ms": 0}, "load_timeout_ms: expected a whole number from 1"),
        ({"disk": "/proc/nowhere"}, "disk: .*/proc/nowhere"),
    ],
    ids=str,
)
def test_bad_configuration_is_one_line_that_names_the_key(
    disk: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(Error, match=f"^Connector: {message}") as caught:
        open_adapter(disk | given)
    assert "\n" not in str(caught.value)


def test_hooks_that_lmcache_has_lost_are_named(
    monkeypatch: pytest.MonkeyPatch, disk: dict[str, Any]
) -> None:
    from lmcache.v1.distributed.l2_adapters import native_connector_l2_adapter

    assert folio_kv.lmcache.capabilities() == {"Connector": ""}
    with monkeypatch.context() as patch:
        patch.delattr(native_connector_l2_adapter, "NativeConnectorL2Adapter")
        with pytest.raises(Unsupported, match="Connector: LMCache 0.5.6 lacks .*L2Adapter$"):
            Connector(**disk)


def test_the_class_below_takes_any_tier() -> None:
    tier = tiers.HostTier(MIB)
    client = Client(_core.LMCacheConnector(tier, lambda key: key.encode(), 1000))
    assert client.set(["a"], [b"12345"])
    assert client.get(["a", "b"], [5, 5]) == [b"12345", None]
    with pytest.raises(Error, match="expected|CacheManager"):
        tier.load([b"a"], [bytearray(5)])  # the connector's now
    with pytest.raises(Error, match="name_of: expected to give"):
        _core.LMCacheConnector(tiers.HostTier(MIB), lambda key: b"", 0).submit_batch_exists(["a"])
    with pytest.raises(Error, match="tier: expected a Tier"):
        _core.LMCacheConnector(5, lambda key: b"", 0)
    with pytest.raises(Error, match="load_timeout_ms is -1, expected 0 or more"):
        _core.LMCacheConnector(tiers.HostTier(MIB), lambda key: b"", -1)
    client.native.close()
    with pytest.raises(Error, match="closed"):
        tier.figures()
