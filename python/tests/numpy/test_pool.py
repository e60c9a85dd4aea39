# SPDX-License-Identifier: Apache-2.0
"""The page pool through Python: prefix reuse, forks, steps, stale ids."""

import numpy as np
import pytest

import folio_kv


def test_a_second_prompt_shares_the_pages_of_the_first():
    pool = folio_kv.PagePool(16, 4)
    first = pool.admit(list(range(10)))
    pool.reserve(first.id, 10)
    pool.commit(first.id, np.arange(10, dtype=np.int32))
    assert first.cached_tokens == 0 and pool.length(first.id) == 10
    second = pool.admit(np.arange(10))
    assert second.cached_tokens == 8 == pool.peek(list(range(10)))
    starts = pool.batch_rows([first.id, second.id])
    table = pool.table().reshape(-1)
    assert (table[starts[0] : starts[0] + 2] == table[starts[1] : starts[1] + 2]).all()
    assert pool.stats()["hit_tokens"] == 8
    assert pool.admit(list(range(10)), salt=b"tenant").cached_tokens == 0
    assert pool.admit(list(range(10)), adapter=7).cached_tokens == 0
    pool.check_invariants()


@pytest.mark.parametrize(
    ("eviction", "kept"), [("lru", 0), ("s3_fifo", 1), ("lfu", 1), ("cost", 1)]
)
def test_a_policy_says_which_cached_page_goes_first(eviction, kept):
    pool = folio_kv.PagePool(4, 1, eviction=eviction)
    for token in (1, 1, 1, 1, 2, 3, 4, 5, 6, 7):
        sequence = pool.admit([token, 0])
        if sequence.cached_tokens == 0:
            pool.reserve(sequence.id, 1)
            pool.commit(sequence.id, [token])
        pool.release(sequence.id)
        pool.check_invariants()
    assert pool.peek([1, 0]) == kept


@pytest.mark.parametrize("eviction", ["", "LRU", "s3-fifo", "mru", "lru\0"])
def test_an_unknown_policy_is_refused(eviction):
    with pytest.raises(
        folio_kv.Error, match=r'eviction: expected "lru", "s3_fifo", ("\w+", )*"\w+" or "\w+", got'
    ):
        folio_kv.PagePool(4, 1, eviction=eviction)


def test_a_fork_shares_full_pages_and_copies_the_cut_one():
    pool = folio_kv.PagePool(16, 4)
    sequence = pool.admit([1, 2, 3, 4, 5, 6])
    pool.reserve(sequence.id, 6)
    pool.commit(sequence.id, [1, 2, 3, 4, 5, 6])
    fork = pool.fork(sequence.id, 6)
    ((source, target, tokens),) = pool.take_copies()
    assert tokens == 2 and source != target
    cache = folio_kv.KVCache(2, 16, 4, kv_heads=1, head_size=8, dtype="f32")
    for layer in cache:
        np.from_dlpack(layer.key)[source] = 3
        np.from_dlpack(layer.key)[target] = 0
    folio_kv.copy_pages(list(cache), list(cache), [(source, target, tokens)])
    assert (np.from_dlpack(cache[1].key)[target, :2] == 3).all()
    assert (np.from_dlpack(cache[1].key)[target, 2:] == 0).all()
    pool.trim(fork, 1)
    assert pool.length(fork) == 1 and pool.length(sequence.id) == 6


def test_a_step_of_the_pool_is_a_batch_of_its_rows():
    pool = folio_kv.PagePool(16, 4)
    ids = [pool.admit(prompt).id for prompt in ([1, 2, 3, 4, 5], [7])]
    for id, n in zip(ids, (5, 1)):
        pool.reserve(id, n)
    step = pool.step(ids, [5, 1])
    assert (step.size, step.tokens, step.max_context) == (2, 6, 5)
    pages = folio_kv.KVCache(1, 16, 4, kv_heads=1, head_size=8, dtype="f32")[0]
    rows = np.random.default_rng(0).standard_normal((6, 1, 8)).astype(np.float32)
    out = step(folio_kv.Kind(1), pages, rows, rows, rows)
    np.testing.assert_allclose(out[5], rows[5], atol=1e-6)
    ticket = pool.begin_step(ids)
    pool.release(ids[0])
    pool.end_step(ticket)
    with pytest.raises(folio_kv.Error):
        pool.end_step(ticket)


