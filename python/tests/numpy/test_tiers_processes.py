# SPDX-License-Identifier: Apache-2.0
"""Tiers and processes: a directory that is opened again, servers and writers that are killed."""

import numpy as np
import pytest
from child_process import Child
from redis_process import RedisProcess
from reserved_port import ReservedPort
from tier_engine import until
from tier_pages import MIB, PAGE_BYTES, check, name_of, page_of

import folio_kv
from folio_kv import tiers


def disk(folder, fingerprint=b"model", max_bytes=32 * MIB):
    return tiers.DiskTier(str(folder), max_bytes, segment_bytes=MIB, fingerprint=fingerprint)


# ---- a directory


def test_another_process_finds_what_one_has_stored(tmp_path):
    program = """
tier = tiers.DiskTier(sys.argv[1], 32 * MIB, segment_bytes=MIB, fingerprint=b"model")
with tier:
    tier.store([name_of(i) for i in range(20)], [page_of(i) for i in range(20)])
say("stored")
"""
    with Child(program, tmp_path) as child:
        assert child.line() == ["stored"]
        assert child.process.wait(20) == 0
    with disk(tmp_path) as tier:
        assert tier.find([name_of(i) for i in range(20)]) == 20
        assert check(tier, list(range(20))) == list(range(20))


def test_a_directory_of_another_tier_is_busy_until_that_is_gone(tmp_path):
    program = """
tier = tiers.DiskTier(sys.argv[1], 32 * MIB, segment_bytes=MIB)
say("open")
sys.stdin.readline()
"""
    with Child(program, tmp_path) as child:
        child.line()
        with pytest.raises(folio_kv.Error) as busy:
            disk(tmp_path)
        assert busy.value.code == "busy" and str(tmp_path) in str(busy.value)
        child.kill()
        with disk(tmp_path), pytest.raises(folio_kv.Error) as busy:
            disk(tmp_path)
        assert busy.value.code == "busy"
    disk(tmp_path).close()


def test_a_process_that_is_killed_while_it_stores_leaves_whole_pages(tmp_path):
    program = """
tier = tiers.DiskTier(sys.argv[1], 32 * MIB, segment_bytes=MIB, fingerprint=b"model")
for i in range(int(sys.argv[2]), 1 << 30):
    transfers = [tier.store([name_of(j % 3000)], [page_of(j % 3000)]) for j in range(i, i + 4)]
    say("began", i)
    [transfer.wait() for transfer in transfers]
    say("stored", i)
"""
    for turn in range(3):
        stored = []
        with Child(program, tmp_path, 40 * turn) as child:
            while len(stored) < 8 + turn:
                words = child.line()
                if words[0] == "stored":
                    stored.append(int(words[1]))
            child.kill()
        with disk(tmp_path) as tier:
            assert set(stored) <= set(check(tier, list(range(150)))), "acknowledged"
            assert len(tier.names()) == tier.figures()["pages"]


def test_a_corrupted_file_makes_misses_and_never_other_bytes(tmp_path):
    with disk(tmp_path) as tier:
        names = [name_of(i) for i in range(30)]
        tier.store(names, [page_of(i) for i in range(30)])
    rng = np.random.default_rng(2)
    (largest,) = sorted(tmp_path.iterdir(), key=lambda f: f.stat().st_size)[-1:]
    content = bytearray(largest.read_bytes())
    for at in rng.integers(len(content), size=40):
        content[at] ^= 1 << int(rng.integers(8))
    largest.write_bytes(content)
    with disk(tmp_path) as tier:
        came = check(tier, list(range(30)))
        assert len(came) < 30
        lost = sorted(set(range(30)) - set(came))
        tier.store([name_of(i) for i in lost], [page_of(i) for i in lost]).wait()
        assert check(tier, list(range(30))) == list(range(30)), "stored anew"


def test_pages_of_another_model_are_no_hits(tmp_path):
    with disk(tmp_path) as tier:
        tier.store([name_of(1)], [page_of(1)]).wait()
    with disk(tmp_path, fingerprint=b"another") as tier:
        assert check(tier, [1]) == []
        tier.store([name_of(2)], [page_of(2)]).wait()
        assert check(tier, [1, 2]) == [2]


# ---- Redis


@pytest.fixture
def redis(tmp_path):
    server = RedisProcess(tmp_path, ReservedPort())
    yield server
    server.kill()


def redis_tier(server, **options):
    return tiers.RedisTier(
        server.url, 64 * MIB, fingerprint=b"model", command_timeout_ms=1000, **options
    )


def test_engines_share_pages_in_a_redis(redis):
    with redis_tier(redis) as one, redis_tier(redis) as other:
        assert one.store([name_of(i) for i in range(20)], [page_of(i) for i in range(20)]).wait()
        assert check(other, list(range(20))) == list(range(20))
        assert sorted(one.names()) == sorted(name_of(i).ljust(32, b"\0") for i in range(20))
        one.drop([name_of(3)])
        until(lambda: check(other, [3]) == [])
        assert check(other, [2, 4]) == [2, 4]
    with redis_tier(redis, name_space="another") as tier:
        assert check(tier, [1]) == []
    with redis_tier(redis, unknown="asked") as tier:
        until(lambda: tier.find([name_of(1)]) == 1, "an answer")


