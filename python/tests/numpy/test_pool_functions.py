# SPDX-License-Identifier: Apache-2.0
"""The page pool through Python: names and events by callables, and names by hashlib."""

import gc
import hashlib
import sys
import threading
import weakref
from pathlib import Path

import pytest

import folio_kv
from folio_kv.names import Sha256Names

EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]
VECTORS = Path(__file__).resolve().parents[3] / "tests/names/vectors.txt"


def served(pool, tokens, **options):
    """Of a sequence that has the tokens: its id."""
    admitted = pool.admit(tokens, **options)
    pool.reserve(admitted.id, len(tokens) - admitted.cached_tokens)
    pool.commit(admitted.id, tokens[admitted.cached_tokens :])
    return admitted.id


class Listener:
    def __init__(self):
        self.events, self.tokens = [], []

    def __call__(self, event, tokens):
        self.events.append(event)
        self.tokens.append(tokens)


@pytest.fixture
def unraisable(monkeypatch):
    """What sys.unraisablehook was told: (callable, exception)."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda u: told.append((u.object, u.exc_value)))
    return told


# ---- events


def test_a_callable_hears_every_event_with_the_tokens_of_what_is_stored():
    heard = Listener()
    pool = folio_kv.PagePool(8, 4, on_event=heard)
    sequence = served(pool, [*EIGHT, 9], adapter=3)
    assert heard.tokens == [EIGHT[:4], EIGHT[4:]]
    assert [(e.kind, e.position, e.adapter, e.group) for e in heard.events] == [
        ("stored", 0, 3, 0),
        ("stored", 1, 3, 0),
    ]
    assert [(e.name, e.parent_name, e.in_snapshot) for e in heard.events] == [
        (None, None, False)
    ] * 2
    pool.release(sequence)
    pool.clear()
    assert [e.kind for e in heard.events[2:]] == ["cleared"] and heard.tokens[2:] == [[]]


def test_events_of_the_callable_the_ring_and_the_snapshot_have_names():
    heard = Listener()
    names = Sha256Names()
    pool = folio_kv.PagePool(8, 4, event_capacity=8, on_event=heard, name=names)
    sequence = served(pool, EIGHT)
    expected = names.chain(EIGHT, 4)
    for events in (heard.events, pool.read_events(1)[0]):
        assert [e.name for e in events] == expected
        assert [e.parent_name for e in events] == [None, expected[0]]
    snapshot = pool.snapshot()[0]
    assert {e.name for e in snapshot} == set(expected)
    assert all(e.in_snapshot and e.parent_name is None for e in snapshot)
    pool.release(sequence)
    pool.reserve(pool.admit([9]).id, 32)
    removed = [e for e in heard.events if e.kind == "removed"]
    assert [e.name for e in removed] == expected[::-1]


# ---- names


def test_a_name_stands_for_salt_adapter_and_items():
    contents = []

    def name(page):
        contents.append(page)
        return hashlib.sha1(repr((page.parent, page.tokens)).encode()).digest()

    pool = folio_kv.PagePool(8, 4, max_spans=1, name=name)
    item = bytes(31) + b"x"
    sequence = served(pool, [1, 2, 3, 4, 0, 0, 0, 0, 5], salt=b"t", adapter=2, spans=[(5, 2, item)])
    assert contents == [], "nothing is named until somebody asks"
    second = pool.name(sequence, 1)
    assert len(second) == 32 and second[20:] == bytes(12)
    first = pool.name(sequence, 0)
    assert len(contents) == 2, "named once"
    assert [(c.parent, c.tokens, c.spans, c.salt, c.adapter) for c in contents] == [
        (None, [1, 2, 3, 4], [], b"t", 2),
        (first, [0, 0, 0, 0], [(1, 2, item)], b"t", 2),
    ]
    with pytest.raises(folio_kv.Error, match="position is 2, expected 0 or more and less than 2"):
        pool.name(sequence, 2)


def vectors(kind):
    def hexed(word):
        return b"" if word == "-" else bytes.fromhex(word)

    def listed(word, of):
        return [] if word == "-" else [of(part) for part in word.split(",")]

    def span(word):
        offset, length, digest = word.split(":")
        return int(offset), int(length), bytes.fromhex(digest)

    read = {
        "root": (hexed, int, hexed, hexed),
        "page": (hexed, hexed, lambda w: listed(w, int), lambda w: listed(w, span), hexed),
        "chain": (hexed, int, hexed, int, lambda w: listed(w, int), lambda w: listed(w, hexed)),
        "companion": (hexed, int, int, int, int, hexed),
    }
    lines = [line.split() for line in VECTORS.read_text().splitlines()]
    found = [[f(w) for f, w in zip(read[kind], words[1:])] for words in lines if words[0] == kind]
    assert found
    return found


def test_names_are_those_of_the_cpp_library():
    for fingerprint, adapter, salt, name in vectors("root"):
        assert Sha256Names(fingerprint).root(salt, adapter) == name
    for header, parent, tokens, spans, name in vectors("page"):
        assert Sha256Names(header=header).page(parent, tokens, spans) == name
    for leading, group, rule, reach, sinks, name in vectors("companion"):
        of_rule = {1: "window", 2: "chunk", 3: "checkpoint"}.get(rule)
        rule_name = ("full", "window", "chunked", "state")[rule]
        reaches = {of_rule: reach, "sinks": sinks} if of_rule else {}
        assert Sha256Names().companion(leading, group, rule_name, **reaches) == name
    for fingerprint, adapter, salt, page_size, tokens, names in vectors("chain"):
        sha256 = Sha256Names(fingerprint)
        assert sha256.chain(tokens, page_size, salt=salt, adapter=adapter) == names
        pool = folio_kv.PagePool(2 * len(names) + 2, page_size, name=sha256)
        sequence = served(pool, tokens, salt=salt, adapter=adapter)
        assert [pool.name(sequence, i) for i in range(len(names))] == names


def test_the_chain_of_a_prompt_with_items_is_that_of_a_pool():
    names = Sha256Names(bytes(range(32)), b"group 0")
    prompt = list(range(12))
    spans = [(1, 2, bytes(32)), (3, 6, b"a" * 32)]  # the second is in all three pages
    pool = folio_kv.PagePool(8, 4, max_spans=2, name=names)
    sequence = served(pool, [*prompt, 0], salt=b"s", adapter=9, spans=spans)
    of_pool = [pool.name(sequence, i) for i in range(3)]
    assert names.chain([*prompt, 0], 4, salt=b"s", adapter=9, spans=spans) == of_pool
    assert names.chain(prompt[:3], 4) == []


def test_what_cannot_be_named_is_refused():
    names, parent = Sha256Names(), bytes(32)
    for wrong, words in (
        (lambda: Sha256Names(b"short"), "fingerprint has 5 bytes, expected 32"),
        (lambda: Sha256Names(header=bytes(257)), "header has 257 bytes, expected at most 256"),
        (lambda: names.root(adapter=-1), "adapter is -1"),
        (lambda: names.page(b"", [1]), "parent has 0 bytes, expected 32"),
        (lambda: names.page(parent, []), "tokens has 0 elements"),
        (lambda: names.page(parent, [2**31]), "tokens: expected integers of 32 bits"),
        (lambda: names.page(parent, [1], [(0, 0, parent)]), r"spans\[0\]: expected a length"),
        (lambda: names.page(parent, [1], [(0, 1, b"")]), r"spans\[0\]: expected a length"),
        (lambda: names.page(parent, [1], [(1, 1, parent)]), r"spans\[0\] is \[1, 2\)"),
        (lambda: names.page(parent, [1], [(-1, 1, parent)]), r"spans\[0\] is \[-1, 0\)"),
        (
            lambda: names.page(parent, [1, 2], [(0, 2, parent), (1, 1, parent)]),
            r"spans\[1\] is \[1, 2\)",
        ),
        (lambda: names.chain([1], 0), "page_size is 0"),
    ):
        with pytest.raises(folio_kv.Error, match=words):
            wrong()


# ---- what goes wrong


def test_what_on_event_raises_goes_to_the_hook_and_the_call_is_done(unraisable):
    def on_event(event, tokens):
        raise KeyError(event.number)

    pool = folio_kv.PagePool(8, 4, event_capacity=8, on_event=on_event)
    sequence = served(pool, EIGHT)
    assert [(f, type(e), e.args) for f, e in unraisable] == [
        (on_event, KeyError, (1,)),
        (on_event, KeyError, (2,)),
    ]
    assert pool.length(sequence) == 8 and len(pool.read_events(1)[0]) == 2
    pool.check_invariants()


def test_what_name_raises_is_raised_by_name_and_by_nothing_else(unraisable):
    asked, broken = [], True

    def name(page):
        asked.append(page.tokens)
        if broken:
            raise KeyError("no name")
        return b"n"

    pool = folio_kv.PagePool(8, 4, event_capacity=8, name=name)
    sequence = served(pool, EIGHT)
    assert [type(e) for _, e in unraisable] == [KeyError], "the second page's parent has no name"
    assert [e.name for e in pool.read_events(1)[0]] == [None, None]
    for _ in range(2):
        with pytest.raises(KeyError, match="no name"):
            pool.name(sequence, 1)
    assert len(unraisable) == 1
    broken = False
    assert pool.name(sequence, 1) == b"n" + bytes(31)
    assert asked[-2:] == [EIGHT[:4], EIGHT[4:]]
    pool.check_invariants()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "expected a callable that gives bytes"),
        ("text", "expected a callable that gives bytes"),
        (b"", "1 to 32 bytes, got 0"),
        (bytes(33), "1 to 32 bytes, got 33"),
    ],
)
def test_what_is_no_name_is_refused(given, words, unraisable):
    pool = folio_kv.PagePool(8, 4, event_capacity=8, name=lambda page: given)
    sequence = served(pool, EIGHT[:4])
    ((_, error),) = unraisable
    assert words in str(error)
    with pytest.raises(folio_kv.Error, match=words):
        pool.name(sequence, 0)


def test_what_cannot_be_called_is_refused():
    for argument in ("name", "on_event"):
        with pytest.raises(folio_kv.Error, match=f"{argument}: expected a callable or None"):
            folio_kv.PagePool(8, 4, **{argument: 7})
        with pytest.raises(folio_kv.Error, match="expected none without prefix_reuse"):
            folio_kv.PagePool(8, 4, prefix_reuse=False, **{argument: print})
    pool = folio_kv.PagePool(8, 4, name=None, on_event=None)
    with pytest.raises(folio_kv.Error, match="the pool has no names"):
        pool.name(served(pool, EIGHT), 0)


def test_calls_that_would_change_the_pool_are_busy_from_its_callables():
    refused, lengths = [], []

    def call_back():
        for call in (
            lambda: pool.admit([1]),
            lambda: pool.reserve(sequence, 1),
            lambda: pool.release(sequence),
            lambda: pool.clear(),
            lambda: pool.name(sequence, 0),
        ):
            with pytest.raises(folio_kv.Error, match="is calling a function") as error:
                call()
            refused.append(error.value.code)
        lengths.append(pool.length(sequence))

    def name(page):
        call_back()
        return b"n"

    pool = folio_kv.PagePool(8, 4, name=name, on_event=lambda event, tokens: call_back())
    sequence = pool.admit(EIGHT).id
    pool.reserve(sequence, 4)
    pool.commit(sequence, EIGHT[:4])
    assert refused == ["busy"] * 10 and lengths == [4, 4]
    pool.release(sequence)
    pool.check_invariants()


def test_another_thread_finds_the_pool_busy_while_a_callable_runs():
    codes = []

    def other():
        with pytest.raises(folio_kv.Error) as error:
            pool.admit([1])
        codes.append(error.value.code)

    def on_event(event, tokens):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    pool = folio_kv.PagePool(8, 4, on_event=on_event)
    served(pool, EIGHT[:4])
    assert codes == ["busy"]


@pytest.mark.parametrize("argument", ["name", "on_event"])
def test_a_callable_that_leads_back_to_its_pool_is_collected_with_it(argument):
    class Engine:
        def __init__(self):
            self.pool = folio_kv.PagePool(8, 4, **{argument: self.call})

        def call(self, *arguments):
            return b"n"

    gc.collect()
    seen = weakref.ref(Engine())
    gc.collect()
    assert seen() is None


def test_a_callable_lives_as_long_as_its_pool():
    heard = []
    pool = folio_kv.PagePool(8, 4, on_event=lambda event, tokens: heard.append(tokens))
    gc.collect()
    served(pool, EIGHT[:4])
    assert heard == [EIGHT[:4]]
