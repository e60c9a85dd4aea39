# SPDX-License-Identifier: Apache-2.0
"""`HiCache`: SGLang's host pools, made of CPU tensors, stored and loaded again."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")
import torch  # noqa: E402
from host_pools import (  # noqa: E402
    PAGES,
    POOLS,
    config_of,
    fill,
    keys_of,
    mamba,
    mha,
    mla,
    open_backend,
    page_bytes,
    slots_of,
    storages_of,
)
from redis_process import RedisProcess  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    HiCacheFile,
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)

from folio_kv import Error, Unsupported, tiers  # noqa: E402

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, Any]:
    return {"disk": str(tmp_path / "pages"), "disk_bytes": "64MiB"}


def set_pages(backend: Any, pool: Any, keys: list[str], pages: list[int]) -> list[bool]:
    return backend.batch_set_v1(keys, slots_of(pool, pages), HiCacheStorageExtraInfo())


def get_pages(backend: Any, pool: Any, keys: list[str], pages: list[int]) -> list[bool]:
    return backend.batch_get_v1(keys, slots_of(pool, pages), HiCacheStorageExtraInfo())


@pytest.mark.parametrize("case", POOLS)
def test_a_page_comes_back_as_it_was_stored_and_nothing_beside_it_changes(
    case: str, disk: dict[str, Any]
) -> None:
    pool = POOLS[case]()
    fill(pool, 1)
    stored, targets = [0, 7, 3, PAGES - 1], [20, 5, 63, 8]
    want = [page_bytes(pool, page) for page in stored]
    keys = keys_of(4)
    backend = open_backend(pool, is_mla_model=case.startswith("mla"), **disk)
    assert set_pages(backend, pool, keys, stored) == [True] * 4
    fill(pool, 2)
    rest = {page: page_bytes(pool, page) for page in range(PAGES) if page not in targets}
    assert get_pages(backend, pool, keys, targets) == [True] * 4
    assert [page_bytes(pool, page) for page in targets] == want
    assert {page: page_bytes(pool, page) for page in rest} == rest
    backend.close()


@pytest.mark.parametrize("case", ["mha-layer_first", "mha-page_first", "mla-page_first_direct"])
def test_pages_are_moved_in_place(case: str, disk: dict[str, Any]) -> None:
    pool = POOLS[case]()
    pool.get_data_page = pool.get_dummy_flat_data_page = None  # no copies of pages from here on
    backend = open_backend(pool, **disk)
    fill(pool, 1)
    assert all(set_pages(backend, pool, keys_of(2), [1, 2]))
    before = [whole.data_ptr() for whole in storages_of(pool)]
    assert all(get_pages(backend, pool, keys_of(2), [3, 4]))
    assert [whole.data_ptr() for whole in storages_of(pool)] == before
    backend.close()


def test_a_prefix_is_found_up_to_its_first_missing_page(disk: dict[str, Any]) -> None:
    pool = mha("page_first")
    backend = open_backend(pool, **disk)
    keys = keys_of(8)
    set_pages(backend, pool, keys[:3] + keys[4:6], [0, 1, 2, 4, 5])
    assert backend.batch_exists(keys) == 3
    assert backend.batch_exists(keys[4:]) == 2
    assert [backend.exists(key) for key in keys] == [True] * 3 + [False, True, True, False, False]
    fill(pool, 9)
    untouched = page_bytes(pool, 13)
    assert get_pages(backend, pool, keys[:5], [10, 11, 12, 13, 14]) == [True] * 3 + [False, True]
    assert page_bytes(pool, 13) == untouched
    backend.clear()
    assert backend.batch_exists(keys) == 0
    backend.close()


def test_random_batches_against_a_dict(disk: dict[str, Any]) -> None:
    rng = random.Random(7)
    pool, model = mha("layer_first"), dict[str, bytes]()
    backend = open_backend(pool, **disk)
    keys = keys_of(40)
    for _ in range(60):
        some = rng.sample(keys, rng.randint(1, 12))
        pages = rng.sample(range(PAGES), len(some))
        if rng.random() < 0.5:
            fill(pool, rng.randrange(1 << 30))
            assert all(set_pages(backend, pool, some, pages))
            for key, page in zip(some, pages):
                model.setdefault(key, page_bytes(pool, page))  # names say what pages contain
        else:
            loaded = get_pages(backend, pool, some, pages)
            assert loaded == [key in model for key in some]
            for key, page, is_there in zip(some, pages, loaded):
                assert not is_there or page_bytes(pool, page) == model[key]
        assert [backend.exists(key) for key in keys] == [key in model for key in keys]
    backend.close()


# ---- Hybrid models


def hybrid(**given: Any) -> tuple[Any, dict[str, Any]]:
    """A back end with pools of keys and values, of a window, and of states."""
    pools = {PoolName.KV: mha("page_first"), PoolName.SWA: mha("layer_first")}
    pools[PoolName.MAMBA] = mamba()
    backend = open_backend(pools[PoolName.KV], **given)
    for name, pool in pools.items():
        backend.register_mem_host_pool_v2(pool, name)
    return backend, pools


def transfer_of(
    pool: Any, name: PoolName, keys: list[str], pages: list[int], policy: PoolHitPolicy
) -> PoolTransfer:
    return PoolTransfer(name, slots_of(pool, pages), keys=keys, hit_policy=policy)


def test_hybrid_pools_are_stored_and_loaded_together(disk: dict[str, Any]) -> None:
    backend, pools = hybrid(**disk)
    keys = keys_of(6)
    policies = {PoolName.KV: PoolHitPolicy.ALL_PAGES, PoolName.SWA: PoolHitPolicy.TRAILING_PAGES}
    held = {PoolName.KV: keys, PoolName.SWA: keys[4:], PoolName.MAMBA: keys[5:]}
    for seed, pool in enumerate(pools.values()):
        fill(pool, seed)
    want = {n: [page_bytes(p, i) for i in range(len(held[n]))] for n, p in pools.items()}

    def transfers(first: int) -> list[PoolTransfer]:
        return [
            transfer_of(
                pools[name],
                name,
                held[name],
                list(range(first, first + len(held[name]))),
                policies.get(name, PoolHitPolicy.TRAILING_PAGES),
            )
            for name in pools
        ]

    stored = backend.batch_set_v2(transfers(0))
    assert stored == {name: [True] * len(held[name]) for name in pools}
    found = backend.batch_exists_v2(keys, transfers(0)[1:])
    assert (found.kv_hit_pages, found.restorable_prefix_pages) == (6, [6])
    assert found.extra_pool_hit_pages == {PoolName.KV: 6, PoolName.SWA: 6, PoolName.MAMBA: 6}
    loaded = backend.batch_get_v2(transfers(30))
    assert loaded == {name: [True] * len(held[name]) for name in pools}
    for name, pool in pools.items():
        got = [page_bytes(pool, 30 + i) for i in range(len(held[name]))]
        assert got == want[name], name
    backend.close()


def test_hits_of_hybrid_pools_are_those_of_sglangs_own_file_back_end(
    disk: dict[str, Any], tmp_path: Path
) -> None:
    """The same pages stored in both: random holes, windows and policies."""
    rng = random.Random(11)
    keys = keys_of(12)
    for turn in range(25):
        given = {"disk": f"{disk['disk']}{turn}", "disk_bytes": disk["disk_bytes"]}
        backend, pools = hybrid(**given)
        file = HiCacheFile(config_of(), str(tmp_path / f"file{turn}"))
        for name, pool in pools.items():
            density = rng.choice((0.5, 0.9, 1.0))
            some = [i for i in range(len(keys)) if rng.random() < density]
            if not some:
                continue
            stored = [keys[i] for i in some]
            transfer = transfer_of(pool, name, stored, some, PoolHitPolicy.ALL_PAGES)
            backend.batch_set_v2([transfer])
            for i in some:
                suffix = "" if name == PoolName.KV else f".{name}"
                file.set(keys[i] + suffix, torch.ones(1))
        asked = [
            PoolTransfer(
                name,
                keys=keys[: rng.randint(1, 3)],
                hit_policy=rng.choice([PoolHitPolicy.ALL_PAGES, PoolHitPolicy.TRAILING_PAGES]),
            )
            for name in rng.sample([PoolName.SWA, PoolName.MAMBA], rng.randint(1, 2))
        ]
        assert backend.batch_exists_v2(keys, asked) == file.batch_exists_v2(keys, asked)
        backend.close()


def test_what_is_no_transfer_of_whole_pages_is_missing(disk: dict[str, Any]) -> None:
    backend, pools = hybrid(**disk)
    kv = pools[PoolName.KV]
    keys = keys_of(2)
    short = PoolTransfer(PoolName.KV, slots_of(kv, [0]), keys=keys)
    askew = PoolTransfer(PoolName.SWA, slots_of(kv, [0, 1]) + 1, keys=keys)
    unknown = PoolTransfer(PoolName.INDEXER, slots_of(kv, [0, 1]), keys=keys)
    nothing = PoolTransfer(PoolName.MAMBA, keys=keys)
    wanted = [short, askew, unknown, nothing]
    for call in (backend.batch_set_v2, backend.batch_get_v2):
        assert call(wanted) == {transfer.name: [False, False] for transfer in wanted}
    assert backend.batch_exists_v2(keys, [unknown]).kv_hit_pages == 0
    assert backend.batch_exists_v2([], []).kv_hit_pages == 0
    backend.close()


def test_a_policy_that_is_not_known_is_refused_by_name(disk: dict[str, Any]) -> None:
    backend, pools = hybrid(**disk)
    set_pages(backend, pools[PoolName.KV], keys_of(1), [0])
    asked = PoolTransfer(PoolName.SWA, keys=keys_of(1), hit_policy=PoolHitPolicy.BLOCK_GROUPS)
    with pytest.raises(Unsupported, match="hit_policy: expected all_pages or trailing_pages"):
        backend.batch_exists_v2(keys_of(1), [asked])
    backend.close()


# ---- Values, and what wraps a back end


def test_values_are_stored_and_loaded_by_copies(disk: dict[str, Any]) -> None:
    backend = open_backend(mha("page_first"), **disk)
    value = torch.arange(96, dtype=torch.float32).reshape(4, 24)
    assert backend.set("a", value) and backend.batch_set(["b", "c"], [value + 1, value.T])
    got = backend.get("a", torch.zeros(4, 24))
    assert torch.equal(got, value)
    b, missing, c = backend.batch_get(["b", "x", "c"], [torch.zeros(4, 24) for _ in "bxc"])
    assert torch.equal(b, value + 1) and missing is None and torch.equal(c.reshape(24, 4), value.T)
    strided = torch.zeros(24, 4).T
    assert torch.equal(backend.get("a", strided), value)
    assert backend.get("a", torch.zeros(95)) is None  # another size than what was stored
    assert backend.exists("a") and not backend.exists("x")
    with pytest.raises(Unsupported, match="target_locations: expected 1 tensors"):
        backend.get("a", 12345)
    backend.close()


def test_sglangs_injector_of_failures_goes_around_it(
    disk: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE", "0.5")
    monkeypatch.setenv("SGLANG_TEST_HICACHE_BACKEND_RANDOM_DELAY", "0.001")
    pool = mha("page_first")
    backend = open_backend(pool, **disk)
    assert type(backend).__name__ == "HiCacheStorageFailureInjector"
    fill(pool, 3)
    want = page_bytes(pool, 0)
    done = [set_pages(backend, pool, keys_of(1), [0])[0] for _ in range(30)]
    assert {*done} == {False, True}
    fill(pool, 4)
    done = [get_pages(backend, pool, keys_of(1), [page])[0] for page in range(30)]
    assert {*done} == {False, True}
    assert all(not is_there or page_bytes(pool, page) == want for page, is_there in enumerate(done))
    backend.close()


def test_stats_are_sglangs(disk: dict[str, Any]) -> None:
    pool = mha("page_first")
    backend = open_backend(pool, enable_storage_metrics=True, **disk)
    set_pages(backend, pool, keys_of(3), [0, 1, 2])
    get_pages(backend, pool, keys_of(2), [4, 5])
    stats = backend.get_stats()
    assert (stats.backup_pgs, stats.prefetch_pgs) == ([3], [2])
    assert stats.backup_bandwidth[0] > 0 and stats.prefetch_bandwidth[0] > 0
    assert backend.get_stats().backup_pgs == []
    backend.close()
    backend = open_backend(pool, **disk)
    assert backend.get_stats() is None
    backend.close()


# ---- Restarts, other models, other ranks


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


# ---- Faults


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


def test_a_closed_back_end_finds_nothing(disk: dict[str, Any]) -> None:
    pool = mha("page_first")
    backend = open_backend(pool, **disk)
    set_pages(backend, pool, keys_of(1), [0])
    backend.close()
    backend.close()
    assert backend.batch_exists(keys_of(1)) == 0
    assert get_pages(backend, pool, keys_of(1), [0]) == [False]
    assert set_pages(backend, pool, keys_of(1), [0]) == [False]


# ---- Configuration


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "disk: expected a directory, or one of the keys redis and host_bytes, got None"),
        ({"disk": "/tmp/x"}, "disk_bytes: expected the bytes of the directory"),
        ({"disk_bytes": "1GiB"}, "disk: expected a directory, as disk_bytes is given, got None"),
        ({"disk": 7, "disk_bytes": "1GiB"}, "disk: expected a text, got 7"),
        ({"disk": "", "disk_bytes": "1GiB"}, "disk: expected a text, got ''"),
        ({"disk": "/tmp/x", "disk_bytes": "1 GiX"}, "disk_bytes: expected bytes of 2097152 or"),
        ({"disk": "/tmp/x", "disk_bytes": -1}, "disk_bytes: expected bytes of 2097152 or more"),
        ({"disk": "/tmp/x", "disk_bytes": True}, "disk_bytes: expected bytes of 2097152 or more"),
        ({"host_bytes": 1.5}, "host_bytes: expected bytes: a number, or a text"),
        ({"host_bytes": "1GiB", "disks": "/tmp"}, r"disks: expected one of the keys .* \"disk\" m"),
        ({"host_bytes": "1GiB", "threads": 0}, "threads: expected a whole number from 1 to 64"),
        ({"host_bytes": "1GiB", "ttl_s": "1"}, "ttl_s: expected a whole number from 0"),
        ({"host_bytes": "1GiB", "model": ""}, "model: expected a text, got ''"),
        ({"host_bytes": "1GiB", "model": None}, "model: expected a text that stands for the wei"),
        ({"host_bytes": "1GiB", "interface_v1": 2}, "interface_v1: expected 0 or 1, got 2"),
        ({"redis": "http://x"}, "redis: .*another scheme, expected redis://"),
        ({"redis": "redis://h:99999"}, "redis: .*another port, expected 1 .. 65535"),
        (
            {"disk": "/tmp/x", "disk_bytes": "2MiB", "segment_bytes": "2MiB"},
            "segment_bytes: expected at most half of disk_bytes 2097152, got 2097152",
        ),
    ],
    ids=str,
)
def test_bad_configuration_is_one_line_that_names_the_key(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(Error, match=f"^HiCache: {message}") as caught:
        open_backend(mha("page_first"), **given)
    assert "\n" not in str(caught.value)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match=r"^HiCache: disk: .*file"):
        open_backend(mha("page_first"), disk=str(tmp_path / "file"), disk_bytes="1GiB")


def test_a_page_that_no_segment_holds_is_refused_at_start(tmp_path: Path) -> None:
    class Large:
        """A pool of pages of 2 MiB, as HostPool asks it."""

        page_size, page_num, layout, dtype, size_per_token = (
            1,
            2,
            "page_first",
            torch.uint8,
            2 * MIB,
        )
        shared_allocation_domain, dcp_size = None, 1

        def __init__(self) -> None:
            self.kv_buffer = torch.zeros(2, 2 * MIB, dtype=torch.uint8)

        def get_dummy_flat_data_page(self) -> torch.Tensor:
            return torch.zeros(2 * MIB, dtype=torch.uint8)

        def get_page_buffer_meta(self, indices: torch.Tensor) -> tuple[list[int], list[int]]:
            at = self.kv_buffer.data_ptr()
            return [at + 2 * MIB * page for page in indices.tolist()], [2 * MIB] * len(indices)

    given = {"disk": str(tmp_path / "d"), "disk_bytes": "4MiB"}
    with pytest.raises(Unsupported, match="segment_bytes: expected 2.* for a page of pool kv"):
        open_backend(Large(), **given)


def test_pools_whose_pages_move_or_are_dealt_out_are_refused_by_name(disk: dict[str, Any]) -> None:
    moving, split, strange = mha("page_first"), mla("page_first"), mha("page_first")
    moving.shared_allocation_domain = object()
    split.dcp_size = 2
    strange.get_page_buffer_meta = lambda indices: ([1234] * 2, [384] * 2)  # not its memory
    strange.get_data_page = lambda index: torch.zeros(5)
    for pool, why in (
        (moving, r"pool kv \(MHATokenToKVPoolHost, layout page_first\): its pages move"),
        (split, "decode-context parallelism"),
        (strange, "expected 768 bytes of a page, got 20"),
    ):
        with pytest.raises(Unsupported, match=why):
            open_backend(pool, host_bytes=MIB)


def test_hooks_that_sglang_has_lost_are_named(
    monkeypatch: pytest.MonkeyPatch, disk: dict[str, Any]
) -> None:
    import sglang
    from sglang.srt.mem_cache import hicache_storage

    import folio_kv.sglang

    assert folio_kv.sglang.capabilities() == {"HiCache": ""}
    with monkeypatch.context() as patch:
        patch.delattr(hicache_storage.HiCacheStorage, "batch_get_v2")
        with pytest.raises(Unsupported, match=r"lacks .*HiCacheStorage.batch_get_v2$"):
            open_backend(mha("page_first"), **disk)
    with monkeypatch.context() as patch:
        patch.setattr(sglang, "__version__", "0.4.9")
        with pytest.raises(Unsupported, match="expected 0.5 or later, got 0.4.9"):
            open_backend(mha("page_first"), **disk)


def test_the_layout_of_a_record_is_counted(disk: dict[str, Any]) -> None:
    """A page of the pool is one record: header, bytes, end mark."""
    pool = mha("page_first")
    backend = open_backend(pool, **disk)
    set_pages(backend, pool, keys_of(5), list(range(5)))
    figures = backend.figures()["disk"]
    assert (figures["pages"], figures["stored_bytes"]) == (5, 5 * 768)
    assert figures["bytes"] >= 5 * tiers.record_bytes("disk", 768)
    backend.close()
