# SPDX-License-Identifier: Apache-2.0
"""What pools and tiers tell routers, through Python: publisher, subscriber, index."""

import gc
import re
import threading
import time
from pathlib import Path

import pytest
from tier_engine import PAGE, until

import folio_kv
from folio_kv import tiers

MIB = 1 << 20
PROMPT = list(range(3 * PAGE + 1))
NAMES = folio_kv.Sha256Names()
CHAIN = NAMES.chain(PROMPT, PAGE)


def publisher(**options):
    endpoints = {"endpoint": "tcp://127.0.0.1:*", "replay_endpoint": "tcp://127.0.0.1:*"}
    return tiers.EventPublisher(**endpoints, **{"interval_ms": 1, **options})


def subscriber(to, **options):
    return tiers.EventSubscriber(to.endpoint, replay_endpoint=to.replay_endpoint, **options)


def pool_of(on_event, **options):
    return folio_kv.PagePool(8, PAGE, name=NAMES, on_event=on_event, **options)


def serve(pool, prompt=PROMPT):
    sequence = pool.admit(prompt).id
    pool.reserve(sequence, len(prompt))
    pool.commit(sequence, prompt)
    return sequence


def heard(reader, found, names=CHAIN, medium=None):
    def knows():
        reader.poll(20)
        return reader.index.find(names, medium) == found

    until(knows, f"{found} pages")


@pytest.mark.parametrize("form", ["bytes", "last_64_bits"])
@pytest.mark.parametrize("encoding", ["maps", "arrays"])
def test_a_subscriber_knows_what_a_pool_and_a_tier_have(form, encoding):
    told = publisher(names=form, format=encoding, topic=b"kv@pod")
    reader = subscriber(told, topic=b"kv@")
    pool = pool_of(told.add_pool(groups=[{"page_bytes": 64}]))
    with tiers.HostTier(MIB, on_change=told.add_tier("CPU")) as tier:
        sequence = serve(pool)
        tier.store([CHAIN[0]], [bytes(8)]).wait()
        told.flush()
        heard(reader, 3)
        heard(reader, 1, medium="CPU")
        assert sorted(reader.index.media) == ["CPU", "GPU"]
        assert reader.next_batch > 0
        if form == "last_64_bits":
            last = [int.from_bytes(name[24:], "big") for name in CHAIN]
            assert reader.index.find(last) == 3 and reader.index.find([*last[:2], 7]) == 2
        (group,) = reader.index.groups()
        assert group["group"] == 0 and group["rule"] == "full" and group["block_size"] == PAGE
        known = {name["name"]: name for name in reader.index.names()}
        if form == "bytes":
            assert sorted(known[CHAIN[0]]["media"]) == ["CPU", "GPU"]
            assert known[CHAIN[1]]["parent"] == CHAIN[0] and known[CHAIN[0]]["parent"] is None
        pool.release(sequence)
        pool.clear()
        tier.drop([CHAIN[0]])
        heard(reader, 0)
    assert told.figures()["dropped_events"] == 0 and told.figures()["published_events"] > 0
    assert reader.figures()["lost_batches"] == 0


def test_who_comes_late_begins_with_a_snapshot():
    told = publisher()
    pool = pool_of(told.add_pool())
    serve(pool)
    told.flush()
    until(lambda: told.figures()["published_batches"] > 0)
    reader = subscriber(told)
    heard(reader, 3)
    assert reader.figures()["snapshots"] == 1 and told.figures()["snapshots"] >= 1


def test_a_subscriber_knows_whether_a_publisher_is_there():
    def says(reader, is_connected):
        until(lambda: (reader.poll(5), reader.is_connected)[1] == is_connected, "a connection")

    told = publisher()
    reader, endpoint = subscriber(told), told.endpoint
    assert reader.is_connected is False  # as of the last poll, of which there was none
    says(reader, True)
    assert reader.figures()["live_batches"] == 0
    del told
    gc.collect()
    says(reader, False)
    again = tiers.EventPublisher(endpoint, attach="bind")
    says(reader, True)
    assert again.endpoint == endpoint


