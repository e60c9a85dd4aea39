# SPDX-License-Identifier: Apache-2.0
"""A hostile caller of tiers: errors name the argument, what was expected and what came."""

import copy
import gc
import inspect
import pickle
import threading

import numpy as np
import pytest
from tier_engine import PAGE, Engine

import folio_kv
from folio_kv import tiers

MIB = 1 << 20
U8 = np.uint8


def host(**options):
    return tiers.HostTier(MIB, **options)


def memory(**options):
    return tiers.SharedMemoryTransport(same_user=True, **options)


def pool(**options):
    return folio_kv.PagePool(
        8, PAGE, **{"name": folio_kv.Sha256Names(), "max_io_pins": 8, **options}
    )


def cache(pages=8, **options):
    return folio_kv.KVCache(1, pages, PAGE, **{"kv_heads": 1, "head_size": 8, **options})


def read_only(shape):
    array = np.zeros(shape, U8)
    array.flags.writeable = False
    return array


def endless(shape):
    """An array of bytes that are not there."""
    shape = shape if isinstance(shape, tuple) else (shape,)
    strides = tuple(1 if axis == len(shape) - 1 else 0 for axis in range(len(shape)))
    return np.lib.stride_tricks.as_strided(np.zeros(1, U8), shape, strides)


def hybrid_pool():
    groups = [{"page_bytes": 64}, {"rule": "state", "checkpoint": PAGE, "page_bytes": 64}]
    return pool_of_groups(groups)


def pool_of_groups(groups):
    names = folio_kv.Sha256Names()
    return folio_kv.PagePool(0, PAGE, groups=groups, arena_bytes=64 * 32, name=names, max_io_pins=8)


def grouped(*groups):
    return tiers.CacheManager(hybrid_pool(), groups=groups)


def page_server(**options):
    return tiers.PageServer(memory(), **{"max_bytes": MIB, "page_bytes": 64, **options})


def pool_server(**options):
    c = cache()
    arguments = {"memory": [c], **options}
    return tiers.PoolPageServer(memory(), pool(event_capacity=8), c, **arguments)


def sender(**options):
    c = cache()
    return tiers.HandoverSender(memory(), pool(), c, **{"regions": [c], **options})


def receiver(**options):
    c = cache()
    return tiers.HandoverReceiver(memory(), pool(), c, **{"regions": [c], **options})


def publisher(**options):
    return tiers.EventPublisher("tcp://127.0.0.1:*", **options)


PAGES = tiers.PageArrays([np.zeros((4, 8), U8)])

