# SPDX-License-Identifier: Apache-2.0
"""Tiers through Python: pages of arrays, and how calls end."""

import array

import numpy as np
import pytest
from tier_kinds import KINDS, tier_of
from tier_pages import MIB, name_of

import folio_kv
from folio_kv import tiers


def layouts(rng):
    """Arrays of 7 pages, each seen in another way."""
    dense = rng.integers(0, 256, (7, 3, 16), np.uint8)
    wide = rng.integers(0, 256, (7, 12, 5), np.uint8)
    yield [dense]
    yield [wide[:, ::2, 1:4]]
    yield [wide[::-1, ::-1]]
    yield [np.moveaxis(rng.random((4, 7, 6)).astype(np.float32), 1, 0), dense[:, 1]]
    yield [rng.integers(-9, 9, (2, 7, 4))[0], rng.random(7), np.asfortranarray(dense)]
    yield [np.lib.stride_tricks.as_strided(wide.reshape(-1)[3:], (7, 4, 3), (40, 8, 1))]


@pytest.mark.parametrize("which", range(6))
def test_pages_of_arrays_come_back_as_they_went_whatever_the_strides(tier, which):
    rng = np.random.default_rng(which)
    source = list(layouts(rng))[which]
    target = [np.zeros_like(a) for a in list(layouts(rng))[which]]
    assert [a.shape for a in target] == [a.shape for a in source]
    pages = tiers.PageArrays(source)
    assert pages.num_pages == 7
    assert pages.page_bytes == sum(a[0].nbytes for a in source)
    numbers = rng.permutation(7)
    names = [name_of(i) for i in range(7)]
    stored = tier.store(names, pages, numbers)
    assert stored.wait() and stored.outcomes == ["done"] * 7 and not stored.is_load
    moved = rng.permutation(7)
    loaded = tier.load(names, tiers.PageArrays(target), moved, order="extents")
    assert loaded.wait() and loaded.outcomes == ["done"] * 7 and loaded.is_load
    assert loaded.names == [n.ljust(32, b"\0") for n in names]
    assert loaded.landed() == len(source) and stored.landed() == 0
    for a, b in zip(source, target):
        for i in range(7):
            assert (b[moved[i]] == a[numbers[i]]).all()


def test_what_lies_between_pages_is_not_touched(tier):
    source = np.arange(60, dtype=np.uint8).reshape(3, 20)
    target = np.full((3, 20), 99, np.uint8)
    tier.store([b"a", b"b"], tiers.PageArrays([source[:, 3:9]]), [0, 2]).wait()
    tier.load([b"a", b"b"], tiers.PageArrays([target[:, 5:11]]), [1, 0]).wait()
    assert (target[1, 5:11] == source[0, 3:9]).all() and (target[0, 5:11] == source[2, 3:9]).all()
    target[:2, 5:11] = 99
    assert (target == 99).all()


def test_any_buffer_is_a_page(tier):
    values = np.arange(24, dtype=np.int32)
    given = [bytes(range(48)), bytearray(b"x" * 48), memoryview(values)[:12], values[::2]]
    given.append(array.array("d", range(6)))
    names = [name_of(i) for i in range(5)]
    assert tier.store(names, given).wait()
    back = [bytearray(48) for _ in names]
    loaded = tier.load(names, tuple(back))
    assert loaded.wait() and loaded.outcomes == ["done"] * 5
    expected = [memoryview(g).tobytes() for g in given]
    assert [bytes(b) for b in back] == expected
    into = [np.zeros((4, 3), np.int32)[:, ::-1], np.zeros(12, np.float32)]
    tier.load(names[3:1:-1], into).wait()
    assert into[0].tobytes() == expected[3] and into[1].tobytes() == expected[2]


