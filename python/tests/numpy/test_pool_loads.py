# SPDX-License-Identifier: Apache-2.0
"""The page pool through Python: loads of several groups, names of companions, evictions."""

import gc
import sys
import weakref

import numpy as np
import pytest

import folio_kv

FULL = {"page_bytes": 64}
WINDOW = {"rule": "window", "page_bytes": 64, "window": 6}
PROMPT = list(range(17))  # four pages of 4, and a token more


def made(**options):
    return folio_kv.PagePool(
        0,
        4,
        max_sequences=3,
        max_pages_per_sequence=16,
        max_io_pins=4,
        groups=(FULL, WINDOW),
        arena_bytes=64 * 16,
        **options,
    )


def serve(pool, prompt):
    sequence = pool.admit(prompt).id
    pool.reserve(sequence, len(prompt))
    pool.commit(sequence, prompt)
    return sequence


def test_what_another_store_has_fills_a_hit_of_all_groups():
    pool = made()
    sequence = pool.admit(PROMPT).id
    assert pool.find_parts(sequence, PROMPT) == []
    # the window of 6 sees 5 tokens before the next one: its last two pages
    assert pool.begin_load(sequence, PROMPT, 16) == [1, 1, 3, 3]
    assert pool.load_length(sequence) == 16
    with pytest.raises(folio_kv.Error) as busy:
        pool.commit(sequence, [0])
    assert busy.value.code == "busy"
    assert pool.shorten_load(sequence, 12) == [0, 2, 0]
    pool.commit_load(sequence, PROMPT[:12])
    assert pool.length(sequence) == 12
    assert pool.parts(sequence, 1) == {"present": 3, "held": 3, "likely": 3}
    assert pool.parts(sequence, 0)["present"] == 1
    pool.release(sequence)
    assert pool.peek(PROMPT) == 12
    again = pool.admit(PROMPT[:1]).id
    assert pool.find_parts(again, PROMPT) == [1, 3, 3]
    pool.check_invariants()


@pytest.mark.parametrize(
    ("length", "match"),
    [(15, "length is 15"), (-4, "length is -4"), (20, "length is 20"), (0, "length is 0")],
)
def test_a_load_that_cannot_be_is_refused(length, match):
    pool = made()
    sequence = pool.admit(PROMPT).id
    with pytest.raises(folio_kv.Error, match=match):
        pool.begin_load(sequence, PROMPT, length)
    with pytest.raises(folio_kv.Error):
        pool.shorten_load(sequence, 4)
    with pytest.raises(folio_kv.Error):
        pool.commit_load(sequence, PROMPT[:4])
    pool.check_invariants()


def test_companions_have_names_of_their_own():
    names = folio_kv.Sha256Names()
    pool = made(name=names)
    sequence = serve(pool, PROMPT)
    leading = [pool.name(sequence, p) for p in range(4)]
    assert leading == names.chain(PROMPT, 4)
    own = names.companion(leading[2], 1, "window", window=6)
    assert pool.name(sequence, 2, group=1) == own
    assert pool.companion_names(1, leading)[2] == own
    pin = pool.begin_companion_io(sequence, 3, 1)
    pool.end_io(pin)
    with pytest.raises(folio_kv.Error, match="group is 0"):
        pool.companion_names(0, leading)
    with pytest.raises(folio_kv.Error, match="name"):
        made(name=lambda page: b"x").companion_names(1, leading)
    with pytest.raises(folio_kv.Error, match="expected 32"):
        names.companion(b"short", 1, "window")
    with pytest.raises(folio_kv.Error, match='rule is "half"'):
        names.companion(leading[0], 1, "half")
    with pytest.raises(folio_kv.Error, match="group is 0"):
        names.companion(leading[0], 0, "state")


def test_what_name_companion_raises_is_raised():
    class Names:
        def __call__(self, page):
            return b"x"

        def name_companion(self, page):
            assert (page.rule, page.window, page.group) == ("window", 6, 1)
            raise ValueError("not today")

    pool = made(name=Names())
    sequence = serve(pool, PROMPT)
    with pytest.raises(ValueError, match="not today"):
        pool.name(sequence, 0, group=1)
    with pytest.raises(ValueError, match="not today"):
        pool.companion_names(1, [bytes(32)])
    assert pool.name(sequence, 0)[:1] == b"x"


def test_a_spare_page_goes_instead_of_the_evicted_one():
    pool = made(name=folio_kv.Sha256Names())
    holder = pool.admit([90, 91, 92, 93]).id
    pool.reserve(holder, 4)
    spare = pool.begin_io(holder, 0)
    pool.release(holder)
    told = []

    def spare_for(group, page, name):
        told.append((group, page, name))
        return spare if group == 0 and pool.page_of(spare) == before else None

    before = pool.page_of(spare)
    pool.watch_evictions(spare_for)
    with pytest.raises(folio_kv.Error) as busy:
        pool.watch_evictions(spare_for)
    assert busy.value.code == "busy"
    for round in range(1, 8):
        prompt = [100 * round + t for t in PROMPT]
        sequence = serve(pool, prompt)
        pool.name(sequence, 3)  # nobody is asked for a page without a name
        pool.release(sequence)
        if pool.page_of(spare) != before:
            break
    assert told and pool.page_of(spare) != before
    assert all(len(name) == 32 for _, _, name in told)
    pool.watch_evictions(None)
    pool.end_io(spare)
    pool.check_invariants()
    with pytest.raises(folio_kv.Error, match="expected a callable"):
        pool.watch_evictions(7)