def test_batches_before_the_first_one_are_counted():
    told = publisher()
    first = subscriber(told)
    until(lambda: (first.poll(5), first.is_connected)[1], "a connection")
    pool = pool_of(told.add_pool())
    serve(pool)
    told.flush()
    heard(first, 3)
    late = tiers.EventSubscriber(told.endpoint)  # with nobody to ask
    until(lambda: (late.poll(5), late.is_connected)[1], "a connection")
    prompt = [7 + token for token in PROMPT]
    serve(pool, prompt)
    told.flush()
    heard(late, 3, NAMES.chain(prompt, PAGE))
    figures = late.figures()
    assert figures["earlier_batches"] == late.next_batch - figures["live_batches"] > 0
    assert figures["lost_batches"] == 0 and late.index.find(CHAIN) == 0
    assert first.figures()["earlier_batches"] == 0


FIGURES = {
    "event_publisher": lambda: publisher().figures(),
    "event_subscriber": lambda: subscriber(publisher()).figures(),
    "event_index": lambda: tiers.EventIndex().figures(),
}


@pytest.mark.parametrize("header", FIGURES)
def test_figures_are_those_of_the_library(header):
    path = Path(__file__).parents[3] / f"include/folio/tier/{header}.h"
    fields = re.search(r"Figures {\n(.*?)\n  bool operator==", path.read_text(), re.DOTALL)[1]
    declared = re.sub(r"///.*", "", fields)
    assert set(FIGURES[header]()) == set(re.findall(r"(\w+) = 0", declared))


def test_what_was_dropped_is_told_again():
    told = publisher(max_queued_events=1, interval_ms=10_000, names="bytes")
    reader = subscriber(told)
    observer = told.add_tier("STORAGE")
    names = [bytes([i + 1]) * 32 for i in range(200)]
    with tiers.HostTier(MIB, on_change=observer) as tier:
        pool = pool_of(told.add_pool())
        serve(pool)
        tier.store(names, [bytes(8)] * 200).wait()
        until(lambda: told.flush() or told.figures()["dropped_events"] > 0, "a dropped event")
        told.tell_again(tier, "STORAGE")
        told.tell_again(pool, "GPU")
        told.flush()
        heard(reader, 3)
        heard(reader, len(names), names, "STORAGE")
        for wrong in ("CPU", "GPU"):
            with pytest.raises(folio_kv.Error, match="medium"):
                told.tell_again(tier, wrong)
        with pytest.raises(folio_kv.Error, match="place: expected a PagePool or a Tier"):
            told.tell_again("pool", "GPU")


def test_an_adapter_has_the_name_that_it_was_given():
    told = publisher()
    told.name_adapter(3, "tales")
    with pytest.raises(folio_kv.Error, match="adapter"):
        told.name_adapter(0, "base")


def test_an_observer_is_called_beside_a_function_of_pythons():
    told, kinds = publisher(), []
    reader = subscriber(told)
    observer = told.add_pool()

    def on_event(event, tokens):
        kinds.append(event.kind)
        observer(event, tokens)

    serve(pool_of(on_event))
    heard(reader, 3)
    assert kinds == ["stored"] * 3


def test_an_index_takes_batches_and_a_subscribers_index_does_not():
    index = tiers.EventIndex()
    with pytest.raises(folio_kv.Error):
        index.apply(b"no msgpack")
    assert index.figures()["malformed_batches"] == 1
    # [0.0, [["BlockStored", [5, 6], nil, [1, 2], 1, nil, "GPU"]], nil], as msgpack
    event = b"\x97\xabBlockStored\x92\x05\x06\xc0\x92\x01\x02\x01\xc0\xa3GPU"
    index.apply(b"\x93\xcb" + bytes(8) + b"\x91" + event + b"\xc0")
    assert index.find([5, 6, 7]) == 2 and index.find([5, 6], "GPU") == 2
    assert index.find([5], "CPU") == 0 and index.figures()["names"] == 2
    assert index.figures()["stored_copies"] == 2 and index.figures()["removed_copies"] == 0
    assert index.find([(5).to_bytes(32, "big")]) == 1
    index.clear()
    assert index.find([5]) == 0 and index.names() == []
    assert index.figures()["removed_copies"] == 2
    told = publisher()
    of_subscriber = subscriber(told).index
    for call in (of_subscriber.clear, lambda: of_subscriber.apply(b"")):
        with pytest.raises(folio_kv.Error, match="it is a subscriber's"):
            call()


