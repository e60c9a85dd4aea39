# SPDX-License-Identifier: Apache-2.0
"""A pool with tiers below it, through Python."""

import gc
import socket
import threading
import time
import weakref

import numpy as np
import pytest
from tier_engine import PAGE, Engine, hybrid, until

import folio_kv
from folio_kv import tiers

MIB = 1 << 20
PROMPT = list(range(100, 100 + 5 * PAGE + 1))


def host(**options):
    return tiers.HostTier(MIB, fingerprint=b"model", **options)


def disk(folder, **options):
    return tiers.DiskTier(str(folder), 4 * MIB, segment_bytes=MIB, fingerprint=b"model", **options)


# ---- what it is for


def test_a_restarted_engine_finds_its_prompts(tmp_path):
    served = []
    for _ in range(2):
        with disk(tmp_path) as tier:
            with Engine([tier]) as engine:
                served.append(engine.serve(PROMPT))
            assert tier.figures()["pages"] == 5
    assert served == [0, 5 * PAGE]


@pytest.fixture
def redis_that_hangs():
    """The address of a server that takes connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("policy", ["write_through", "write_back", "at_eviction"])
def test_what_memory_lost_comes_back_from_below(policy):
    spare = 2 if policy == "at_eviction" else 0
    with (
        host() as tier,
        Engine([tiers.below(tier, policy)], pages=12, spare_pages=spare) as engine,
    ):
        for first in (0, 1000, 2000, 3000):
            engine.serve([first + t for t in range(4 * PAGE)])
            engine.settle()
        found = engine.serve([*range(4 * PAGE), 9])
        assert found == 4 * PAGE, engine.manager.counters(0)
        counters = engine.manager.counters(0)
        assert counters["loaded_pages"] >= 3 and counters["loaded_tokens"] % PAGE == 0
        assert counters["load_outcomes"]["done"] == counters["loaded_pages"]
        assert sum(counters["load_latency"]["counts"]) == counters["load_latency"]["count"] > 0
        assert len(counters["load_latency"]["bounds_us"]) + 1 == len(
            counters["load_latency"]["counts"]
        )
        assert not counters["load_rests"]["is_resting"]
        engine.pool.check_invariants()


def test_a_policy_of_none_stores_nothing_and_a_fast_tier_gets_what_a_slow_one_had(tmp_path):
    with (
        host() as fast,
        disk(tmp_path) as slow,
        Engine([tiers.below(fast, "none"), slow]) as engine,
    ):
        engine.serve(PROMPT)
        engine.settle()
        assert fast.figures()["pages"] == 0 and slow.figures()["pages"] == 5
        engine.restart([tiers.below(fast, "none", promotes=True), slow])
        assert engine.serve(PROMPT) == 5 * PAGE
        engine.settle()
        assert engine.manager.counters(0)["promoted_pages"] == 5
        assert fast.figures()["pages"] == 5


def test_a_prefetched_prompt_is_in_memory_when_it_comes(tmp_path):
    with disk(tmp_path) as tier, Engine([tier]) as engine:
        engine.serve(PROMPT)
        engine.settle()
        engine.restart([tier])
        assert engine.manager.prefetch(PROMPT) == 5 * PAGE
        engine.settle()
        admitted = engine.manager.admit(PROMPT)
        assert (admitted.cached_tokens, admitted.loading_tokens) == (5 * PAGE, 0)
        engine.check(admitted.id, PROMPT, 5 * PAGE)


def test_a_preempted_sequence_is_resumed_from_below():
    with host() as tier, Engine([tier], pages=8) as engine:
        sequence, _ = engine.load(PROMPT)
        engine.pool.reserve(sequence, len(PROMPT))
        engine.compute(sequence, PROMPT, 0)
        engine.manager.commit(sequence, PROMPT)
        engine.manager.preempt(sequence)
        engine.settle()
        engine.serve(list(range(7 * PAGE)))
        engine.settle()
        resumed = engine.manager.resume(sequence, PROMPT)
        assert resumed.id == sequence and resumed.loading_tokens > 0
        until(lambda: engine.manager.poll() or engine.manager.load_state(sequence) == "loaded")
        assert engine.manager.layers_ready(sequence) == 2
        engine.check(sequence, PROMPT, 5 * PAGE)
        engine.manager.release(sequence)


def test_salt_adapter_and_spans_belong_to_what_is_found():
    item = bytes(31) + b"x"
    with host() as tier, Engine([tier], pool_options={"max_spans": 1}) as engine:
        options = {"salt": b"s", "adapter": 3, "spans": [(1, 2, item)]}
        engine.serve(PROMPT, **options)
        engine.settle()
        engine.pool.clear()
        assert engine.serve(PROMPT) == 0
        engine.settle()
        engine.pool.clear()
        assert engine.serve(PROMPT, **options) == 5 * PAGE


def run_hybrid(folder):
    """Serves a prompt: tokens that were there, whose bytes are checked."""
    with disk(folder) as tier:
        pool, groups, pages, _ = hybrid()
        groups[1]["hit_interval"] = PAGE
        with tiers.CacheManager(pool, None, [tier], groups=groups) as manager:
            admitted = manager.admit(PROMPT)
            until(lambda: manager.poll() or manager.load_state(admitted.id) != "loading")
            length = pool.length(admitted.id)
            columns = [
                np.asarray(pool.table(g)).reshape(-1)[pool.row_start(admitted.id, g) :]
                for g in range(3)
            ]
            if length > 0:
                last = length // PAGE - 1
                assert all((pages[0][columns[0][p]] == p + 1).all() for p in range(last + 1))
                assert (pages[1][columns[1][last]] == last + 51).all()
                assert (pages[2][columns[2][last]] == last + 101).all()
            for begin in range(length, len(PROMPT), PAGE):
                tokens = PROMPT[begin : begin + PAGE]
                count = len(tokens)
                until(lambda n=count: manager.poll() or has_room(pool, admitted.id, n))
                for g, base in enumerate((1, 51, 101)):
                    pages[g][columns[g][begin // PAGE]] = begin // PAGE + base
                manager.commit(admitted.id, tokens)
            manager.release(admitted.id)
        pool.check_invariants()
        return length


def has_room(pool, sequence, tokens):
    try:
        pool.reserve(sequence, tokens)
        return True
    except folio_kv.OutOfPages:
        return False


def test_a_hybrid_model_finds_its_prompts_after_a_restart(tmp_path):
    assert [run_hybrid(tmp_path), run_hybrid(tmp_path)] == [0, 5 * PAGE]


# ---- what goes wrong below


def test_a_page_that_is_gone_cuts_a_hit_short_and_the_rest_is_computed(tmp_path):
    with disk(tmp_path) as tier, Engine([tier]) as engine:
        engine.serve(PROMPT)
        engine.settle()
        tier.drop(folio_kv.Sha256Names().chain(PROMPT, PAGE)[2:3])
        engine.restart([tier])
        assert engine.serve(PROMPT) == 2 * PAGE
        engine.restart([tier])
        assert engine.serve(PROMPT) == 5 * PAGE


def test_pages_of_another_model_are_computed(tmp_path):
    with disk(tmp_path) as tier, Engine([tier]) as engine:
        engine.serve(PROMPT)
    other = tiers.DiskTier(str(tmp_path), 4 * MIB, segment_bytes=MIB, fingerprint=b"other")
    with other, Engine([other]) as engine:
        assert engine.serve(PROMPT) == 0


def test_a_load_that_is_cancelled_is_computed(tmp_path):
    with disk(tmp_path) as tier, Engine([tier]) as engine:
        engine.serve(PROMPT)
        engine.settle()
        engine.restart([tier])
        admitted = engine.manager.admit(PROMPT)
        with pytest.raises(folio_kv.Error, match="load is under way") as busy:
            engine.manager.commit(admitted.id, PROMPT[:1])
        assert busy.value.code == "busy"
        engine.manager.cancel_load(admitted.id)
        assert engine.manager.load_state(admitted.id) == "cut_short"
        engine.room(admitted.id, len(PROMPT))
        engine.compute(admitted.id, PROMPT, 0)
        engine.manager.commit(admitted.id, PROMPT)
        engine.manager.release(admitted.id)
        engine.settle()
        engine.pool.check_invariants()


def test_stores_that_are_given_up_are_counted():
    with host(max_queued_pages=1) as tier, Engine([tier]) as engine:
        sequence, _ = engine.load(PROMPT)
        engine.pool.reserve(sequence, len(PROMPT))
        engine.compute(sequence, PROMPT, 0)
        engine.manager.commit(sequence, PROMPT)
        engine.manager.release(sequence)
        waited = engine.manager.counters(0)["waiting_pages"]
        assert engine.manager.give_up_stores() == waited > 0
        assert engine.manager.counters(0)["not_stored"]["given_up"] == waited
        engine.settle()


# ---- whose it is


def test_a_tier_that_a_manager_has_is_nobody_elses():
    with host() as tier:
        page = [bytearray(8)]
        manager = Engine([tier]).manager
        assert manager.tiers == [tier]
        for call in (
            lambda: tier.close(),
            lambda: tier.store([b"n"], page),
            lambda: tier.load([b"n"], page),
            lambda: tier.take_ended(),
            lambda: tier.fileno(),
            lambda: tier.wait(0),
            lambda: Engine([tier]),
        ):
            with pytest.raises(folio_kv.Error, match="it is a CacheManager's") as busy:
                call()
            assert busy.value.code == "busy"
        assert tier.find([b"n"]) == 0 and tier.names() == [] and tier.figures()["pages"] == 0
        manager.close()
        assert tier.store([b"n"], page).wait()


def test_a_tier_with_transfers_under_way_is_not_lent():
    with host() as tier, host(threads=1) as other:
        pages = tiers.PageArrays([np.zeros((1, 8 * MIB), np.uint8)])
        transfer = other.store([bytes([n + 1]) for n in range(64)], pages, [0] * 64)
        with pytest.raises(folio_kv.Error, match="transfers of its own are under way") as busy:
            Engine([tier, other])
        assert busy.value.code == "busy"
        assert transfer.wait() and set(transfer.outcomes) == {"full"}
        with Engine([tier, other]) as engine:
            assert engine.manager.tiers == [tier, other]


def test_a_manager_that_was_not_made_gives_its_tiers_back():
    with host() as tier:
        for options, words in (
            ({"min_load_pages": 0}, "min_load_pages"),
            ({"load_deadline_ms": -1}, "load_deadline_ms"),
            ({"pool_options": {"max_io_pins": 0}}, "max_io_pins"),
            ({"pool_options": {"name": None}}, "name"),
        ):
            with pytest.raises(folio_kv.Error, match=words):
                Engine([tier], **options)
        with pytest.raises(folio_kv.Error, match=r"tiers\[1\]: it is tiers\[0\]"):
            Engine([tier, tier])
        assert tier.store([b"n"], [bytearray(8)]).wait()


def test_a_closed_manager_refuses_calls_and_may_be_closed_again():
    with host() as tier, Engine([tier]) as engine:
        engine.serve(PROMPT)
        engine.manager.close()
        engine.manager.close(0)
        sequence = engine.pool.admit(PROMPT).id
        for call in (
            lambda: engine.manager.admit(PROMPT),
            lambda: engine.manager.poll(),
            lambda: engine.manager.wait(0),
            lambda: engine.manager.release(sequence),
            lambda: engine.manager.figures(),
        ):
            with pytest.raises(folio_kv.Error, match="CacheManager: it is closed"):
                call()
        assert tier.figures()["pages"] == 5, "close waits for stores"
        assert engine.manager.tiers == []


def test_a_manager_keeps_pool_planes_and_tiers():
    engine = Engine([host()])
    manager = engine.manager
    del engine
    gc.collect()
    admitted = manager.admit(PROMPT)
    manager.pool.reserve(admitted.id, len(PROMPT))
    manager.commit(admitted.id, PROMPT)
    manager.release(admitted.id)
    while manager.wait(1000):
        manager.poll()
    assert manager.tiers[0].figures()["pages"] == 5


def test_a_manager_that_goes_gives_its_tiers_back():
    with host() as tier:
        engine = Engine([tier])
        engine.serve(PROMPT)
        del engine
        gc.collect()
        assert tier.store([b"n"], [bytearray(8)]).wait()


def test_an_engine_that_names_its_pages_is_collected_with_its_manager():
    class Own:
        def __init__(self, tier):
            self.names = folio_kv.Sha256Names()
            self.pool = folio_kv.PagePool(8, PAGE, name=self.name, max_io_pins=8)
            cache = folio_kv.KVCache(1, 8, PAGE, kv_heads=1, head_size=8)
            self.manager = tiers.CacheManager(self.pool, cache, [tier])

        def name(self, page):
            return self.names(page)

    with host() as tier:
        gc.collect()
        seen = weakref.ref(Own(tier))
        gc.collect()
        assert seen() is None
        assert tier.store([b"n"], [bytearray(8)]).wait()


# ---- threads, and functions of Python's


def test_a_naming_function_finds_the_manager_busy_and_so_do_other_threads():
    codes = []

    def refused(call):
        with pytest.raises(folio_kv.Error) as error:
            call()
        codes.append(error.value.code)

    names = folio_kv.Sha256Names()

    def name(page):
        if not codes:
            refused(lambda: engine.manager.poll())
            refused(lambda: engine.manager.figures())
            thread = threading.Thread(target=refused, args=[lambda: engine.manager.admit([1])])
            thread.start()
            thread.join()
        return names(page)

    with host() as tier, Engine([tier], pool_options={"name": name}) as engine:
        engine.serve(PROMPT)
        engine.settle()
        assert codes == ["busy"] * 3
        engine.pool.check_invariants()


def test_a_naming_function_that_fails_loses_stores_and_nothing_else(monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook", lambda u: told.append(type(u.exc_value)))

    def name(page):
        raise KeyError

    with host() as tier, Engine([tier], pool_options={"name": name}) as engine:
        assert engine.serve(PROMPT) == 0
        assert engine.serve(PROMPT) == 5 * PAGE, "in memory"
        engine.settle()
        assert set(told) == {KeyError} and tier.figures()["pages"] == 0


def test_other_threads_run_while_one_waits(redis_that_hangs):
    with tiers.RedisTier(redis_that_hangs, MIB, unknown="hoped") as tier:
        with Engine([tier], load_deadline_ms=300) as engine:
            admitted = engine.manager.admit(PROMPT)
            assert admitted.loading_tokens == 5 * PAGE
            waited, counts = [], []
            thread = threading.Thread(target=lambda: waited.append(engine.manager.wait(10_000)))
            thread.start()
            while thread.is_alive():
                counts.append(time.monotonic())
                time.sleep(0.001)
            assert waited == [True] and len(counts) > 20, "the deadline ended it"
            engine.manager.poll()
            assert engine.manager.load_state(admitted.id) == "cut_short"
            assert engine.manager.wait() is False, "nothing is under way"


def test_a_thread_waits_while_another_is_in_a_naming_function_or_closes(redis_that_hangs):
    names, answers = folio_kv.Sha256Names(), []

    def wait():
        try:
            answers.append(engine.manager.wait(1))
        except folio_kv.Error as error:
            answers.append(str(error))

    def name(page):
        if not answers:
            thread = threading.Thread(target=wait)
            thread.start()
            thread.join()
        return names(page)

    with host() as tier:
        with Engine([tier], pool_options={"name": name}) as engine:
            engine.serve(PROMPT)
        assert answers in ([False], [True]), "not busy"

    def wait_until_closed():
        while not (answers and isinstance(answers[-1], str)):
            wait()

    with tiers.RedisTier(redis_that_hangs, MIB, command_timeout_ms=300) as tier:
        engine = Engine([tier], close_wait_ms=1000)
        engine.manager.admit(PROMPT)
        thread = threading.Thread(target=wait_until_closed)
        answers.clear()
        thread.start()
        time.sleep(0.02)
        engine.manager.close(0)
        thread.join(20)
        assert answers[-1] == "CacheManager: it is closed"


def test_two_managers_of_two_pools_work_beside_each_other(tmp_path):
    failures = []

    def work(folder, base):
        try:
            with disk(folder) as tier, Engine([tier], pages=12) as engine:
                for turn in range(12):
                    engine.serve([base + turn % 3 * 1000 + t for t in range(4 * PAGE + 1)])
                engine.settle()
                engine.pool.check_invariants()
        except BaseException as failure:
            failures.append(failure)

    threads = [
        threading.Thread(target=work, args=(tmp_path / str(i), i * 100_000)) for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_random_prompts_are_exact_whatever_comes_from_where(tmp_path):
    rng = np.random.default_rng(41)
    with tiers.HostTier(16 * 1024) as fast, disk(tmp_path) as slow:
        below = [
            tiers.below(fast, "write_back", promotes=True),
            tiers.below(slow, "write_through"),
        ]
        engine = Engine(below, pages=20, min_load_pages=2)
        tokens = found = 0
        for _ in range(60):
            length = int(rng.integers(1, 6 * PAGE))
            common = int(rng.integers(length + 1))
            first, last = rng.integers(6, size=2) * 100
            prompt = [int(first if t < common else 1000 + last) + t for t in range(length)]
            found += engine.serve(prompt)
            tokens += length
            if rng.random() < 0.2:
                engine.settle()
        engine.settle()
        engine.manager.close()
        engine.pool.check_invariants()
        assert 0 < found < tokens
