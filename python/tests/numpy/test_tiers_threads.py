# SPDX-License-Identifier: Apache-2.0
"""Tiers through Python: waiting, closing, and threads that do both at once."""

import os
import select
import signal
import socket
import threading
import time

import numpy as np
import pytest
from tier_engine import until
from tier_kinds import KINDS, tier_of
from tier_pages import MIB, name_of

import folio_kv
from folio_kv import tiers


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
