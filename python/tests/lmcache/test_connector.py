# SPDX-License-Identifier: Apache-2.0
"""`Connector` by the calls of a native client, beside LMCache's own one for file systems, which
answers the same.
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lmcache")
from connector_client import MIB, Client, open_adapter  # noqa: E402
from lmcache.lmcache_fs import LMCacheFSClient  # noqa: E402

import folio_kv.lmcache  # noqa: E402
from folio_kv import Error, Unsupported, _core, tiers  # noqa: E402
from folio_kv.lmcache import Connector  # noqa: E402


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