class Foreign:
    """An array of another library: DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_an_array_that_speaks_dlpack_alone_is_one(tier):
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    pages = tiers.PageArrays([Foreign(values), Foreign(values.T[:4])])
    tier.store([b"p"], pages, [2]).wait()
    back = [Foreign(np.zeros(12, np.float32))]
    assert tier.load([b"p"], back).wait()
    assert (back[0].values == [*values[2], *values.T[2]]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_random_calls_agree_with_a_dictionary(kind, tmp_path):
    rng = np.random.default_rng(7)
    known, page_bytes = {}, 96
    source, target = np.zeros((32, page_bytes), np.uint8), np.zeros((32, page_bytes), np.uint8)
    from_pages, to_pages = tiers.PageArrays([source]), tiers.PageArrays([target])
    with tier_of(kind, tmp_path) as tier:
        for _ in range(150):
            names = [name_of(i) for i in rng.permutation(40)[: rng.integers(1, 9)]]
            numbers = rng.permutation(32)[: len(names)]
            action = rng.integers(4)
            if action == 0:
                source[numbers] = rng.integers(0, 256, (len(names), page_bytes))
                assert tier.store(names, from_pages, numbers).wait()
                for n, p in zip(names, numbers):
                    known.setdefault(n, source[p].copy())
            elif action == 1:
                target[:] = 7
                load = tier.load(names, to_pages, numbers)
                assert load.wait()
                expected = ["done" if n in known else "missing" for n in names]
                assert load.outcomes == expected
                for n, p, outcome in zip(names, numbers, expected):
                    assert outcome == "missing" or (target[p] == known[n]).all()
            elif action == 2:
                there = [n in known for n in names]
                assert tier.find_each(names) == there
                assert tier.find(names) == (there + [False]).index(False)
            elif rng.random() < 0.3:
                tier.drop(names[:2])
                for n in names[:2]:
                    known.pop(n, None)
        assert sorted(tier.names()) == sorted(n.ljust(32, b"\0") for n in known)
        figures = tier.figures()
        assert figures["pages"] == len(known)
        assert figures["load_outcomes"]["done"] == figures["loaded_pages"] > 20
        assert figures["queued_pages"] == 0 and tier.last_fault() == ""


def test_a_call_may_end_in_part(tier):
    tier.store([b"a", b"c"], [bytearray(b"1111"), bytearray(b"3333")]).wait()
    back = [bytearray(4) for _ in range(3)]
    load = tier.load([b"a", b"b", b"c"], back)
    assert load.wait() and load.outcomes == ["done", "missing", "done"]
    assert load.landed() == 0, "a page has ended otherwise"
    assert back == [b"1111", bytes(4), b"3333"]


def test_pages_of_another_length_are_corrupt(tier):
    tier.store([b"a"], [bytes(8)]).wait()
    load = tier.load([b"a"], [bytearray(9)])
    assert load.wait() and load.outcomes == ["corrupt"]


def test_a_small_tier_is_full_or_gives_up_what_was_used_longest_ago(tmp_path):
    page = [bytes(4096)]
    record = tiers.record_bytes("host", 4096)
    with tiers.HostTier(3 * record) as tier:
        for i in range(5):
            assert tier.store([name_of(i)], page).wait()
        assert tier.find_each([name_of(i) for i in range(5)]) == [False, False, True, True, True]
        too_large = tier.store([b"large"], [bytes(4 * record)])
        assert too_large.wait() and too_large.outcomes == ["full"]
    page = [bytes(64 << 10)]
    with tiers.DiskTier(tmp_path, 2 * MIB) as tier:  # segments of 1 MiB
        for i in range(100):
            assert tier.store([name_of(i)], page).wait()
        figures = tier.figures()
        assert figures["bytes"] <= 2 * MIB and figures["dropped_pages"] > 0
        assert tier.find([name_of(99)]) == 1 and tier.find([name_of(0)]) == 0
        too_large = tier.store([b"large"], [bytes(MIB)])
        assert too_large.wait() and too_large.outcomes == ["full"]


def test_parents_keep_the_beginnings_of_prefixes():
    with tiers.HostTier(4 * tiers.record_bytes("host", 64)) as tier:
        names = [name_of(i) for i in range(4)]
        tier.store(names, [bytes(64)] * 4, parents=[None, *names[:-1]]).wait()
        tier.store([b"new"], [bytes(64)]).wait()
        assert tier.find(names) == 3, "the end went first"


def test_a_load_is_late_behind_its_deadline():
    with tiers.HostTier(128 * MIB, threads=1) as tier:
        names = [name_of(i) for i in range(32)]
        pages = tiers.PageArrays([np.ones((32, 2 * MIB), np.uint8)])  # more than a millisecond's
        assert tier.store(names, pages, list(range(32))).wait()
        load = tier.load(names, pages, list(range(32)), deadline_ms=1)
        assert load.wait() and set(load.outcomes) <= {"done", "late"}
        assert load.outcomes[-1] == "late" and load.landed() == 0
        assert tier.figures()["load_outcomes"]["late"] == load.outcomes.count("late")


def test_a_server_that_says_nothing_makes_failures_and_the_tier_says_why(hanging):
    load = hanging.load([b"a"], [bytearray(8)])
    assert not load.is_done and load.outcomes == [""] and load.landed() == 0
    assert not load.wait(10) and load.wait(20_000)
    assert load.outcomes == ["failed"] and "127.0.0.1" in hanging.last_fault()


def test_a_load_that_is_cancelled_ends_as_such(hanging):
    load = hanging.load([b"a"], [bytearray(8)])
    load.cancel()
    load.cancel()
    assert load.wait(20_000) and load.outcomes == ["cancelled"]
    load.cancel()


def test_a_queue_without_room_is_busy_and_nothing_of_the_call_is_done(hanging):
    pages = tiers.PageArrays([np.zeros((3, 8), np.uint8)])
    with tiers.HostTier(MIB, max_queued_pages=2) as tier:
        with pytest.raises(folio_kv.Error, match="queue") as busy:
            tier.store([b"a", b"b", b"c"], pages, [0, 1, 2])
        assert busy.value.code == "busy" and tier.figures()["refused_calls"] == 1
        assert tier.find_each([b"a", b"b", b"c"]) == [False] * 3
        assert tier.store([b"a", b"b"], pages, [0, 1]).wait()


def test_what_a_restarted_tier_says_of_its_directory(tmp_path):
    with tier_of("disk", tmp_path) as tier:
        tier.store([b"a", bytes(31) + b"z"], [bytes(8)] * 2).wait()
    with tier_of("disk", tmp_path) as tier:
        assert sorted(tier.names()) == [bytes(31) + b"z", b"a" + bytes(31)]
        assert tier.find([b"a" + bytes(31)]) == 1 and tier.find([bytes(31) + b"a"]) == 0


@pytest.mark.parametrize(
    ("max_bytes", "given", "segment_bytes"),
    [(2 * MIB, 0, MIB), (64 * MIB, 0, 8 * MIB), (1 << 40, 0, 256 * MIB), (64 * MIB, MIB, MIB)],
)
def test_a_directory_says_how_large_its_files_become(tmp_path, max_bytes, given, segment_bytes):
    with tiers.DiskTier(tmp_path, max_bytes, segment_bytes=given) as tier:
        assert tier.segment_bytes == segment_bytes
        with pytest.raises(AttributeError):
            tier.segment_bytes = 1