REFUSED = {
    # pages
    "no arrays": (lambda: tiers.PageArrays([]), "arrays: expected one or more, got none"),
    "an array of text": (lambda: tiers.PageArrays(["pages"]), r"arrays\[0\]: expected an array .* got str"),
    "a scalar": (lambda: tiers.PageArrays([np.float32(1).reshape(())]), r"arrays\[0\]: expected an axis of pages"),
    "arrays of other pages": (lambda: tiers.PageArrays([np.zeros((4, 8)), np.zeros((3, 8))]), r"arrays\[1\]: expected 4 pages as in arrays\[0\], got 3"),
    "pages of nothing": (lambda: tiers.PageArrays([np.zeros((4, 0))]), r"arrays\[0\]: expected pages with elements"),
    "pages of nothing along two axes": (lambda: tiers.PageArrays([np.zeros((4, 0, 0))]), r"arrays\[0\]: expected pages with elements"),
    "runs that overflow a number": (lambda: tiers.PageArrays([np.broadcast_to(U8(1), (1, 1 << 20, 1 << 40))]), "more than 1048576 runs"),
    "bytes that overflow a number": (lambda: tiers.PageArrays([endless((1, 1 << 62)), endless((1, 1 << 62))]), r"arrays\[1\]: a page has more than \d+ bytes"),
    "too many runs": (lambda: tiers.PageArrays([np.zeros((1, (1 << 20) + 1, 2), U8)[..., :1]]), "more than 1048576 runs"),
    # names
    "names of text": (lambda: host().find("names"), "names: expected names of bytes"),
    "bytes as names": (lambda: host().find(b"names"), "names: expected a sequence of bytes"),
    "names of no sequence": (lambda: host().find(7), "names: expected a sequence of bytes"),
    "an empty name": (lambda: host().find_each([b"a", b""]), "names: expected names of 1 to 32 bytes, got 0"),
    "a long name": (lambda: host().drop([bytes(33)]), "names: expected names of 1 to 32 bytes, got 33"),
    "an array of names": (lambda: host().find(np.zeros(3)), "names: expected"),
    "no names to store": (lambda: host().store([], []), "pages|none|expected"),
    # where
    "a page too few": (lambda: host().store([b"a"], []), "where: expected an array for each of 1 names, got 0"),
    "one array for all": (lambda: host().store([b"a"], b"12345678"), "where: expected PageArrays, or a sequence of an array for each of 1 names"),
    "no bytes": (lambda: host().store([b"a"], [b""]), r"where\[0\]: expected bytes, got none"),
    "no elements": (lambda: host().store([b"a"], [np.zeros((0, 0))]), r"where\[0\]: expected bytes, got none"),
    "no elements behind some": (lambda: host().load([b"a", b"b"], [bytearray(8), np.zeros((3, 0, 0))]), r"where\[1\]: expected bytes, got none"),
    "more bytes than there are": (lambda: host().store([b"a"], [endless(1 << 62)]), "bytes|room|queue"),
    "no buffer": (lambda: host().store([b"a"], [7]), r"where\[0\]: expected an array .* got int"),
    "read-only bytes to load": (lambda: host().load([b"a"], [bytes(8)]), r"where\[0\]: expected an array that can be written"),
    "a read-only array to load": (lambda: host().load([b"a"], tiers.PageArrays([read_only((1, 8))]), [0]), "where: expected arrays that can be written"),
    "page numbers without pages": (lambda: host().store([b"a"], [b"1"], [0]), "pages: given without PageArrays"),
    "pages without numbers": (lambda: host().store([b"a"], PAGES), "pages: expected the numbers of 1 pages"),
    "numbers of text": (lambda: host().store([b"a"], PAGES, ["0"]), r"pages\[0\] is '0'"),
    "a number too many": (lambda: host().store([b"a"], PAGES, [0, 1]), "pages: expected one for each of 1 names, got 2"),
    "a page outside": (lambda: host().load([b"a"], PAGES, [4]), r"pages\[0\] is 4, expected 0 to 3"),
    "a negative page": (lambda: host().load([b"a"], PAGES, [-1]), r"pages\[0\] is -1, expected 0 to 3"),
    "pages of a load that share bytes": (lambda: host().load([b"a", b"b"], PAGES, [1, 1]), "share bytes"),
    "a page whose elements share bytes": (lambda: host().load([b"a"], [np.lib.stride_tricks.as_strided(np.zeros(8, U8), (2, 8), (0, 1))]), "share bytes"),
    "parents of another count": (lambda: host().store([b"a"], [b"1"], parents=[]), "parents: expected one for each of 1 names, got 0"),
    "a parent of text": (lambda: host().store([b"a"], [b"1"], parents=["p"]), "parents: expected None or bytes"),
    "parents of no sequence": (lambda: host().store([b"a"], [b"1"], parents=7), "parents: expected a sequence"),
    "an order that is none": (lambda: host().load([b"a"], [bytearray(1)], order="layers"), 'order: expected one of "pages", "extents", got "layers"'),
    "a negative deadline": (lambda: host().load([b"a"], [bytearray(1)], deadline_ms=-1), "deadline_ms"),
    "bytes of an unknown kind": (lambda: tiers.record_bytes("tape", 8), 'kind: expected one of "host", "disk", "redis", got "tape"'),
    "bytes of no page": (lambda: tiers.record_bytes("host", 0), "page_bytes"),
    # options of tiers
    "no bytes to keep": (lambda: tiers.HostTier(0), "max_bytes"),
    "no threads": (lambda: host(threads=0), "threads"),
    "no queue": (lambda: host(max_queued_bytes=0), "max_queued_bytes"),
    "no queued pages": (lambda: host(max_queued_pages=0), "max_queued_pages"),
    "a long fingerprint": (lambda: host(fingerprint=bytes(33)), "fingerprint: expected at most 32 bytes, got 33"),
    "an observer that is none": (lambda: host(on_change=print), "on_change: expected what EventPublisher.add_tier gives, or None"),
    "a file as a directory": (lambda: tiers.DiskTier(__file__, 4 * MIB, segment_bytes=MIB), "test_tiers_hostile.py"),
    "less than two segments": (lambda: tiers.DiskTier("/nowhere", MIB), "segment_bytes"),
    "small segments": (lambda: tiers.DiskTier("/nowhere", 4 * MIB, segment_bytes=1), "segment_bytes"),
    "no depth": (lambda: tiers.DiskTier("/nowhere", 4 * MIB, segment_bytes=MIB, depth=0), "depth"),
    "a url that is none": (lambda: tiers.RedisTier("http://localhost", MIB), "redis|url"),
    "an unknown unknown": (lambda: tiers.RedisTier("redis://127.0.0.1:1", MIB, unknown="maybe"), 'unknown: expected one of "hoped", "asked"'),
    "an unknown check": (lambda: tiers.RedisTier("redis://127.0.0.1:1", MIB, check="all"), "check: expected one of"),
    "a negative ttl": (lambda: tiers.RedisTier("redis://127.0.0.1:1", MIB, ttl_s=-1), "ttl_s"),
    "an address that is none": (lambda: tiers.PeerTier(memory(), b"here"), "address"),
    "memory with gaps": (lambda: tiers.PeerTier(memory(), b"here", memory=[np.zeros((4, 8))[:, :4]]), "memory: expected contiguous arrays"),
    "memory that cannot be written": (lambda: tiers.PeerTier(memory(), b"here", memory=[bytes(8)]), "memory: expected an array that can be written"),
    # managers
    "tiers that are none": (lambda: tiers.CacheManager(pool(), cache(), ["disk"]), r"tiers\[0\]: expected a Tier"),
    "planes that are none": (lambda: tiers.CacheManager(pool(), ["layer"]), r"planes\[0\]: expected Pages"),
    "a number as planes": (lambda: tiers.CacheManager(pool(), 7), "planes: expected a sequence"),
    "no planes": (lambda: tiers.CacheManager(pool()), "planes is empty"),
    "planes of fewer pages": (lambda: tiers.CacheManager(pool(), cache(7)), r"planes\[0\] have no page 7"),
    "planes that are read-only": (lambda: tiers.CacheManager(pool(), [folio_kv.Pages(read_only((8, PAGE, 1, 8)).view(np.int8))]), "read-only"),
    "a policy that is none": (lambda: tiers.below(host(), "always"), 'policy: expected one of "none", "write_through", "write_back", "at_eviction", got "always"'),
    "a budget of nothing": (lambda: tiers.CacheManager(pool(), cache(), [tiers.below(host(), max_store_bytes=-1)]), "max_store_bytes"),
    "negative hits": (lambda: tiers.CacheManager(pool(), cache(), [tiers.below(host(), min_hits=-1)]), "min_hits"),
    "no faults": (lambda: tiers.CacheManager(pool(), cache(), [tiers.below(host(), faults_to_rest=0)]), "faults_to_rest"),
    "spare pages for nothing": (lambda: tiers.CacheManager(pool(), cache(), [tiers.below(host(), "at_eviction")]), "spare_pages"),
    "a group that is no dictionary": (lambda: grouped(7), r"groups\[0\]: expected a dictionary"),
    "a group with a key of number": (lambda: grouped({7: 8}), r"groups\[0\]: expected keys of text"),
    "a group with an unknown key": (lambda: grouped({"heads": 8}), r"groups\[0\]: heads: expected planes, states, layers or hit_interval"),
    "groups too few": (lambda: grouped({"planes": cache(), "layers": [0]}), "groups has 1 elements, expected 2"),
    "layers of text": (lambda: grouped({"layers": ["0"]}), r"groups\[0\]: layers\[0\] is '0'"),
    "an interval of text": (lambda: grouped({"hit_interval": "4"}), r"groups\[0\]: hit_interval: expected an integer of 32 bits, got '4'"),
    "states of few pages": (lambda: grouped({}, {"states": [np.zeros((2, 64), U8)]}), r"groups\[1\]: states\[0\]: expected \d+ pages or more, .* got 2"),
    "states with gaps": (lambda: grouped({}, {"states": [np.zeros((64, 64), U8)[:, ::2]]}), r"groups\[1\]: states\[0\]: expected the bytes of a page without gaps"),
    "states that are read-only": (lambda: grouped({}, {"states": [read_only((64, 64))]}), r"groups\[1\]: states\[0\]: expected an array that can be written"),
    "counters of no tier": (lambda: Engine([]).manager.counters(0), "tier is 0"),
    # servers
    "a server of nothing": (lambda: page_server(max_bytes=0), "max_bytes"),
    "pages of no bytes": (lambda: page_server(page_bytes=0), "page_bytes"),
    "leases of no time": (lambda: page_server(lease_ms=0), "lease_ms"),
    "an access that is none": (lambda: page_server(access="write"), 'access: expected one of "read_only", "read_write"'),
    "a page that is too long": (lambda: page_server().put([b"a"], [bytes(65)]), "page_bytes|65"),
    "a name of nothing": (lambda: page_server().has(b""), "name: expected 1 to 32 bytes, got 0"),
    "a pool that tells nothing": (lambda: tiers.PoolPageServer(memory(), pool(), c := cache(), memory=[c]), "event"),
    "a pool's pages nowhere": (lambda: pool_server(memory=[]), "memory"),
    "a pool server without time": (lambda: pool_server(lease_ms=0), "lease_ms"),
    # transports
    "a transport without peers": (lambda: memory(max_peers=0), "max_peers"),
    "a transport without time": (lambda: memory(timeout_ms=-1), "timeout_ms"),
    "a connection to nowhere": (lambda: memory().connect(b""), "address"),
    "a peer that is none": (lambda: memory().peer_state(7), "peer"),
    # handovers
    "a sender without planes": (lambda: tiers.HandoverSender(memory(), pool()), "planes"),
    "a sender without pins": (lambda: tiers.HandoverSender(memory(), pool(max_io_pins=0), cache()), "max_io_pins"),
    "a sender without handovers": (lambda: sender(max_handovers=0), "max_handovers"),
    "a model of many bytes": (lambda: sender(model=bytes(33)), "model: expected at most 32 bytes, got 33"),
    "heads that there are not": (lambda: sender(first_head=3), "first_head"),
    "regions that are the same": (lambda: sender(regions=[(c := cache()), c]), "region"),
    "a group of transfers with an interval": (lambda: tiers.HandoverSender(memory(), hybrid_pool(), groups=[{"hit_interval": 4}, {}]), r"groups\[0\]: hit_interval: expected .* first_head"),
    "a handover to nobody": (lambda: begin_with_nobody(), "peer"),
    "a push of nothing": (lambda: sender().push(5, 0, 0, 1), "handover|id"),
    "a push of a layer of nothing": (lambda: sender().push_layer(5, 0), "handover|id"),
    "the end of nothing": (lambda: sender().finish(5), "handover|id"),
    "a landing that is none": (lambda: receiver(landing="soft"), 'landing: expected one of "direct", "staged", got "soft"'),
    "no slots": (lambda: receiver(staging_slots=0), "staging_slots"),
    "no tokens": (lambda: receiver(max_tokens=0), "max_tokens"),
    "no time": (lambda: receiver(total_ms=0), "total_ms"),
    # events
    "an endpoint that is none": (lambda: tiers.EventPublisher("nowhere"), "endpoint"),
    "an attachment that is none": (lambda: publisher(attach="glue"), "attach: expected one of"),
    "a format that is none": (lambda: publisher(format="json"), "format: expected one of"),
    "names of a form that is none": (lambda: publisher(names="text"), "names: expected one of"),
    "a queue of nothing": (lambda: publisher(max_queued_events=0), "max_queued_events"),
    "a medium of nothing": (lambda: publisher().add_tier(""), "medium"),
    "groups that no pool has": (lambda: publisher().add_pool(groups=[{"rule": "all"}]), r"groups\[0\]: rule"),
    "a subscriber of nothing": (lambda: tiers.EventSubscriber("nowhere"), "endpoint"),
    "no held batches": (lambda: tiers.EventSubscriber("tcp://127.0.0.1:9", max_held_batches=0), "max_held_batches"),
    "an index of nothing": (lambda: tiers.EventIndex(max_names=0), "max_names"),
    "an index of many media": (lambda: tiers.EventIndex(max_media=33), "max_media"),
    "a group of an index without a rule": (lambda: tiers.EventIndex(groups=[{"group": 0}]), r"groups\[0\]: rule: expected text"),
    "a group of an index with a wrong rule": (lambda: tiers.EventIndex(groups=[{"rule": "all"}]), "groups: rule: expected one of"),
    "a group of an index with another key": (lambda: tiers.EventIndex(groups=[{"rule": "full", "sinks": 3}]), r"groups\[0\]: expected group, rule, .* got 'sinks'"),
    "a window of text": (lambda: tiers.EventIndex(groups=[{"rule": "window", "window": "3"}]), r"groups\[0\]: window: expected an integer"),
    "a name of 65 bits": (lambda: tiers.EventIndex().find([1 << 64]), r"names\[0\]: expected 64 bits, got 18446744073709551616"),
    "a negative name": (lambda: tiers.EventIndex().find([-1]), r"names\[0\]: expected 64 bits, got -1"),
    "a name of text in an index": (lambda: tiers.EventIndex().find(["n"]), "names: expected integers of 64 bits, or names of bytes"),
    "bytes that are no batch": (lambda: tiers.EventIndex().apply(b"\xc1"), "payload|batch|msgpack"),
}  # fmt: skip


