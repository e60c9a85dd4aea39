# SPDX-License-Identifier: Apache-2.0
"""Transports: pages and sequences of another process, by each kind that is installed."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from child_process import Child
from tier_engine import PAGE, Engine, until
from tier_pages import MIB, PAGE_BYTES, check, name_of, page_of
from tier_transports import KINDS, NIXL, transport_of

import folio_kv
from folio_kv import tiers


def transport_or_skip(kind, **options):
    try:
        return transport_of(kind, **options)
    except folio_kv.Unsupported as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=KINDS)
def kind(request):
    """Of a transport that is installed."""
    transport_or_skip(request.param)
    return request.param


# ---- another process's memory

SERVER = """
from tier_transports import transport_of
transport = transport_of(sys.argv[1])
server = tiers.PageServer(transport, 8 * MIB, PAGE_BYTES, fingerprint=b"model")
server.put([name_of(i) for i in range(100)], [page_of(i) for i in range(100)])
say(server.address().hex())
while True:
    server.poll()
    server.wait(20)
"""


def peer(kind, address, fingerprint=b"model", **options):
    return tiers.PeerTier(transport_of(kind), address, fingerprint=fingerprint, **options)


def test_a_peers_pages_are_found_loaded_and_stored(kind):
    with Child(SERVER, kind) as server:
        address = bytes.fromhex(server.line()[0])
        memory = np.zeros((101, PAGE_BYTES), np.uint8)
        with peer(kind, address, memory=[memory]) as tier, peer(kind, address) as other:
            until(lambda: tier.find([name_of(99)]) == 1, "news of the pages")
            pages = tiers.PageArrays([memory])
            load = tier.load([name_of(i) for i in range(101)], pages, np.arange(101))
            assert load.wait(20_000) and load.outcomes == ["done"] * 100 + ["missing"]
            assert all((memory[i] == page_of(i)).all() for i in range(100))
            assert other.store([name_of(500)], [page_of(500)]).wait(20_000)
            until(lambda: check(tier, [500]) == [500], "the page of the other")
            with pytest.raises(folio_kv.Unsupported):
                tier.names()
        with peer(kind, address, fingerprint=b"another") as tier:
            assert check_fails(tier, 1)


def check_fails(tier, number):
    load = tier.load([name_of(number)], [bytearray(PAGE_BYTES)])
    assert load.wait(20_000)
    return load.outcomes[0] != "done"


def test_a_server_that_is_killed_makes_misses(kind):
    with Child(SERVER, kind) as server:
        address = bytes.fromhex(server.line()[0])
        with peer(kind, address, timeout_ms=1000) as tier:
            until(lambda: tier.find([name_of(0)]) == 1, "news of the pages")
            names = [name_of(i) for i in range(100)]
            target = np.zeros((100, PAGE_BYTES), np.uint8)
            load = tier.load(names, tiers.PageArrays([target]), np.arange(100))
            server.kill()
            assert load.wait(20_000)
            for i, outcome in enumerate(load.outcomes):
                assert outcome in ("done", "missing", "failed"), outcome
                assert outcome != "done" or (target[i] == page_of(i)).all()
            until(lambda: tier.find(names) == 0, "the end of the server")
            assert check_fails(tier, 1)


POOL_SERVER = """
from tier_transports import transport_of
from tier_engine import Engine, PAGE
class Served(Engine):
    def __init__(self):
        on_event = lambda event, tokens: self.server.note(event, tokens) if self.server else None
        self.server = None
        super().__init__([], pool_options={"on_event": on_event})
        transport = transport_of(sys.argv[1])
        self.server = tiers.PoolPageServer(
            transport, self.pool, self.cache, memory=[self.cache], fingerprint=b"model"
        )
engine = Served()
say(engine.server.address().hex())
prompts = 0
while True:
    for _ in range(20):
        engine.server.poll()
        engine.server.wait(5)
    if prompts < 2:
        engine.serve([1000 * prompts + t for t in range(4 * PAGE)])
        prompts += 1
        say(prompts, engine.server.figures()["pages"])
