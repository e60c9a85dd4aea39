# SPDX-License-Identifier: Apache-2.0
"""`Connector` over what was killed, filled, damaged, or is another's: misses, no wrong objects."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lmcache")
from connector_client import MIB, WAIT_S, Client, open_adapter  # noqa: E402
from redis_process import RedisProcess  # noqa: E402

from folio_kv import Error  # noqa: E402
from folio_kv.lmcache import Connector  # noqa: E402


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