def begin_with_nobody():
    of, c = pool(), cache()
    tiers.HandoverSender(memory(), of, c, regions=[c]).begin(9, 1, of.admit([1]).id, [1])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_named(name):
    call, words = REFUSED[name]
    with pytest.raises(folio_kv.Error, match=words):
        call()


TYPES = {
    "a pool of text": lambda: tiers.CacheManager("pool", cache()),
    "a pool server of no pool": lambda: tiers.PoolPageServer(memory(), "pool", cache()),
    "a sender of no pool": lambda: tiers.HandoverSender(memory(), "pool", cache()),
    "a receiver without transport": lambda: tiers.HandoverReceiver(None, pool(), cache()),
    "a server without transport": lambda: tiers.PageServer(None, MIB, 64),
    "bytes of text": lambda: tiers.HostTier("1"),
    "more bytes than a number has": lambda: tiers.HostTier(1 << 64),
    "negative threads": lambda: host(threads=-1),
    "a fingerprint of text": lambda: host(fingerprint="f"),
    "a deadline of text": lambda: host().load([b"a"], [bytearray(1)], deadline_ms="1"),
    "below of text": lambda: tiers.below("tier"),
    "a sequence of number": lambda: Engine([]).manager.release(7),
    "an event of text": lambda: pool_server().note("event", []),
    "a transfer of one's own": lambda: tiers.Transfer(),
    "a tier of no kind": lambda: tiers.Tier(),
    "an observer of one's own": lambda: tiers.PoolObserver(),
    "an unknown option": lambda: host(colour="red"),
}