def test_a_redis_that_is_killed_in_the_midst_makes_misses_and_is_used_again(redis):
    numbers = list(range(200))
    with redis_tier(redis) as tier:
        assert tier.store([name_of(i) for i in numbers], [page_of(i) for i in numbers]).wait()
        target = np.zeros((200, PAGE_BYTES), np.uint8)
        load = tier.load([name_of(i) for i in numbers], tiers.PageArrays([target]), numbers)
        redis.kill()
        assert load.wait(20_000)
        for i, outcome in enumerate(load.outcomes):
            assert outcome in ("done", "failed", "missing")
            assert outcome != "done" or (target[i] == page_of(i)).all()
        late = tier.load([name_of(1)], [bytearray(PAGE_BYTES)], deadline_ms=200)
        assert late.wait(20_000) and late.outcomes[0] in ("failed", "late", "missing")
        assert str(redis.port.number) in tier.last_fault()
        redis.start()

        def stored_again():
            store = tier.store([name_of(5)], [page_of(5)])
            return store.wait(20_000) and store.outcomes == ["done"] and check(tier, [5]) == [5]

        until(stored_again, "a store")


# ---- fork


def test_a_process_that_was_forked_refuses_calls_and_goes_on(tmp_path):
    program = """
import gc, os, signal
from tier_engine import Engine
signal.alarm(20)
told = tiers.EventPublisher("tcp://127.0.0.1:*")
reader = tiers.EventSubscriber(told.endpoint)
disk = tiers.DiskTier(sys.argv[1], 32 * MIB, segment_bytes=MIB, on_change=told.add_tier("STORAGE"))
host = tiers.HostTier(MIB)
transfer = host.store([b"a"], [page_of(1)])
transfer.wait()
engine = Engine([disk])
engine.serve(list(range(9)))
server = tiers.PageServer(tiers.SharedMemoryTransport(), MIB, PAGE_BYTES)
calls = [
    lambda: host.find([b"a"]), lambda: host.close(), lambda: transfer.is_done,
    lambda: engine.manager.poll(), lambda: engine.manager.close(), lambda: server.poll(),
    lambda: tiers.SharedMemoryTransport.address(spare), lambda: reader.poll(10),
]
spare = tiers.SharedMemoryTransport()
child = os.fork()
if child == 0:
    signal.alarm(20)
    refused = 0
    for call in calls:
        try:
            call()
        except folio_kv.Error as error:
            refused += "of the process that was forked" in str(error)
    refused = refused == len(calls)
    del told, reader, disk, host, transfer, engine, server, calls, call, spare
    gc.collect()
    with tiers.HostTier(MIB) as own:
        stored = own.store([b"b"], [page_of(2)]).wait(10_000)
    os._exit(0 if refused and stored else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
engine.serve(list(range(20)))
engine.manager.close()
say(status, host.find([b"a"]), disk.figures()["pages"])
"""
    with Child(program, tmp_path) as child:
        assert child.line() == ["0", "1", "5"]
        assert child.process.wait(20) == 0


WAITING = """
import gc, os, signal, socket, threading, time
from folio_kv import _core
signal.alarm(60)
silent = socket.create_server(("127.0.0.1", 0))
url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
slow = tiers.RedisTier(url, MIB, command_timeout_ms=60_000)
load = slow.load([b"a"], [bytearray(8)])
told = tiers.EventPublisher("tcp://127.0.0.1:*")
reader = tiers.EventSubscriber(told.endpoint)
server = tiers.PageServer(tiers.SharedMemoryTransport(), MIB, PAGE_BYTES)
busy = tiers.HostTier(MIB)
connector = _core.LMCacheConnector(tiers.HostTier(MIB), lambda key: key.encode())
def again(call, *arguments):
    while True:
        call(*arguments)
def wait(timeout_ms):
    for call, *arguments in (
        [load.wait, timeout_ms], [slow.wait, timeout_ms], [reader.poll, timeout_ms],
        [server.wait, timeout_ms], [slow.find, [b"a"]], [busy.find, [b"a"]],
    ):
        for _ in range(2):
            threading.Thread(target=again, args=(call, *arguments), daemon=True).start()
    time.sleep(0.1)
"""


def test_a_process_that_was_forked_while_threads_wait_refuses_calls_and_goes_on():
    program = """
wait(10_000)
child = os.fork()
if child == 0:
    signal.alarm(20)
    calls = [
        lambda: reader.is_current, lambda: reader.is_connected, lambda: reader.next_batch,
        lambda: reader.figures(), lambda: reader.index.find([b"a"]), lambda: reader.index.names(),
        lambda: told.flush(), lambda: told.figures(), lambda: told.endpoint,
        lambda: told.add_tier("CPU"), lambda: load.is_done, lambda: slow.figures(),
        lambda: connector.event_fd(), lambda: connector.submit_batch_exists(["a"]),
        lambda: connector.drain_completions(), lambda: connector.close(),
    ]
    refused = 0
    for call in calls:
        try:
            call()
        except folio_kv.Error as error:
            refused += "of the process that was forked" in str(error)
    refused = refused == len(calls)
    del told, reader, slow, load, server, busy, connector, calls, call
    gc.collect()
    with tiers.HostTier(MIB) as own:
        stored = all(own.store([name_of(i)], [bytes(8)]).wait(10_000) for i in range(300))
    os._exit(0 if refused and stored else 1)
say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0)
"""
    with Child(WAITING + program) as child:
        assert child.line() == ["0"]
        assert child.process.wait(20) == 0


@pytest.mark.parametrize("timeout_ms", [1, 10_000])
def test_threads_that_wait_do_not_keep_a_process_from_its_end(timeout_ms):
    """Daemons, which Python ends where they come back to it."""
    program = """
wait(int(sys.argv[1]))
say("ends")
"""
    for _ in range(3):
        with Child(WAITING + program, timeout_ms) as child:
            assert child.line() == ["ends"]
            assert child.process.wait(30) == 0
