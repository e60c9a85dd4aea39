# SPDX-License-Identifier: Apache-2.0
"""`HiCache` over full and damaged directories and servers that are killed: misses, no wrong pages."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")
from host_pools import (  # noqa: E402
    MIB,
    PAGES,
    fill,
    get_pages,
    keys_of,
    mha,
    open_backend,
    page_bytes,
    set_pages,
)
from redis_process import RedisProcess  # noqa: E402

from folio_kv import Error  # noqa: E402


def test_a_full_disk_loses_pages_and_never_gives_wrong_ones(tmp_path: Path) -> None:
    pool = mha("page_first")
    given = {"disk": str(tmp_path / "small"), "disk_bytes": 2 * MIB, "segment_bytes": MIB}
    backend = open_backend(pool, **given)
    want: dict[str, bytes] = {}
    for turn in range(20):  # 1,280 pages of 4 KiB each with their header: twice the directory
        fill(pool, turn)
        keys = keys_of(PAGES, f"prompt{turn}")
        done = set_pages(backend, pool, keys, list(range(PAGES)))
        want |= {key: page_bytes(pool, i) for i, key in enumerate(keys) if done[i]}
    used = sum(file.stat().st_size for file in (tmp_path / "small").iterdir())
    assert used <= 2 * MIB
    found = 0
    for key, content in want.items():
        if get_pages(backend, pool, [key], [3])[0]:
            found += 1
            assert page_bytes(pool, 3) == content
    assert 0 < found < len(want)
    backend.close()


def test_a_corrupted_directory_gives_misses(disk: dict[str, Any]) -> None:
    pool = mha("page_first")
    fill(pool, 1)
    backend = open_backend(pool, **disk)
    set_pages(backend, pool, keys_of(20), list(range(20)))
    want = [page_bytes(pool, page) for page in range(20)]
    backend.close()
    rng = random.Random(3)
    for file in Path(disk["disk"]).iterdir():
        if file.name == "format" or not file.stat().st_size:
            continue
        content = bytearray(file.read_bytes())
        for _ in range(200):
            content[rng.randrange(min(len(content), 20 * 4096))] ^= 0x55
        file.write_bytes(content)
    backend = open_backend(pool, **disk)
    fill(pool, 2)
    loaded = get_pages(backend, pool, keys_of(20), list(range(20)))
    assert not all(loaded)
    assert all(page_bytes(pool, i) == want[i] for i, is_there in enumerate(loaded) if is_there)
    missing = [i for i, is_there in enumerate(loaded) if not is_there]
    fill(pool, 1)
    assert all(set_pages(backend, pool, [keys_of(20)[i] for i in missing], missing))
    fill(pool, 2)
    assert all(get_pages(backend, pool, keys_of(20), list(range(20))))
    assert [page_bytes(pool, page) for page in range(20)] == want
    backend.close()
    (Path(disk["disk"]) / "format").write_text("something else")
    with pytest.raises(Error, match="^HiCache: disk: .*format is not what a disk tier writes$"):
        open_backend(pool, **disk)


def test_a_killed_redis_gives_misses_and_is_found_again(tmp_path: Path) -> None:
    server = RedisProcess(tmp_path)
    pool = mha("page_first")
    backend = open_backend(pool, redis=server.url, ttl_s=600)
    fill(pool, 1)
    keys = keys_of(30)
    pages = list(range(30))
    want = [page_bytes(pool, page) for page in pages]
    assert all(set_pages(backend, pool, keys, pages))
    other = open_backend(mha("page_first"), redis=server.url)  # knows nothing: it asks
    assert other.batch_exists(keys_of(32)) == 30
    other.close()
    server.kill()
    fill(pool, 2)
    loaded = get_pages(backend, pool, keys, pages)
    assert loaded == [False] * 30
    assert set_pages(backend, pool, keys_of(3, "b"), [0, 1, 2]) == [False] * 3
    server.start()
    fill(pool, 1)
    for _ in range(100):  # tried again after 50 ms, then twice as long each time
        if all(set_pages(backend, pool, keys, pages)):
            break
        time.sleep(0.05)
    else:
        pytest.fail("the server was not found again")
    fill(pool, 2)
    assert get_pages(backend, pool, keys, pages) == [True] * 30
    assert [page_bytes(pool, page) for page in pages] == want
    backend.close()
    server.kill()


def test_a_redis_that_is_killed_in_the_midst_gives_no_wrong_page(tmp_path: Path) -> None:
    server = RedisProcess(tmp_path)
    pool = mha("layer_first")
    fill(pool, 1)
    pages = list(range(PAGES))
    want = [page_bytes(pool, page) for page in pages]
    backend = open_backend(pool, redis=server.url, disk=str(tmp_path / "d"), disk_bytes="64MiB")
    killer = threading.Timer(0.05, server.kill)
    killer.start()
    turn = after = 0
    while after < 3:
        turn, after = turn + 1, after + (server.process is None)
        keys = keys_of(PAGES, f"{turn}")
        fill(pool, 1)
        assert all(set_pages(backend, pool, keys, pages))  # the disk has them
        fill(pool, turn + 2)
        assert all(get_pages(backend, pool, keys, pages))
        assert [page_bytes(pool, page) for page in pages] == want
    killer.join()
    assert backend.figures()["redis"]["store_outcomes"]["failed"] > 0
    backend.close()