@pytest.mark.parametrize("name", TYPES)
def test_what_is_of_another_type_is_a_type_error(name):
    with pytest.raises(TypeError):
        TYPES[name]()


def test_ids_of_another_pool_and_stale_ones_are_refused():
    engine, other = Engine([]), Engine([])
    sequence = engine.manager.admit([1, 2, 3]).id
    engine.manager.release(sequence)
    for _ in range(3):
        other.manager.admit([1])
    last = other.manager.admit([1]).id
    for stale in (sequence, last):
        for call in (
            lambda: engine.manager.release(stale),  # noqa: B023
            lambda: engine.manager.preempt(stale),  # noqa: B023
            lambda: engine.manager.resume(stale, [1]),  # noqa: B023
            lambda: engine.manager.commit(stale, [1]),  # noqa: B023
            lambda: engine.manager.cancel_load(stale),  # noqa: B023
        ):
            with pytest.raises(folio_kv.Error) as refused:
                call()
            assert refused.value.code == "invalid_argument"
        assert engine.manager.load_state(stale) == "none"
        assert engine.manager.layers_ready(stale) == 0
    for call in (
        lambda: engine.manager.admit([]),
        lambda: engine.manager.admit("text"),
        lambda: engine.manager.prefetch([1 << 31]),
        lambda: engine.manager.admit([1], spans=[(0, 1)]),
        lambda: engine.manager.admit([1], salt=bytes(129)),
        lambda: engine.manager.admit([1], retention=[7]),
    ):
        with pytest.raises(folio_kv.Error):
            call()
    engine.pool.check_invariants()