def test_events_tell_of_companions():
    events = []
    pool = made(name=folio_kv.Sha256Names(), on_event=lambda event, tokens: events.append(event))
    sequence = serve(pool, PROMPT)
    leading = [pool.name(sequence, p) for p in range(4)]
    companions = [e for e in events if e.group == 1]
    assert [e.parent_name for e in companions] == leading
    assert [e.name for e in companions] == pool.companion_names(1, leading)


def test_a_whole_prompt_ends_within_a_page():
    pool = made()
    sequence = pool.admit(PROMPT).id
    # the window of 6 of the token behind: tokens 12 to 16
    assert pool.begin_whole_load(sequence, np.array(PROMPT)) == [1, 1, 1, 3, 3]
    with pytest.raises(folio_kv.Error):
        pool.begin_whole_load(sequence, PROMPT)
    pool.commit_load(sequence, PROMPT)
    assert pool.length(sequence) == 17
    for prompt in (PROMPT, PROMPT[:4], []):
        with pytest.raises(folio_kv.Error):
            pool.begin_whole_load(sequence, prompt)
    pool.check_invariants()


def test_a_merged_load_gives_pages_up_that_another_one_has_brought():
    pool = made()
    first, second = (pool.admit(PROMPT).id for _ in range(2))
    for sequence in (first, second):
        assert pool.begin_load(sequence, PROMPT, 12) == [1, 3, 3]
    assert pool.stats()["used_pages"] == 6
    pool.commit_load(first, PROMPT[:12])
    pool.commit_load(second, PROMPT[:12], merge=True)
    assert pool.stats()["used_pages"] == 3
    pool.check_invariants()


def test_a_groups_options_are_those_that_were_given():
    pool = made()
    assert pool.group_options(1) == {**WINDOW, "sinks": 0, "chunk": 0, "checkpoint": 0}
    assert pool.group_options(0)["rule"] == "full"
    assert folio_kv.PagePool(8, 4).group_options(0)["page_bytes"] == 0


def test_a_page_that_goes_with_its_slab_is_told_of():
    pool = made(name=folio_kv.Sha256Names())
    told = []

    def leaving(group, page, name):
        told.append((group, page, name))
        with pytest.raises(folio_kv.Error) as busy:
            pool.watch_evictions(None)
        assert busy.value.code == "busy"

    pool.watch_evictions(lambda *page: None, leaving)
    for round in range(1, 9):
        prompt = [100 * round + t for t in PROMPT[: 5 if round % 2 else 17]]
        sequence = serve(pool, prompt)
        pool.name(sequence, len(prompt) // 4 - 1)
        pool.release(sequence)
    assert told and all(len(name) == 32 for _, _, name in told)
    pool.check_invariants()


@pytest.mark.parametrize("given", [7, "pin", KeyError("no spare")])
def test_what_is_no_pin_goes_to_the_unraisable_hook(given, monkeypatch):
    pool = made(name=folio_kv.Sha256Names())
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: heard.append(told.exc_value))

    def spare(group, page, name):
        if isinstance(given, Exception):
            raise given
        return given

    pool.watch_evictions(spare)
    for round in range(1, 9):
        sequence = serve(pool, [100 * round + t for t in PROMPT])
        pool.name(sequence, 3)
        pool.release(sequence)
    assert heard
    if isinstance(given, Exception):
        assert all(value is given for value in heard)
    else:
        assert all("expected a callable that gives an IoPin" in str(value) for value in heard)
    pool.check_invariants()


