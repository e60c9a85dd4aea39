# SPDX-License-Identifier: Apache-2.0
"""The page pool through Python: several sequences at once, waiting, and how long pages are kept."""

import pytest

import folio_kv

FIVE = [1, 2, 3, 4, 5]


def written(pool, tokens, **options):
    sequence = pool.admit(tokens, **options).id
    pool.reserve(sequence, len(tokens))
    pool.commit(sequence, tokens)
    return sequence


def test_a_batch_gets_its_room_or_none_does():
    pool = folio_kv.PagePool(8, 4)
    ids = [pool.admit([i]).id for i in (1, 2)]
    with pytest.raises(folio_kv.OutOfPages, match="9 pages needed"):
        pool.reserve_batch(ids, [16, 20])
    assert pool.stats()["used_pages"] == 0
    pool.reserve_batch(ids, [16, 16])
    assert pool.stats()["used_pages"] == 8
    with pytest.raises(folio_kv.Error, match="listed once"):
        pool.reserve_batch([ids[0], ids[0]], [1, 1])
    with pytest.raises(folio_kv.Error, match="one for each of 2 sequences, got 1"):
        pool.reserve_batch(ids, [1])
    pool.check_invariants()


def test_a_refused_reserve_is_explained():
    pool = folio_kv.PagePool(8, 4, watermark_pages=1)
    running, waiting = (pool.admit([i]).id for i in (1, 2))
    pool.reserve(running, 24)
    with pytest.raises(folio_kv.OutOfPages):
        pool.reserve(waiting, 8)
    told = pool.explain(waiting, 8)
    assert (told["needed"], told["held_back"], told["free"], told["of_sequences"]) == (2, 1, 2, 6)


def test_look_ahead_slots_are_reserved_too():
    pool = folio_kv.PagePool(8, 4, lookahead_tokens=4)
    pool.reserve(pool.admit([1]).id, 4)
    assert pool.stats()["used_pages"] == 2


def test_children_share_a_cut_page_until_one_writes():
    pool = folio_kv.PagePool(8, 4)
    parent = written(pool, FIVE)
    first, second = pool.fork_many(parent, 5, 2)
    assert pool.stats()["used_pages"] == 2
    pool.reserve(first, 1)
    assert pool.stats()["used_pages"] == 3 and pool.length(second) == 5
    for children in (-1, 257):
        with pytest.raises(folio_kv.Error, match=f"children is {children}, expected 0 to 256"):
            pool.fork_many(parent, 5, children)


def test_of_a_tree_of_drafts_one_path_is_kept():
    pool = folio_kv.PagePool(8, 4)
    tree = [written(pool, FIVE)]
    tree += pool.fork_many(tree[0], 5, 2)
    pool.reserve(tree[2], 1)
    pool.take_copies()
    pool.commit(tree[2], [6])
    with pytest.raises(folio_kv.Error, match="leaf"):
        pool.keep_path(tree, 3)
    pool.keep_path(tree, 2)
    assert pool.length(tree[0]) == 6 and pool.stats()["sequences"] == 1
    with pytest.raises(folio_kv.Error, match="keep_path"):
        pool.keep_path(tree, 0)
    pool.check_invariants()


def test_who_is_preempted_comes_back_with_what_is_cached():
    pool = folio_kv.PagePool(8, 4)
    sequence = written(pool, FIVE)
    with pytest.raises(folio_kv.Error, match="resume"):
        pool.resume(sequence, FIVE)
    pool.preempt(sequence)
    assert pool.length(sequence) == 0
    resumed = pool.resume(sequence, FIVE)
    assert resumed.id == sequence and resumed.cached_tokens == 4
    pool.release(sequence)
    for call in (pool.preempt, lambda stale: pool.resume(stale, FIVE)):
        with pytest.raises(folio_kv.Error):
            call(sequence)


def test_pins_end_with_their_time():
    pool = folio_kv.PagePool(8, 4, max_retention_ms=1000)
    pool.advance_time(10)
    pool.release(written(pool, FIVE, retention=[(0, 100, 100, 50)], decode_retention=(10, 5)))
    assert pool.stats()["pinned_pages"] == 1
    pool.advance_time(200)
    assert pool.stats()["pinned_pages"] == 0 and pool.peek(FIVE) == 4
    assert pool.retain(FIVE, retention=[(0, 4, 100, 0)]) == 4
    assert pool.stats()["pinned_pages"] == 1
    with pytest.raises(folio_kv.Error, match="advance_time"):
        pool.advance_time(199)
    pool.check_invariants()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retention": [(0, 4, 101, 0)]}, "101"),
        ({"retention": [(4, 4, 50, 0)]}, "range 0 is 4 .. 4"),
        ({"retention": [(0, 4, 50, 1001)]}, "1001"),
        ({"retention": [(0, 4, 50, 0)] * 9}, "9 ranges"),
        ({"retention": [(0, 4)]}, r"retention\[0\]: expected"),
        ({"retention": [(0, 4, 50, 2**63)]}, r"retention\[0\]: expected"),
        ({"decode_retention": (-1, 0)}, "decode_retention: expected"),
        ({"decode_retention": 5}, "decode_retention: expected"),
        ({"decode_retention": (101, 0)}, "101"),
    ],
)
def test_bad_retention_is_refused_by_name(options, words):
    pool = folio_kv.PagePool(8, 4, max_retention_ms=1000)
    with pytest.raises(folio_kv.Error, match=words):
        pool.admit(FIVE, **options)
    assert pool.stats()["sequences"] == 0


def test_without_retention_none_may_ask():
    pool = folio_kv.PagePool(8, 4)
    with pytest.raises(folio_kv.Error, match="max_retention_ms is 0"):
        pool.admit(FIVE, retention=[(0, 4, 50, 0)])
