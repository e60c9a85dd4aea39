# SPDX-License-Identifier: Apache-2.0
"""`HiCache`: SGLang's host pools, made of CPU tensors, stored and loaded again."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("sglang")
import torch  # noqa: E402
from host_pools import (  # noqa: E402
    PAGES,
    POOLS,
    fill,
    get_pages,
    keys_of,
    mha,
    open_backend,
    page_bytes,
    set_pages,
    storages_of,
)

from folio_kv import Unsupported, tiers  # noqa: E402


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


def test_a_closed_back_end_finds_nothing(disk: dict[str, Any]) -> None:
    pool = mha("page_first")
    backend = open_backend(pool, **disk)
    set_pages(backend, pool, keys_of(1), [0])
    backend.close()
    backend.close()
    assert backend.batch_exists(keys_of(1)) == 0
    assert get_pages(backend, pool, keys_of(1), [0]) == [False]
    assert set_pages(backend, pool, keys_of(1), [0]) == [False]


def test_the_layout_of_a_record_is_counted(disk: dict[str, Any]) -> None:
    """A page of the pool is one record: header, bytes, end mark."""
    pool = mha("page_first")
    backend = open_backend(pool, **disk)
    set_pages(backend, pool, keys_of(5), list(range(5)))
    figures = backend.figures()["disk"]
    assert (figures["pages"], figures["stored_bytes"]) == (5, 5 * 768)
    assert figures["bytes"] >= 5 * tiers.record_bytes("disk", 768)
    backend.close()
