# SPDX-License-Identifier: Apache-2.0
"""The page pool through Python: events, readers, hits inside a page, items of other kinds, merging."""

import threading

import numpy
import pytest

import folio_kv

EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]


def served(pool, tokens, **options):
    admitted = pool.admit(tokens, **options)
    pool.take_copies()
    pool.reserve(admitted.id, len(tokens) - admitted.cached_tokens)
    pool.commit(admitted.id, tokens[admitted.cached_tokens :])
    pool.release(admitted.id)
    return admitted.cached_tokens


def test_what_is_stored_and_cleared_is_told_in_order():
    pool = folio_kv.PagePool(8, 4, event_capacity=8)
    served(pool, EIGHT)
    events, following, lost = pool.read_events(0)
    assert [(e.number, e.kind, e.position, e.num_tokens) for e in events] == [
        (1, "stored", 0, 4),
        (2, "stored", 1, 4),
    ]
    assert events[1].parent == events[0].content and following == 3 and not lost
    pool.clear()
    events, following, lost = pool.read_events(following)
    assert [e.kind for e in events] == ["cleared"] and following == 4
    assert pool.peek([*EIGHT, 9]) == 0


def test_a_reader_that_is_late_takes_a_snapshot():
    pool = folio_kv.PagePool(8, 4, event_capacity=2)
    for first in (1, 2, 3):
        served(pool, [10 * first, *EIGHT[1:]])
    assert pool.read_events(1) == ([], 7, True)
    events, tokens, last = pool.snapshot()
    assert last == 6 and len({e.content for e in events}) == 6
    assert tokens.dtype == numpy.int32 and tokens.shape == (6, 4)


def test_a_snapshot_has_the_tokens_that_events_were_told_with():
    told = {}

    def tell(event, tokens):
        if event.kind == "cleared":
            told.clear()
        elif event.kind == "removed":
            del told[event.content]
        else:
            told[event.content] = (event.parent, tokens)

    pool = folio_kv.PagePool(5, 4, on_event=tell)
    for first in (1, 2, 3):  # the third takes pages of the first
        served(pool, [10 * first, *EIGHT[1:], 9])
    events, tokens, _ = pool.snapshot()
    assert len(events) == len(told) == 4
    assert {e.content: (e.parent, row.tolist()) for e, row in zip(events, tokens)} == told
    tokens[:] = 0  # a copy: the pool has its own
    assert pool.peek([30, *EIGHT[1:], 9]) == 8
    pool.clear()
    events, tokens, last = pool.snapshot()
    assert events == [] and told == {} and tokens.shape == (0, 4) and last > 6


def test_a_snapshot_tells_of_companions_behind_the_leading_pages():
    groups = [{"page_bytes": 64}, {"rule": "window", "page_bytes": 64, "window": 4}]
    pool = folio_kv.PagePool(0, 4, groups=groups, arena_bytes=64 * 16, event_capacity=8)
    served(pool, EIGHT)
    events, tokens, _ = pool.snapshot()
    assert [e.group for e in events[:2]] == [0, 0] and {e.group for e in events[2:]} == {1}
    assert sorted(tokens[:2].tolist()) == [EIGHT[:4], EIGHT[4:]]
    row = {e.content: tokens[i].tolist() for i, e in enumerate(events[:2])}
    assert all(tokens[i].tolist() == row[events[i].content] for i in range(2, len(events)))


def test_another_thread_reads_while_the_scheduler_works():
    pool = folio_kv.PagePool(64, 4, readers=True, event_capacity=64, histograms=True)
    reader = pool.reader()
    seen, done = [], threading.Event()

    def read():
        while not done.is_set():
            seen.append((reader.peek([*EIGHT, 9]), reader.stats()["used_pages"]))

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(200):
        served(pool, [i % 7, *EIGHT])
        served(pool, EIGHT)
    done.set()
    thread.join()
    assert set(hit for hit, _ in seen) <= {0, 8} and all(0 <= used <= 3 for _, used in seen)
    assert reader.peek([*EIGHT, 9]) == 8
    assert reader.stats() == pool.stats()
    assert (
        sum(reader.histograms()["reuse"]["counts"]) == sum(pool.histograms()["reuse"]["counts"]) > 0
    )
    assert reader.read_events(1, 3)[1] == pool.read_events(1, 3)[1]


def test_a_reader_keeps_its_pool_alive():
    reader = folio_kv.PagePool(8, 4, readers=True).reader()
    assert reader.stats()["free_pages"] == 8


def test_hits_end_inside_a_page():
    pool = folio_kv.PagePool(8, 4, min_partial_tokens=2)
    served(pool, EIGHT)
    assert pool.admit([*EIGHT[:7], 9]).cached_tokens == 7
    assert pool.take_copies() == [(1, 2, 3)]
    assert pool.stats()["hit_tokens_partial"] == 3


def test_prompts_with_other_images_share_no_pages_behind_them():
    pool = folio_kv.PagePool(8, 4, max_spans=1, readers=True)
    prompt = [1, 2, 3, 4, 0, 0, 0, 0, 5]
    one, other = bytes(32), bytes(31) + b"x"
    served(pool, prompt, spans=[(5, 2, one)])
    for source in (pool, pool.reader()):
        assert source.peek(prompt, spans=[(5, 2, one)]) == 8
        assert source.peek(prompt, spans=[(5, 2, other)]) == 4
        assert source.peek(prompt) == 4
    with pytest.raises(folio_kv.Error, match=r"spans\[0\] has 5 tokens from 5 on"):
        pool.admit(prompt, spans=[(5, 5, one)])
    for wrong in ((5, 2), (5, 2, b"short"), (5, 2, None), 7):
        with pytest.raises(folio_kv.Error, match=r"spans\[0\]: expected \(offset, length, hash\)"):
            pool.admit(prompt, spans=[wrong])
    pool.check_invariants()


def test_a_merged_commit_gives_the_second_page_up():
    pool = folio_kv.PagePool(8, 4)
    first, second = (pool.admit(EIGHT[:4]).id for _ in range(2))
    for sequence in (first, second):
        pool.reserve(sequence, 4)
    pool.commit(first, EIGHT[:4])
    pool.commit(second, EIGHT[:4], merge=True)
    assert pool.stats()["used_pages"] == 1


def test_what_was_not_asked_for_is_refused_by_name():
    pool = folio_kv.PagePool(8, 4)
    for call, words in (
        (lambda: pool.read_events(1), "expected event_capacity"),
        (pool.snapshot, "expected event_capacity"),
        (pool.reader, "expected PoolOptions::readers"),
        (pool.histograms, "histograms"),
    ):
        with pytest.raises(folio_kv.Error, match=words):
            call()
    events = folio_kv.PagePool(8, 4, event_capacity=1)
    for most in (-1, 2**24 + 1):
        with pytest.raises(folio_kv.Error, match=f"most is {most}, expected 0 to"):
            events.read_events(1, most)
    pool.reserve(pool.admit([1]).id, 1)
    with pytest.raises(folio_kv.Error, match="1 pages are used"):
        pool.clear()