def test_a_transport_is_one_ends():
    transport = memory()
    server = tiers.PageServer(transport, MIB, 64)
    address = server.address()
    for call in (
        lambda: tiers.PageServer(transport, MIB, 64),
        lambda: tiers.PeerTier(transport, address),
        lambda: tiers.HandoverSender(transport, pool(), cache()),
    ):
        with pytest.raises(folio_kv.Error, match="another end receives its messages") as busy:
            call()
        assert busy.value.code == "busy"
    given = memory()
    tier = tiers.PeerTier(given, address)
    for call in (given.address, given.last_fault, lambda: given.connect(address)):
        with pytest.raises(folio_kv.Error, match="it is a PeerTier's"):
            call()
    tier.close()
    del server
    gc.collect()
    tiers.PageServer(transport, MIB, 64)


def test_events_that_no_pool_tells_are_borne(monkeypatch):
    monkeypatch.setattr("sys.unraisablehook", lambda u: None)  # no name for a page without tokens
    events = []
    with_events = folio_kv.PagePool(
        8, PAGE, name=folio_kv.Sha256Names(), on_event=lambda e, t: events.append((e, t))
    )
    sequence = with_events.admit(list(range(8))).id
    with_events.reserve(sequence, 8)
    with_events.commit(sequence, list(range(8)))
    server, told = pool_server(), publisher()
    observer = told.add_pool()
    for event, tokens in events * 3:
        for given in ([], tokens, tokens * 1000):
            server.note(event, given)
            observer(event, given)
    server.poll()
    told.flush()
    with pytest.raises(TypeError):
        server.note(events[0][0], ["token"])


