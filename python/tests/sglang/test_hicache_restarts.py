# SPDX-License-Identifier: Apache-2.0
"""`HiCache`, started again: which engine, model and rank finds which pages."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")
import torch  # noqa: E402
from host_pools import (  # noqa: E402
    MIB,
    PAGES,
    fill,
    get_pages,
    keys_of,
    mha,
    mla,
    open_backend,
    page_bytes,
    set_pages,
)
from redis_process import RedisProcess  # noqa: E402

from folio_kv import Error  # noqa: E402


def test_an_engine_that_restarts_finds_its_pages(disk: dict[str, Any]) -> None:
    """Stored by another process, which was killed."""
    pool = mha("page_first")
    fill(pool, 5)
    want = [page_bytes(pool, page) for page in range(3)]
    child = os.fork()
    if child == 0:
        try:
            assert all(set_pages(open_backend(pool, **disk), pool, keys_of(3), [0, 1, 2]))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    backend = open_backend(pool, **disk)
    fill(pool, 6)
    assert backend.batch_exists(keys_of(4)) == 3
    assert get_pages(backend, pool, keys_of(3), [9, 8, 7]) == [True] * 3
    assert [page_bytes(pool, page) for page in (9, 8, 7)] == want
    backend.close()


@pytest.mark.parametrize(
    "other",
    [
        {"model": "another"},
        {"model_name": "another"},
        {"tp_rank": 1, "tp_size": 2},
        {"pp_rank": 1, "pp_size": 2},
        {"attn_cp_rank": 1, "attn_cp_size": 2},
    ],
    ids=lambda other: "-".join(other),
)
def test_pages_of_another_model_or_rank_are_not_found(other: dict[str, Any]) -> None:
    """In one server of Redis, as in one directory: names differ, and fingerprints or names too."""
    names = []
    for given in ({}, other):
        backend = open_backend(mha("page_first"), host_bytes=MIB, **given)
        names.append((backend._root, backend._names("kv", keys_of(1))))
        backend.close()
    assert names[0][1] != names[1][1]


def test_another_models_directory_gives_nothing(disk: dict[str, Any]) -> None:
    pool = mha("page_first")
    backend = open_backend(pool, **disk)
    set_pages(backend, pool, keys_of(4), [0, 1, 2, 3])
    backend.close()
    for given in ({"model": "another"}, {"model_name": "other"}):
        backend = open_backend(pool, **given, **disk)
        assert backend.batch_exists(keys_of(4)) == 0
        fill(pool, 2)
        before = page_bytes(pool, 5)
        assert get_pages(backend, pool, keys_of(1), [5]) == [False]
        assert page_bytes(pool, 5) == before
        backend.close()
    # nor does another geometry of the same model find them
    for other in (mha("layer_first"), mha("page_first", torch.float16), mla("page_first")):
        backend = open_backend(other, **disk)
        assert backend.batch_exists(keys_of(4)) == 0
        backend.close()
    backend = open_backend(pool, **disk)  # and the first one's are still there
    assert backend.batch_exists(keys_of(4)) == 4
    backend.close()


def test_two_engines_cannot_have_one_directory(disk: dict[str, Any]) -> None:
    backend = open_backend(mha("page_first"), **disk)
    with pytest.raises(Error, match=r"^HiCache: disk: .*pages") as caught:
        open_backend(mha("page_first"), **disk)
    assert caught.value.code == "busy" and "\n" not in str(caught.value)
    backend.close()
    open_backend(mha("page_first"), **disk).close()


def test_another_process_has_the_directory_until_it_is_killed(disk: dict[str, Any]) -> None:
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept = open_backend(mha("page_first"), **disk)
            os.write(tell, b"1")
            signal.pause()
            kept.close()
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    with pytest.raises(Error, match="^HiCache: disk: ") as caught:
        open_backend(mha("page_first"), **disk)
    assert caught.value.code == "busy"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    open_backend(mha("page_first"), **disk).close()


def test_an_engine_that_is_killed_as_it_stores_leaves_whole_pages(disk: dict[str, Any]) -> None:
    """Prompt n has the bytes of seed n: whatever is found has them."""
    pool = mha("layer_first")
    pages = list(range(PAGES))
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # OpenMP's are the parent's
            backend = open_backend(pool, **disk)
            for prompt in range(1 << 30):
                fill(pool, prompt)
                set_pages(backend, pool, keys_of(PAGES, f"{prompt}"), pages)
                os.write(tell, b"1")
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    backend = open_backend(pool, **disk)
    found = 0
    for prompt in range(10):
        fill(pool, prompt)
        want = [page_bytes(pool, page) for page in pages]
        fill(pool, 1000)
        loaded = get_pages(backend, pool, keys_of(PAGES, f"{prompt}"), pages)
        found += sum(loaded)
        assert all(page_bytes(pool, i) == want[i] for i, is_there in enumerate(loaded) if is_there)
    assert found > 0
    backend.close()


def test_ranks_have_folders_of_their_own(disk: dict[str, Any]) -> None:
    ranks = [open_backend(mha("page_first"), tp_rank=r, tp_size=2, **disk) for r in range(2)]
    folder = Path(disk["disk"])
    assert sorted(path.name for path in folder.iterdir()) == ["tp0", "tp1"]
    pool = mha("page_first")
    for rank in ranks:
        rank.register_mem_pool_host(pool)
    set_pages(ranks[0], pool, keys_of(1), [0])
    assert [rank.batch_exists(keys_of(1)) for rank in ranks] == [1, 0]
    for rank in ranks:
        rank.close()


def test_ranks_of_an_mla_model_share_pages_by_redis(disk: dict[str, Any], tmp_path: Path) -> None:
    ranked = [{"tp_rank": rank, "tp_size": 2, "is_mla_model": True} for rank in range(2)]
    with pytest.raises(Error, match="^HiCache: redis: expected a URL beside disk"):
        open_backend(mla("page_first"), **ranked[0], **disk)
    server = RedisProcess(tmp_path)
    pools = [mla("page_first") for _ in ranked]
    given = {"redis": server.url, **disk}
    ranks = [open_backend(pool, **rank, **given) for pool, rank in zip(pools, ranked)]
    fill(pools[0], 1)
    assert all(set_pages(ranks[0], pools[0], keys_of(3), [0, 1, 2]))
    assert [rank.batch_exists(keys_of(3)) for rank in ranks] == [3, 3]
    assert all(get_pages(ranks[1], pools[1], keys_of(3), [0, 1, 2]))
    assert page_bytes(pools[1], 2) == page_bytes(pools[0], 2)
    assert list(ranks[1].figures()) == ["redis"]
    for rank in ranks:
        rank.close()
    server.kill()