def test_an_index_of_a_hybrid_engine_finds_by_rules():
    groups = [
        {"rule": "full", "block_size": 1},
        {"group": 1, "rule": "window", "window": 2, "block_size": 1},
    ]
    index = tiers.EventIndex(block_size=1, groups=groups)
    # BlockStored of group 0: names 1 2 3; of group 1: name 3
    stored = b"\xabBlockStored"
    tail = b"\xc0\xa3GPU\xc0\xc0"
    first = b"\x9a" + stored + b"\x93\x01\x02\x03\xc0\x93\x01\x02\x03\x01" + tail + b"\x00"
    second = b"\x9a" + stored + b"\x91\x03\xc0\x91\x03\x01" + tail + b"\x01"
    index.apply(b"\x93\xcb" + bytes(8) + b"\x92" + first + second + b"\xc0")
    assert index.figures()["refused_events"] == 0, index.figures()
    assert index.find([1, 2, 3]) == 3 and index.find([1, 2]) == 0


# ---- who keeps what alive


def test_a_pool_keeps_its_publisher():
    told = publisher()
    reader, endpoint = subscriber(told), told.endpoint
    pool = pool_of(told.add_pool())
    tier = tiers.HostTier(MIB, on_change=told.add_tier("CPU"))
    del told
    gc.collect()
    serve(pool)
    tier.store([CHAIN[0]], [bytes(8)]).wait()
    heard(reader, 3)
    heard(reader, 1, medium="CPU")
    del pool
    gc.collect()
    tier.drop([CHAIN[0]])
    heard(reader, 0, medium="CPU")
    tier.close()
    del tier
    gc.collect()
    tiers.EventPublisher(endpoint, attach="bind")  # its port is free again


def test_a_pool_in_a_circle_tells_to_its_end():
    class Engine:
        def __init__(self, told):
            self.pool = folio_kv.PagePool(8, PAGE, name=self.name, on_event=told.add_pool())
            self.sequence = serve(self.pool)

        def name(self, page):
            return NAMES(page)

    told = publisher()
    reader = subscriber(told)
    engine = Engine(told)
    heard(reader, 3)
    del engine, told
    gc.collect()
    reader.poll(0)


def test_a_function_of_a_publisher_is_of_one_pool_or_tier():
    told = publisher()
    of_pool, of_tier = told.add_pool(), told.add_tier("CPU")
    pool = pool_of(of_pool)
    with pytest.raises(folio_kv.Error, match="on_event: another has it") as busy:
        pool_of(of_pool)
    assert busy.value.code == "busy"
    del pool
    gc.collect()
    pool_of(of_pool)
    with tiers.HostTier(MIB, on_change=of_tier):
        with pytest.raises(folio_kv.Error, match="on_change: another has it"):
            tiers.HostTier(MIB, on_change=of_tier)
    tiers.HostTier(MIB, on_change=of_tier).close()
    with pytest.raises(folio_kv.Error, match="max_bytes"):
        tiers.HostTier(0, on_change=of_tier)
    tiers.HostTier(MIB, on_change=of_tier).close()
    for wrong in (of_pool, print, "CPU"):
        with pytest.raises(folio_kv.Error, match="on_change: expected what EventPublisher"):
            tiers.HostTier(MIB, on_change=wrong)
    with pytest.raises(folio_kv.Error, match="on_event: expected a callable"):
        pool_of(of_tier)


def test_other_threads_run_while_one_polls():
    told = publisher()
    reader = subscriber(told, idle_check_ms=0)
    heard(reader, 0)
    answers, counts = [], []

    def poll():
        while not (answer := reader.poll(10_000)):
            pass
        answers.append(answer)

    thread = threading.Thread(target=poll)
    thread.start()
    pool = None
    while thread.is_alive():
        counts.append(reader.index.find([1]) if len(counts) % 10 == 0 else 0)
        time.sleep(0.001)
        if len(counts) == 50:
            pool = pool_of(told.add_pool())
            serve(pool)
    assert answers == [True] and len(counts) > 50


def test_who_asks_gets_answers_while_another_polls_for_long():
    told = publisher()
    reader = subscriber(told, idle_check_ms=0)
    heard(reader, 0)
    thread = threading.Thread(target=lambda: [reader.poll(60_000)])
    thread.start()
    for _ in range(20):
        assert reader.index.find(CHAIN) == 0 and reader.is_current and reader.is_connected
        assert reader.figures()["lost_batches"] == 0 and reader.next_batch >= 0
    assert thread.is_alive()
    pool = pool_of(told.add_pool())
    serve(pool)
    told.flush()
    thread.join(30)
    assert not thread.is_alive()