def test_nothing_is_initialised_twice():
    engine = Engine([tier := host()])
    for call in (
        lambda: engine.manager.__init__(engine.pool, engine.cache, [tier]),
        lambda: tier.__init__(MIB),
    ):
        with pytest.warns(RuntimeWarning, match="already-initialized"), pytest.raises(TypeError):
            call()
    engine.manager.close()
    assert tier.store([b"a"], [b"1"]).wait()


MADE = {
    "tier": host,
    "transfer": lambda: host().store([b"a"], [b"1"]),
    "page arrays": lambda: PAGES,
    "transport": memory,
    "manager": lambda: Engine([]).manager,
    "below": lambda: tiers.below(host()),
    "page server": page_server,
    "pool server": pool_server,
    "sender": sender,
    "receiver": receiver,
    "publisher": publisher,
    "index": tiers.EventIndex,
    "observer": lambda: publisher().add_pool(),
}


@pytest.mark.parametrize("kind", MADE)
def test_nothing_is_copied_or_pickled(kind):
    made = MADE[kind]()
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(folio_kv.Unsupported, match="cannot be copied or pickled"):
            action(made)


def test_every_public_name_has_a_text_and_is_documented_in_the_module():
    public = {name for name in vars(tiers) if name[0] != "_" and name != "annotations"}
    assert public == set(tiers.__all__) and tiers.__all__ == sorted(tiers.__all__)
    for name in tiers.__all__:
        value = getattr(tiers, name)
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            methods = [m for m, f in vars(value).items() if callable(f) and m[0] != "_"]
            missing = [m for m in methods if not inspect.getdoc(getattr(value, m))]
            assert missing == [], (name, missing)


def test_threads_that_disagree_about_a_manager_break_nothing():
    engine = Engine([host()], pages=32)
    failures = []

    def work(base):
        for turn in range(40):
            try:
                manager = engine.manager
                sequence = manager.admit([base + turn % 5] * 9).id
                try:
                    engine.pool.reserve(sequence, 9 - engine.pool.length(sequence))
                    manager.commit(sequence, [base + turn % 5] * (9 - engine.pool.length(sequence)))
                except folio_kv.Error:
                    pass
                manager.release(sequence)
                manager.poll()
            except folio_kv.Error as error:
                if error.code not in ("busy", "out_of_pages", "invalid_argument"):
                    failures.append(error)

    threads = [threading.Thread(target=work, args=[100 * i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    engine.manager.close()
    engine.pool.check_invariants()
