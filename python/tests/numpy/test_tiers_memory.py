# SPDX-License-Identifier: Apache-2.0
"""Tiers through Python: who keeps what alive."""

import gc
import os
import sys
import weakref

import numpy as np
import pytest
from tier_engine import until
from tier_kinds import KINDS, tier_of

import folio_kv
from folio_kv import tiers


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
