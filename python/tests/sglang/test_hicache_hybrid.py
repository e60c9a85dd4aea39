# SPDX-License-Identifier: Apache-2.0
"""`HiCache` of hybrid models: pools of keys and values, of windows and of states together."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang")
import torch  # noqa: E402
from host_pools import (  # noqa: E402
    config_of,
    fill,
    keys_of,
    mamba,
    mha,
    open_backend,
    page_bytes,
    set_pages,
    slots_of,
)
from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    HiCacheFile,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)

from folio_kv import Unsupported  # noqa: E402


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
