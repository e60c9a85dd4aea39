# SPDX-License-Identifier: Apache-2.0
"""Handovers within one process: hybrid models, layers before their time, and who keeps what."""

import gc
import weakref

import numpy as np
import pytest
from tier_engine import PAGE, hybrid, until

import folio_kv
from folio_kv import tiers

PROMPT = list(range(3 * PAGE))


def memory():
    return tiers.SharedMemoryTransport(same_user=True)


class Hybrid:
    """A pool of three groups and an end of handovers."""

    def __init__(self, kind, **options):
        self.pool, groups, self.pages, arena = hybrid()
        groups[2]["state_parts"] = [64]
        self.transport = memory()
        self.end = kind(
            self.transport, self.pool, groups=groups, regions=[arena], model=b"m", **options
        )

    def row(self, sequence, group):
        table = np.asarray(self.pool.table(group)).reshape(-1)
        return table[self.pool.row_start(sequence, group) :]


def pair(**options):
    receiver = Hybrid(tiers.HandoverReceiver, **options)
    sender = Hybrid(tiers.HandoverSender)
    return sender, receiver, sender.transport.connect(receiver.transport.address())


def both_poll(sender, receiver):
    sender.end.poll()
    receiver.end.poll()


@pytest.mark.parametrize("landing", ["direct", "staged"])
def test_a_hybrid_model_goes_over_with_windows_and_states(landing):
    sender, receiver, peer = pair(landing=landing)
    sequence = sender.pool.admit(PROMPT).id
    sender.pool.reserve(sequence, len(PROMPT))
    handover = sender.end.begin(peer, 3, sequence, PROMPT)
    for group, first in enumerate((1, 51, 101)):
        for position in range(3):
            sender.pages[group][sender.row(sequence, group)[position]] = first + position
    seen = set()
    for layer in range(3):
        sender.end.push_layer(handover, layer)

        def has_come(layer=layer):
            both_poll(sender, receiver)
            (coming,) = receiver.end.arriving() or [None]
            if coming is not None:
                assert coming.tokens == PROMPT and coming.request == 3
                seen.add(coming.layers_ready)
            return coming is not None and coming.layers_ready == layer + 1

        until(has_come, f"layer {layer}")
    sender.pool.commit(sequence, PROMPT)
    sender.end.finish(handover, [9])
    taken = until(lambda: both_poll(sender, receiver) or receiver.end.take(), "the sequence")
    assert seen == {0, 1, 2, 3} or seen == {1, 2, 3}
    (received,) = taken
    assert (received.request, received.tokens, received.output) == (3, PROMPT, [9])
    assert received.cached_tokens == 0 and receiver.pool.length(received.id) == len(PROMPT)
    for group, first in enumerate((1, 51, 101)):
        needed = range(3) if group == 0 else range(2, 3)  # what the next token asks for
        for position in needed:
            page = receiver.row(received.id, group)[position]
            assert (receiver.pages[group][page] == first + position).all(), (group, position)
    (end,) = until(lambda: both_poll(sender, receiver) or sender.end.take_ends(), "the end")
    assert (end.id, end.outcome, end.reason) == (handover, "done", "")
    figures = receiver.end.figures()
    assert figures["committed"] == 1 and figures["pinned_pages"] == 0 == figures["handovers"]
    assert figures["staged_pieces" if landing == "staged" else "direct_pieces"] > 0
    assert receiver.end.last_fault() == ""
    receiver.pool.release(received.id)
    receiver.pool.check_invariants()


def test_a_request_that_is_cancelled_by_its_receiver_leaves_no_sequence():
    sender, receiver, peer = pair()
    sequence = sender.pool.admit(PROMPT).id
    sender.pool.reserve(sequence, len(PROMPT))
    sender.end.begin(peer, 3, sequence, PROMPT)
    until(lambda: both_poll(sender, receiver) or receiver.end.arriving(), "the announcement")
    receiver.end.cancel(3)
    receiver.end.cancel(4)
    (end,) = until(lambda: both_poll(sender, receiver) or sender.end.take_ends(), "the end")
    assert end.outcome == "cancelled"
    until(lambda: both_poll(sender, receiver) or not receiver.end.figures()["handovers"])
    assert receiver.end.take() == [] and receiver.pool.stats()["sequences"] == 0


def test_a_handover_that_nobody_answers_is_late():
    sender, receiver, peer = pair()
    sequence = sender.pool.admit(PROMPT).id
    handover = sender.end.begin(peer, 3, sequence, PROMPT)
    sender.end.poll(1000)
    sender.end.poll(1000 + 20_000)
    (end,) = sender.end.take_ends()
    assert (end.id, end.outcome) == (handover, "late") and end.reason


def test_an_end_keeps_pool_planes_and_transport_and_lets_go_of_them():
    class Memory(np.ndarray):
        pass

    pool = folio_kv.PagePool(4, PAGE, max_io_pins=4)
    kv = np.zeros((4, 2, PAGE, 1, 8), np.float32).view(Memory)
    gone = weakref.ref(kv)
    planes = [folio_kv.Pages(kv[:, 0], kv[:, 1])]
    end = tiers.HandoverReceiver(memory(), pool, planes, regions=[kv])
    del pool, kv, planes
    gc.collect()
    end.poll()
    assert gone() is not None and end.figures()["sequences"] == 0
    del end
    gc.collect()
    assert gone() is None


def test_an_end_whose_pool_leads_back_to_it_is_collected():
    class Engine:
        def __init__(self):
            self.pool = folio_kv.PagePool(4, PAGE, max_io_pins=4, name=self.name)
            cache = folio_kv.KVCache(1, 4, PAGE, kv_heads=1, head_size=8)
            self.sender = tiers.HandoverSender(memory(), self.pool, cache, regions=[cache])

        def name(self, page):
            return b"n"

    gc.collect()
    seen = weakref.ref(Engine())
    gc.collect()
    assert seen() is None