"""


def test_an_engine_loads_what_anothers_pool_has(kind):
    with Child(POOL_SERVER, kind) as server:
        address = bytes.fromhex(server.line()[0])
        with peer(kind, address) as tier, Engine([tiers.below(tier, "none")]) as engine:
            names = folio_kv.Sha256Names()
            for number in range(2):
                assert server.line() == [str(number + 1), str(4 * number + 4)]
                prompt = [1000 * number + t for t in range(4 * PAGE)] + [7]
                chain = names.chain(prompt, PAGE)
                until(lambda: tier.find(chain) == 4, "news of the pool's pages")  # noqa: B023
                assert engine.serve(prompt) == 4 * PAGE
            assert engine.manager.counters(0)["loaded_pages"] == 8


# ---- handovers

RECEIVER = """
from tier_engine import PAGE
from tier_transports import transport_of
pool = folio_kv.PagePool(64, PAGE, name=folio_kv.Sha256Names(), max_io_pins=64)
cache = folio_kv.KVCache(3, 64, PAGE, kv_heads=2, head_size=8, dtype=sys.argv[2])
transport = transport_of(sys.argv[1])
receiver = tiers.HandoverReceiver(transport, pool, cache, regions=[cache], model=b"m")
say(transport.address().hex())
arrived = set()
while True:
    receiver.poll()
    arrived.update(a.layers_ready for a in receiver.arriving() if len(a.tokens) > 0)
    for sequence in receiver.take():
        rows = np.asarray(pool.table()).reshape(-1)[pool.row_start(sequence.id):]
        right = all(
            (np.from_dlpack(plane)[rows[t // PAGE], t % PAGE] == sequence.tokens[t] + l + s).all()
            for l, layer in enumerate(cache)
            for s, plane in enumerate((layer.key, layer.value))
            for t in range(len(sequence.tokens))
        )
        say(sequence.request, right, pool.length(sequence.id), *sequence.output)
        pool.release(sequence.id)
    receiver.wait(10)
"""


class Sender:
    """An engine that prefills; K and V of a token tell the token and the layer."""

    def __init__(self, kind, address, model=b"m", dtype="f32"):
        self.pool = folio_kv.PagePool(64, 4, name=folio_kv.Sha256Names(), max_io_pins=64)
        self.cache = folio_kv.KVCache(3, 64, 4, kv_heads=2, head_size=8, dtype=dtype)
        self.transport = transport_of(kind)
        self.sender = tiers.HandoverSender(
            self.transport, self.pool, self.cache, regions=[self.cache], model=model
        )
        self.peer = self.transport.connect(address)

    def prefill(self, request, prompt, output=()):
        sequence = self.pool.admit(prompt).id
        self.pool.reserve(sequence, len(prompt))
        handover = self.sender.begin(self.peer, request, sequence, prompt)
        rows = np.asarray(self.pool.table()).reshape(-1)[self.pool.row_start(sequence) :]
        for number, layer in enumerate(self.cache):
            for s, plane in enumerate((layer.key, layer.value)):
                view = np.from_dlpack(plane)
                for t, token in enumerate(prompt):
                    view[rows[t // 4], t % 4] = token + number + s
            if number == 0:
                self.sender.push(handover, 0, 0, 5)
            self.sender.push_layer(handover, number)
            self.sender.poll()
        self.pool.commit(sequence, prompt)
        self.sender.finish(handover, output)
        return handover, sequence

    def end(self, handover, seconds=20):
        ends = []

        def ended():
            self.sender.poll()
            ends.extend(self.sender.take_ends())
            if not ends:
                self.sender.wait(10)
            return ends

        until(ended, "the end of a handover", seconds)
        assert [end.id for end in ends] == [handover]
        return ends[0].outcome, ends[0].reason


@pytest.mark.parametrize("dtypes", [("f32", "f32"), ("f16", "f32")])
def test_a_sequence_goes_to_another_process_layer_by_layer(kind, dtypes):
    with Child(RECEIVER, kind, dtypes[0]) as receiver:
        sender = Sender(kind, bytes.fromhex(receiver.line()[0]), dtype=dtypes[1])
        for request in (7, 8):
            prompt = [request + t for t in range(18)]
            handover, sequence = sender.prefill(request, prompt, [99, 98])
            assert sender.end(handover) == ("done", "")
            assert receiver.line() == [str(request), "True", "18", "99", "98"]
            sender.pool.release(sequence)
        figures = sender.sender.figures()
        assert figures["ended"]["done"] == 2 and figures["pinned_pages"] == 0
        assert figures["sent_bytes"] > 0 and figures["handovers"] == 0


def test_a_receiver_of_another_model_refuses_and_says_why(kind):
    with Child(RECEIVER, kind, "f32") as receiver:
        sender = Sender(kind, bytes.fromhex(receiver.line()[0]), model=b"another")
        handover, _ = sender.prefill(1, list(range(9)))
        outcome, reason = sender.end(handover)
        assert outcome == "refused" and "model" in reason


def test_a_receiver_that_is_killed_is_lost(kind):
    with Child(RECEIVER, kind, "f32") as receiver:
        sender = Sender(kind, bytes.fromhex(receiver.line()[0]))
        sequence = sender.pool.admit([1, 2, 3]).id
        handover = sender.sender.begin(sender.peer, 5, sequence, [1, 2, 3])
        receiver.kill()
        assert sender.end(handover)[0] == "lost"
        assert sender.transport.peer_state(sender.peer) == "lost"


def test_a_handover_that_is_cancelled_ends_as_such(kind):
    with Child(RECEIVER, kind, "f32") as receiver:
        sender = Sender(kind, bytes.fromhex(receiver.line()[0]))
        sequence = sender.pool.admit([1, 2, 3]).id
        handover = sender.sender.begin(sender.peer, 5, sequence, [1, 2, 3])
        sender.sender.cancel(handover)
        assert sender.end(handover)[0] == "cancelled"


# ---- memory that a transport knows


def numpy_ends(transport, **options):
    """A sender whose planes lie in an array; the array."""
    memory = np.zeros((8, 2, PAGE, 1, 8), np.float32)
    planes = [folio_kv.Pages(memory[:, 0], memory[:, 1])]
    pool = folio_kv.PagePool(8, PAGE, name=folio_kv.Sha256Names(), max_io_pins=8)
    return tiers.HandoverSender(transport, pool, planes, regions=[memory], **options), memory


def test_memory_of_an_end_that_is_gone_is_the_next_ones(kind):
    transport = transport_or_skip(kind)
    cache = folio_kv.KVCache(1, 8, PAGE, kv_heads=1, head_size=8)

    def sender(**options):
        pool = folio_kv.PagePool(8, PAGE, name=folio_kv.Sha256Names(), max_io_pins=8)
        return tiers.HandoverSender(transport, pool, cache, regions=[cache], **options)

    with pytest.raises(folio_kv.Error, match="first_head"):
        sender(first_head=3)
    for _ in range(3):
        sender()
        gc.collect()


def test_memory_that_a_transport_knows_stays_as_long_as_the_tier_that_has_it():
    server = tiers.PageServer(transport_of("shared_memory"), MIB, 64)
    transport = transport_of("shared_memory")
    sender, memory = numpy_ends(transport)
    alive = weakref.ref(memory)
    del sender, memory
    tier = tiers.PeerTier(transport, server.address())
    del transport
    gc.collect()
    assert alive() is not None
    del tier
    gc.collect()
    assert alive() is None


# ---- what cannot be

REFUSED = {
    "no peers": ({"max_peers": 0}, "max_peers"),
    "no time": ({"timeout_ms": -1}, "timeout_ms"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_of_all_transports_are_named(kind, name):
    options, words = REFUSED[name]
    with pytest.raises(folio_kv.Error, match=words) as refused:
        transport_of(kind, **options)
    assert refused.value.code == "invalid_argument"


def test_addresses_that_are_none_are_refused_and_the_transport_goes_on(kind):
    one, other = transport_of(kind), transport_of(kind)
    address = one.address()
    damaged = bytes([*address[:-1], address[-1] ^ 1])
    strange = b"" if kind == "shared_memory" else transport_of("shared_memory").address()
    for wrong in (b"", b"here", address[:-1], damaged, address + b"1", bytes(1 << 20), strange):
        with pytest.raises(folio_kv.Error) as refused:
            other.connect(wrong)
        assert refused.value.code in ("invalid_argument", "unsupported"), wrong[:20]
        with pytest.raises(folio_kv.Error, match="address"):
            tiers.PeerTier(transport_of(kind), wrong)
    with pytest.raises(folio_kv.Error, match="of this end"):
        one.connect(address)
    with pytest.raises(TypeError):
        one.connect("text")
    for peer in (0, 7, 2**32 - 1):
        with pytest.raises(folio_kv.Error, match="peer"):
            other.peer_state(peer)
    peer = other.connect(address)
    until(lambda: other.peer_state(peer) == "connected", "the connection", 60)
    assert other.connect(address) == peer and other.last_fault() == ""
    del one
    gc.collect()
    until(lambda: other.peer_state(peer) == "lost", "the end of a peer", 60)


UCX_NAMES = {
    "a transport that is none": ("warp", 'transports is "warp", expected names of UCX'),
    "text that is cut": ("tcp\0ib", "transports has a 0 in it"),
    "a line": ("tcp\n", 'transports is "tcp\n"'),
}


@pytest.mark.parametrize("name", UCX_NAMES)
def test_names_of_ucx_that_are_none_are_refused(name):
    transport_or_skip("ucx")
    given, words = UCX_NAMES[name]
    with pytest.raises(folio_kv.Error, match=words):
        tiers.UcxTransport(given)
    with pytest.raises(TypeError):
        tiers.UcxTransport(7)


def test_names_of_nixl_that_are_none_are_refused():
    transport_or_skip("nixl")
    for given in ("", "tcp,shm", "warp", "tcp\0", "tcp\n"):
        with pytest.raises(folio_kv.Error, match="transports|warp|NIXL"):
            tiers.NixlTransport(library=str(NIXL), transports=given)
    transport_of("nixl").address()


# ---- what is missing


@pytest.mark.parametrize("library", ["/nowhere/libnixl_capi.so", "libm.so.6", "/", __file__])
def test_a_library_that_is_not_nixl_is_named_with_the_package_that_brings_it(library):
    with pytest.raises(folio_kv.Unsupported, match=r"NIXL .*pip: nixl-cu13") as missing:
        tiers.NixlTransport(library=library)
    assert library in str(missing.value)
    with pytest.raises(folio_kv.Error, match="library"):
        tiers.NixlTransport(library="libnixl\0.so")


def test_nixl_is_found_where_pip_puts_it_beside_folio(tmp_path):
    """In a folder of packages that has folio and NIXL's files alone."""
    transport_or_skip("nixl")
    (tmp_path / "folio_kv").symlink_to(Path(folio_kv.__file__).parent)
    (tmp_path / ".nixl_cu13.mesonpy.libs").symlink_to(Path(NIXL).parent)
    libraries = Path(NIXL).parent.parent / "nixl_cu13.libs"
    (tmp_path / "nixl_cu13.libs").symlink_to(libraries)
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import folio_kv
from folio_kv import tiers
assert folio_kv.__file__.startswith({str(tmp_path)!r}), folio_kv.__file__
print(len(tiers.NixlTransport(transports="tcp").address()) > 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


MISSING = """
for make in (tiers.UcxTransport, tiers.NixlTransport, tiers.EventPublisher, tiers.EventSubscriber):
    for _ in range(2):
        try:
            make()
        except folio_kv.Unsupported as missing:
            say(make.__name__, missing)
"""


def test_what_is_missing_is_named_with_the_package_that_brings_it():
    """In a namespace of mounts, where the system's libraries are empty files."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespace of mounts is to be had: not root, or not allowed")
    hidden = """
for file in $(ls /lib/*-linux-gnu/lib{zmq,ucp}.so.* /usr/lib*/lib{zmq,ucp}.so.*); do
  mount --bind /dev/null "$(readlink -f "$file")"
done 2> /dev/null
exec "$@"
"""
    with Child(MISSING, before=["unshare", "--mount", "bash", "-c", hidden, "bash"]) as child:
        said = child.process.stdout.read()
    for name, words in {
        "UcxTransport": "make_ucx_transport: UCX cannot be loaded (Debian: libucx0)",
        "NixlTransport": "make_nixl_transport: NIXL cannot be loaded (pip: nixl-cu13,",
        "EventPublisher": "EventPublisher::create: ZeroMQ cannot be loaded (Debian: libzmq5;",
        "EventSubscriber": "EventSubscriber::create: ZeroMQ cannot be loaded (Debian: libzmq5;",
    }.items():
        assert said.count(f"{name} {words}") == 2, said
