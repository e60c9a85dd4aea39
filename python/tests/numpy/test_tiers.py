# SPDX-License-Identifier: Apache-2.0
"""Tiers through Python: pages of arrays, transfers, waiting, threads, and who keeps what alive."""

import array
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from tier_engine import until

import folio_kv
from folio_kv import tiers

MIB = 1 << 20
KINDS = ["host", "disk"]


def tier_of(kind, folder, max_bytes=64 * MIB, **options):
    if kind == "host":
        return tiers.HostTier(max_bytes, **options)
    return tiers.DiskTier(str(folder), max_bytes, **{"segment_bytes": MIB, **options})


@pytest.fixture(params=KINDS)
def tier(request, tmp_path):
    with tier_of(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def hanging():
    """A tier whose server takes connections and says nothing: loads end behind half a second."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}"
        tier = tiers.RedisTier(url, MIB, connect_timeout_ms=500, command_timeout_ms=500)
        yield tier
        try:
            tier.close(0)
        except folio_kv.Error:
            pass


def name_of(i):
    return int(i).to_bytes(4, "big")


# ---- bytes


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


# ---- outcomes


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


# ---- closing


def test_close_waits_for_what_is_under_way(tmp_path):
    source = np.random.default_rng(1).integers(0, 256, (64, 64 << 10), np.uint8)
    names = [name_of(i) for i in range(64)]
    with tier_of("disk", tmp_path, segment_bytes=8 * MIB) as tier:
        transfer = tier.store(names, tiers.PageArrays([source]), list(range(64)))
    assert transfer.is_done and transfer.outcomes == ["done"] * 64, "as closed as it is"
    with tier_of("disk", tmp_path, segment_bytes=8 * MIB) as tier:
        target = np.zeros_like(source)
        assert tier.load(names, tiers.PageArrays([target]), list(range(64))).wait()
    assert (source == target).all()


def test_close_cancels_what_takes_longer_and_gives_the_bytes_back(hanging):
    page = bytearray(8)
    load = hanging.load([b"a"], [page])
    with pytest.raises(BufferError):
        page.append(0)
    hanging.close(50)
    assert load.is_done and load.outcomes == ["cancelled"]
    page.append(0)


def test_a_closed_tier_refuses_calls(tier):
    transfer = tier.store([b"a"], [bytes(8)])
    tier.close()
    tier.close()
    for call in (
        lambda: tier.find([b"a"]),
        lambda: tier.find_each([b"a"]),
        lambda: tier.store([b"a"], [bytes(8)]),
        lambda: tier.load([b"a"], [bytearray(8)]),
        lambda: tier.drop([b"a"]),
        lambda: tier.names(),
        lambda: tier.figures(),
        lambda: tier.last_fault(),
        lambda: tier.fileno(),
        lambda: tier.take_ended(),
        lambda: tier.wait(0),
    ):
        with pytest.raises(folio_kv.Error, match="tier: it is closed"):
            call()
    assert transfer.wait(0) and transfer.outcomes == ["done"] and transfer.tier is tier
    transfer.cancel()


# ---- waiting


def is_readable(fd):
    return bool(select.select([fd], [], [], 0)[0])


def test_the_eventfd_is_readable_while_something_has_ended_and_each_is_taken_once(tier):
    fd = tier.fileno()
    assert not is_readable(fd) and tier.take_ended() == [] and not tier.wait(0)
    transfers = [tier.store([name_of(i)], [bytes(64)]) for i in range(20)]
    assert tier.wait(20_000) and is_readable(fd)
    taken = []

    def all_taken():
        taken.extend(tier.take_ended())
        return len(taken) == 20

    until(all_taken)
    assert sorted(t.names[0] for t in taken) == sorted(t.names[0] for t in transfers)
    assert all(t.is_done and t.outcomes == ["done"] and t.tier is tier for t in taken)
    assert tier.take_ended() == [] and not tier.wait(10) and not is_readable(fd)


def test_who_waits_for_one_transfer_leaves_it_for_who_takes_what_has_ended(tier):
    tier.fileno()
    transfer = tier.store([b"a"], [bytes(64)])
    assert transfer.wait() and tier.wait(0)
    (taken,) = tier.take_ended()
    assert taken.names == transfer.names and not tier.wait(0)


def test_other_threads_run_while_one_waits(hanging):
    counts, waited = [], []
    load = hanging.load([b"a"], [bytearray(8)], deadline_ms=300)
    waiting = [
        lambda: waited.append(load.wait()),
        lambda: waited.append(hanging.wait(20_000)),
    ]
    threads = [threading.Thread(target=wait) for wait in waiting]
    hanging.fileno()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        counts.append(time.monotonic())
        time.sleep(0.001)
    assert waited == [True, True] and len(counts) > 20


def test_other_threads_run_while_one_waits_for_a_tier_that_another_asks():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}"
        tier = tiers.RedisTier(
            url, MIB, unknown="asked", ask_wait_ms=3000, command_timeout_ms=5000
        )  # fmt: skip
        asker = threading.Thread(target=tier.find, args=([b"a"],))
        asker.start()
        time.sleep(0.2)
        waiting = threading.Thread(target=tier.figures)
        waiting.start()
        ticks = 0
        while asker.is_alive():
            ticks += waiting.is_alive()
            time.sleep(0.001)
        asker.join()
        waiting.join()
        assert ticks >= 20
        tier.close(0)


def test_a_wait_ends_when_another_thread_closes_the_tier(tier):
    said = []

    def wait():
        try:
            tier.wait()
        except folio_kv.Error as error:
            said.append(str(error))

    tier.fileno()
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.02)
    tier.close()
    thread.join(20)
    assert said == ["tier: it is closed"]


def test_a_signal_ends_a_wait(hanging):
    def raised(*arguments):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, raised)
    try:
        load = hanging.load([b"a"], [bytearray(8)])
        hanging.fileno()
        for wait in (load.wait, hanging.wait):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(InterruptedError):
                wait(20_000)
    finally:
        signal.signal(signal.SIGALRM, before)
        load.cancel()


# ---- threads


@pytest.mark.parametrize("kind", KINDS)
def test_threads_hammer_one_tier(kind, tmp_path):
    failures, taken, started = [], [], []
    done = threading.Event()

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            for turn in range(60):
                i = int(rng.integers(64))
                names = [name_of(i), name_of(i + 64)]
                content = [bytes([i % 251]) * 512, bytes([i % 13]) * 100]
                stored = tier.store(names, content)
                started.append(stored)
                back = [bytearray(512), bytearray(100)]
                load = tier.load(names, back, order="extents")
                started.append(load)
                assert load.wait(20_000) and stored.wait(20_000)
                for outcome, got, expected in zip(load.outcomes, back, content):
                    assert outcome in ("done", "missing")
                    assert outcome == "missing" or got == expected
                tier.find(names), tier.figures(), load.landed()
                if turn % 20 == 0:
                    tier.drop(names)
        except BaseException as failure:
            failures.append(failure)

    def take():
        while not done.is_set() or tier.wait(0):
            if tier.wait(20):
                taken.extend(tier.take_ended())

    with tier_of(kind, tmp_path) as tier:
        tier.fileno()
        threads = [threading.Thread(target=work, args=[seed]) for seed in range(6)]
        taker = threading.Thread(target=take)
        for thread in [*threads, taker]:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        taker.join()
        assert failures == []
        assert len(taken) == len(started) == 6 * 60 * 2, "each once"


def test_a_tier_is_closed_by_one_thread_while_others_use_it(tmp_path):
    for turn in range(5):
        tier = tier_of("disk", tmp_path / str(turn))
        codes, began = [], threading.Barrier(5)

        def work(tier=tier, codes=codes, began=began):
            began.wait()
            try:
                while True:
                    tier.store([os.urandom(8)], [bytes(256)]).wait(20_000)
            except folio_kv.Error as error:
                codes.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        began.wait()
        time.sleep(0.01)
        tier.close(5)
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert len(codes) == 4 and all("closed" in words for words in codes), codes


# ---- who keeps what alive


class Memory(np.ndarray):
    """An array that weak references see go."""


def test_arrays_are_kept_while_a_transfer_is_under_way_and_given_back_then(hanging):
    page = np.zeros(8, np.uint8).view(Memory)
    gone = weakref.ref(page)
    load = hanging.load([b"a"], [page])
    del page
    gc.collect()
    assert gone() is not None
    load.cancel()
    assert load.wait(20_000)
    gc.collect()
    assert gone() is None


def test_page_arrays_keep_their_arrays_and_transfers_keep_page_arrays(hanging):
    memory = np.zeros((4, 8), np.uint8).view(Memory)
    gone = weakref.ref(memory)
    pages = tiers.PageArrays([memory])
    load = hanging.load([b"a"], pages, [1])
    del memory, pages
    gc.collect()
    assert gone() is not None
    load.cancel()
    assert load.wait(20_000)
    gc.collect()
    assert gone() is None


def test_a_transfer_that_nobody_holds_goes_on_and_keeps_its_memory(tmp_path):
    with tier_of("disk", tmp_path) as tier:
        page = np.full(4096, 7, np.uint8).view(Memory)
        gone = weakref.ref(page)
        tier.store([b"a"], [page])
        del page
        until(lambda: tier.find([b"a"]) == 1)
        tier.wait(0)  # who looks at what has ended lets go of its memory
        until(lambda: tier.wait(0) or gc.collect() is None or gone() is None)
        back = bytearray(4096)
        assert tier.load([b"a"], [back]).wait() and back == b"\7" * 4096
        assert gone() is None


def test_a_transfer_keeps_its_tier(tmp_path):
    transfer = tier_of("disk", tmp_path).store([b"a"], [bytes(64)])
    gc.collect()
    assert transfer.wait() and transfer.outcomes == ["done"]
    del transfer
    gc.collect()
    with tier_of("disk", tmp_path) as tier:
        assert tier.find([b"a"]) == 1


def test_refused_calls_let_their_arrays_go(tier):
    page = bytearray(8)
    before = sys.getrefcount(page)
    for call in (
        lambda: tier.load([b"a", b"b"], [page, page]),
        lambda: tier.store([b"a", b"b"], [page]),
        lambda: tier.load([b"a", b"b"], [page, bytes(8)]),
    ):
        with pytest.raises(folio_kv.Error):
            call()
    gc.collect()
    assert sys.getrefcount(page) == before
    page.append(1)


def test_tiers_leave_no_thread_and_no_descriptor(tmp_path):
    def count(kind):
        return len(os.listdir(f"/proc/self/{kind}"))

    def use():
        for kind in KINDS:
            with tier_of(kind, tmp_path / kind) as tier:
                tier.store([b"a"], [bytes(64)]).wait()
        gc.collect()

    use()
    before = count("fd"), count("task")
    for _ in range(5):
        use()
    assert (count("fd"), count("task")) == before


def test_what_a_restarted_tier_says_of_its_directory(tmp_path):
    with tier_of("disk", tmp_path) as tier:
        tier.store([b"a", bytes(31) + b"z"], [bytes(8)] * 2).wait()
    with tier_of("disk", tmp_path) as tier:
        assert sorted(tier.names()) == [bytes(31) + b"z", b"a" + bytes(31)]
        assert tier.find([b"a" + bytes(31)]) == 1 and tier.find([bytes(31) + b"a"]) == 0


# ---- LMCache's client


def test_a_connector_is_closed_by_several_threads_at_once(tmp_path):
    for turn in range(20):
        tier = tier_of(KINDS[turn % 2], tmp_path)
        connector = folio_kv._core.LMCacheConnector(tier, lambda key: key.encode())
        connector.submit_batch_set(["a"], [bytearray(100)])
        failures, together = [], threading.Barrier(4)

        def close():
            together.wait()  # noqa: B023
            try:
                connector.close()  # noqa: B023
            except BaseException as failure:
                failures.append(failure)  # noqa: B023

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with pytest.raises(folio_kv.Error, match="connector: it is closed"):
            connector.submit_batch_exists(["a"])