MOST = 2**31 - 1


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda p, s: p.parts(s, -1), "position is -1"),
        (lambda p, s: p.parts(s, 4), "position is 4"),
        (lambda p, s: p.parts(s, MOST), f"position is {MOST}"),
        (lambda p, s: p.name(s, 0, 2), "group is 2"),
        (lambda p, s: p.name(s, -1, 1), "position is -1"),
        (lambda p, s: p.begin_companion_io(s, -1, 1), "position is -1"),
        (lambda p, s: p.begin_companion_io(s, 0, 0), "group is 0"),
        (lambda p, s: p.begin_companion_io(s, 0, 2**32 - 1), f"group is {2**32 - 1}"),
        (lambda p, s: p.group_options(2), "group is 2"),
        (lambda p, s: p.companion_names(2, [bytes(32)]), "group is 2"),
        (lambda p, s: p.companion_names(1, [bytes(33)]), "leading: expected names of 1 to 32 bytes, got 33"),
        (lambda p, s: p.companion_names(1, [b""]), "leading: expected names of 1 to 32 bytes, got 0"),
        (lambda p, s: p.companion_names(1, "ab"), "leading: expected names of bytes"),
        (lambda p, s: p.find_parts(s, PROMPT), "the sequence has"),
        (lambda p, s: p.find_parts(s, np.zeros(8, np.float32)), "prompt: expected int32"),
        (lambda p, s: p.find_parts(s, np.zeros((2, 4), np.int32)), "prompt"),
        (lambda p, s: p.begin_load(s, [2**31] * 9, 8), r"prompt\[0\] is 2147483648"),
        (lambda p, s: p.begin_load(s, PROMPT, MOST), "the sequence has"),
        (lambda p, s: p.shorten_load(s, -MOST), "load"),
        (lambda p, s: p.shorten_load(s, MOST), "load"),
        (lambda p, s: p.commit_load(s, []), "load"),
        (lambda p, s: p.watch_evictions(None, print), "leaving: given without function"),
        (lambda p, s: p.watch_evictions(print, 7), "leaving: expected a callable or None"),
    ],
)  # fmt: skip
def test_a_hostile_callers_calls_are_refused_by_name(call, match):
    pool = made(name=folio_kv.Sha256Names())
    sequence = serve(pool, PROMPT)
    with pytest.raises(folio_kv.Error, match=match):
        call(pool, sequence)
    pool.check_invariants()


def test_prompts_of_strides_are_read_as_they_are():
    pool = made()
    every_other = np.repeat(np.array(PROMPT, np.int64), 2)[::2]
    sequence = pool.admit(every_other).id
    assert pool.begin_load(sequence, every_other, 16) == [1, 1, 3, 3]
    pool.commit_load(sequence, every_other[:16])
    pool.release(sequence)
    again = pool.admit(PROMPT[:1]).id
    assert pool.find_parts(again, np.array(PROMPT)) == [1, 1, 3, 3]


def test_pages_of_a_prompt_are_held_wherever_hits_end():
    pool = made(name=folio_kv.Sha256Names())
    first = pool.admit(PROMPT).id
    pool.begin_load(first, PROMPT, 16)
    pool.commit_load(first, PROMPT[:16])
    pool.release(first)
    sequence = pool.admit(PROMPT[:1]).id
    pins = pool.begin_prompt_io(sequence, PROMPT, [(1, 0), (0, 1), (3, 1)])
    assert [pin is None for pin in pins] == [False, True, False]
    assert pool.stats()["used_pages"] == 1
    for pin in pins:
        if pin is not None:
            pool.end_io(pin)
    with pytest.raises(folio_kv.Error, match=r"pages\[0\].position is 4"):
        pool.begin_prompt_io(sequence, PROMPT, [(4, 0)])
    with pytest.raises(folio_kv.Error, match=r"pages\[1\].group is 2"):
        pool.begin_prompt_io(sequence, PROMPT, [(0, 0), (0, 2)])
    with pytest.raises(TypeError):
        pool.begin_prompt_io(sequence, PROMPT, [(0, -1)])
    pool.expect_branch(sequence, 8)
    with pytest.raises(folio_kv.Error, match="tokens is -1, expected 0 or more"):
        pool.expect_branch(sequence, -1)
    pool.release(sequence)
    with pytest.raises(folio_kv.Error, match="id is"):
        pool.expect_branch(sequence, 8)
    pool.check_invariants()


def test_a_released_sequence_has_neither_parts_nor_a_load():
    pool = made(name=folio_kv.Sha256Names())
    sequence = pool.admit(PROMPT).id
    pool.begin_load(sequence, PROMPT, 16)
    pool.release(sequence)
    for call in (
        lambda: pool.load_length(sequence),
        lambda: pool.parts(sequence, 0),
        lambda: pool.find_parts(sequence, PROMPT),
        lambda: pool.begin_load(sequence, PROMPT, 16),
        lambda: pool.begin_whole_load(sequence, PROMPT),
        lambda: pool.shorten_load(sequence, 4),
        lambda: pool.commit_load(sequence, PROMPT[:16]),
        lambda: pool.begin_companion_io(sequence, 0, 1),
    ):
        with pytest.raises(folio_kv.Error, match="id is"):
            call()
    assert pool.stats()["used_pages"] == 0
    pool.check_invariants()


def test_callables_that_lead_back_to_their_pool_are_collected_with_it():
    class Engine:
        def __init__(self):
            self.pool = made(name=self)
            self.pool.watch_evictions(self.spare, self.leaving)

        def __call__(self, page):
            return b"n"

        def name_companion(self, page):
            return b"c"

        def spare(self, group, page, name):
            return None

        def leaving(self, group, page, name):
            return None

    gc.collect()
    seen = weakref.ref(Engine())
    gc.collect()
    assert seen() is None
    kept = Engine()
    pool = kept.pool
    seen = weakref.ref(kept)
    del kept
    gc.collect()
    assert seen() is not None  # its pool calls it
    assert pool.companion_names(1, [bytes(32)])[0][:1] == b"c"
    pool.watch_evictions(None)
    pool.check_invariants()