def test_a_page_stays_until_its_transfer_ends():
    pool = folio_kv.PagePool(2, 4, max_io_pins=1)
    id = pool.admit([1, 2, 3, 4]).id
    pool.reserve(id, 4)
    pin = pool.begin_io(id, 0)
    assert pool.page_of(pin) == pool.table().ravel()[pool.row_start(id)]
    with pytest.raises(folio_kv.Error, match="max_io_pins"):
        pool.begin_io(id, 0)
    pool.release(id)
    assert pool.stats()["free_pages"] == 1
    pool.end_io(pin)
    assert pool.stats()["free_pages"] == 2
    with pytest.raises(folio_kv.Error, match="that has not ended"):
        pool.end_io(pin)


def test_a_pool_without_pages_says_so_and_changes_nothing():
    pool = folio_kv.PagePool(2, 4, max_sequences=2)
    pool.reserve(pool.admit([1, 2, 3]).id, 8)
    late = pool.admit([4]).id
    before = pool.stats()
    with pytest.raises(folio_kv.OutOfPages) as refusal:
        pool.reserve(late, 1)
    assert refusal.value.code == "out_of_pages"
    with pytest.raises(folio_kv.OutOfPages):
        pool.admit([1])
    assert pool.stats() == before


def test_a_step_beyond_the_reserved_room_is_refused():
    pool = folio_kv.PagePool(64, 4, max_sequences=4, max_pages_per_sequence=2)
    ids = [pool.admit([1, 2, 3]).id, pool.admit([4, 5, 6]).id]
    pool.reserve(ids[1], 8)
    assert pool.step(ids, [0, 8]).tokens == 8
    for new_tokens in ([1, 0], [0, 9], [4 * pool.table().shape[1] + 8, 0]):
        with pytest.raises(folio_kv.Error, match="new_tokens.*room is reserved for"):
            pool.step(ids, new_tokens)


@pytest.mark.parametrize(
    "call",
    [
        lambda pool, id: pool.length(id),
        lambda pool, id: pool.reserve(id, 1),
        lambda pool, id: pool.commit(id, [1]),
        lambda pool, id: pool.trim(id, 0),
        lambda pool, id: pool.fork(id, 0),
        lambda pool, id: pool.release(id),
        lambda pool, id: pool.row_start(id),
        lambda pool, id: pool.batch_rows([id]),
        lambda pool, id: pool.begin_step([id]),
        lambda pool, id: pool.begin_io(id, 0),
        lambda pool, id: pool.step([id], [1]),
    ],
)
def test_a_released_sequence_is_refused_everywhere(call):
    pool = folio_kv.PagePool(4, 4)
    id = pool.admit([1, 2]).id
    pool.release(id)
    pool.admit([1, 2])
    with pytest.raises(folio_kv.Error, match="sequence|stale|id"):
        call(pool, id)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: folio_kv.PagePool(0), "num_pages"),
        (lambda: folio_kv.PagePool(2**31), "num_pages"),
        (lambda: folio_kv.PagePool(4, 0), "page_size"),
        (lambda: folio_kv.PagePool(4, 4, max_sequences=0), "max_sequences"),
        (lambda: folio_kv.PagePool(4).admit([]), "prompt"),
        (lambda: folio_kv.PagePool(4).admit([2**31]), r"prompt\[0\] is 2147483648"),
        (lambda: folio_kv.PagePool(4).admit("text"), "prompt: expected an array"),
        (lambda: folio_kv.PagePool(4).admit([1], salt=b"x" * 129), "salt"),
        (lambda: folio_kv.PagePool(4).batch_rows(["id"]), r"ids\[0\]: expected a SequenceId"),
        (lambda: folio_kv.PagePool(4).step([], [1]), "new_tokens: expected one for each of 0"),
    ],
)
def test_a_hostile_argument_of_the_pool_is_named(call, message):
    with pytest.raises(folio_kv.Error, match=message):
        call()


def test_the_table_is_read_only_and_outlives_the_name_of_its_pool():
    pool = folio_kv.PagePool(4, 4)
    table = pool.table()
    del pool
    assert (table == 4).all() and not table.flags.writeable
