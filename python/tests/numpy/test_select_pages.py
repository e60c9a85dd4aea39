# SPDX-License-Identifier: Apache-2.0
"""Summaries of pages and Step.select_pages beside numpy, and attention over what they choose."""

import numpy as np
import pytest

import folio_kv

PAGE, KV_HEADS, Q_HEADS, DIM = 8, 2, 4, 32
LENGTHS, NEW = [45, 130, 9], [2, 1, 4]
GROUP = Q_HEADS // KV_HEADS
I32 = np.int32


class Cached:
    """K and V on permuted pages, whose summaries append made in two steps; random queries."""

    def __init__(self, kind="bounds", dtype="f32", seed=3):
        rng = np.random.default_rng(seed)
        columns = -(-max(LENGTHS) // PAGE)
        self.table = rng.permutation(3 * columns).astype(np.uint32).reshape(3, columns)
        shape = {"kv_heads": KV_HEADS, "head_size": DIM}
        self.cache = folio_kv.KVCache(1, 3 * columns, PAGE, **shape, dtype="f32")
        rows = 2 if kind == "bounds" else 1
        self.summaries = self.new_summaries(rows, dtype)
        self.keys, self.values = (
            [rng.standard_normal((n, KV_HEADS, DIM), dtype=np.float32) for n in LENGTHS]
            for _ in "kv"
        )
        self.offsets = [0, *np.cumsum(NEW)]
        self.q = rng.standard_normal((sum(NEW), Q_HEADS, DIM), dtype=np.float32)
        old = [n - new for n, new in zip(LENGTHS, NEW)]
        first = folio_kv.Batch([0, *np.cumsum(old)], old, self.table)
        k, v = (np.concatenate([x[:n] for x, n in zip(of, old)]) for of in (self.keys, self.values))
        folio_kv.append(first, self.cache[0], k, v, summaries=self.summaries)

    def new_summaries(self, rows=2, dtype="f32", pages=None, heads=KV_HEADS, dim=DIM, latent=True):
        pages = self.table.size if pages is None else pages
        shape = {"kv_heads": heads, "head_size": dim, "dtype": dtype, "latent": latent}
        return folio_kv.KVCache(1, pages, rows, **shape)[0]

    def new_rows(self):
        return (
            np.concatenate([x[-n:] for x, n in zip(of, NEW)]) for of in (self.keys, self.values)
        )

    def append(self):
        """The new tokens of the step."""
        self.step().append(self.cache[0], *self.new_rows(), summaries=self.summaries)
        return self

    def step(self, **kwargs):
        return folio_kv.Step(self.offsets, LENGTHS, self.table, **kwargs)

    def queries(self):
        """(row, sequence, position) of each."""
        for b, new in enumerate(NEW):
            for t in range(new):
                yield self.offsets[b] + t, b, LENGTHS[b] - new + t

    def pages_of(self, b):
        return [self.keys[b][i : i + PAGE].astype(float) for i in range(0, LENGTHS[b], PAGE)]

    def scores(self, row, b, kind="bounds"):
        """[pages, q_heads]"""
        q = self.q[row].astype(float).reshape(KV_HEADS, GROUP, DIM) / DIM**0.5
        of_pages = []
        for keys in self.pages_of(b):
            if kind == "mean":
                of_pages.append(np.einsum("hgd,hd->hg", q, keys.mean(0)))
                continue
            low, high = keys.min(0)[:, None], keys.max(0)[:, None]
            of_pages.append(np.maximum(q * low, q * high).sum(-1))
        return np.stack(of_pages).reshape(-1, Q_HEADS)

    def chosen(self, scores, seen, k_pages, first, last):
        """Numbers of pages: those that are always there, then the best, of equal ones the earlier."""
        always = [*seen[:first], *seen[max(first, len(seen) - last) :]]
        if len(seen) <= k_pages:
            return set(seen)
        others = sorted((x for x in seen if x not in always), key=lambda x: (-scores[x], x))
        return {*always, *others[: k_pages - len(always)]}

    def expected(self, kind="bounds", k_pages=4, first=1, last=1, score="greatest", window=None,
                 per_kv_head=False):  # fmt: skip
        """Lists [tokens, heads or 1, k_pages * PAGE] of slots, and missed [tokens, q_heads]."""
        heads = KV_HEADS if per_kv_head else 1
        lists = np.full((sum(NEW), heads, k_pages * PAGE), -1, I32)
        missed = np.full((sum(NEW), Q_HEADS), -np.inf)
        for row, b, position in self.queries():
            of_pages = self.scores(row, b, kind)
            begin = 0 if window is None else max(0, position + 1 - window)
            visible = np.arange(begin, position + 1)
            seen = sorted(set(visible // PAGE))
            for head in range(heads):
                q_heads = slice(head * Q_HEADS // heads, (head + 1) * Q_HEADS // heads)
                part = of_pages[:, q_heads]
                joined = part.max(1) if score == "greatest" else part.sum(1)
                pages = self.chosen(joined, seen, k_pages, first, last)
                keys = visible[np.isin(visible // PAGE, list(pages))]
                slots = self.table[b, keys // PAGE].astype(I32) * PAGE + keys % PAGE
                lists[row, head, : len(slots)] = slots
                for page in set(seen) - pages:
                    more = np.log((visible // PAGE == page).sum()) + part[page]
                    missed[row, q_heads] = np.logaddexp(missed[row, q_heads], more)
        return lists if per_kv_head else lists[:, 0], missed


@pytest.fixture
def cached():
    return Cached().append()


@pytest.mark.parametrize("kind", ["bounds", "mean"])
def test_append_and_summarise_make_the_same_summaries(kind):
    cached = Cached(kind).append()
    rows = np.from_dlpack(cached.summaries.key)
    made = cached.new_summaries(2 if kind == "bounds" else 1)
    ids, slots = [], []
    for b in range(len(LENGTHS)):
        for i, keys in enumerate(cached.pages_of(b)):
            ids.append(int(cached.table[b, i]))
            slots.append(len(keys))
            expected = [keys.min(0), keys.max(0)] if kind == "bounds" else [keys.mean(0)]
            np.testing.assert_allclose(rows[ids[-1]], np.stack(expected), rtol=1e-5, atol=1e-6)
    folio_kv.summarise(cached.cache[0], made, ids, slots)
    np.testing.assert_array_equal(np.from_dlpack(made.key)[ids], rows[ids])
    full = ids[: LENGTHS[0] // PAGE]
    again = cached.new_summaries(2 if kind == "bounds" else 1)
    folio_kv.summarise(cached.cache[0], again, np.array(full, I32))
    np.testing.assert_array_equal(np.from_dlpack(again.key)[full], rows[full])


def test_a_call_of_a_step_appends_with_summaries():
    ways = [Cached(), Cached().append()]
    ways[0].step()(
        folio_kv.Kind(Q_HEADS), ways[0].cache[0], ways[0].q, *ways[0].new_rows(),
        summaries=ways[0].summaries,
    )  # fmt: skip
    used = np.concatenate([ways[0].table[b, : -(-n // PAGE)] for b, n in enumerate(LENGTHS)])
    got, expected = (np.from_dlpack(x.summaries.key)[used] for x in ways)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("per_kv_head", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"score": "sum"},
        {"window": 50},
        {"k_pages": 1, "first": 0, "last": 1},
        {"k_pages": 3, "first": 0, "last": 0},
        {"k_pages": 6, "first": 2, "last": 3},
        {"k_pages": 40},
    ],
)
def test_the_best_pages_are_those_of_numpy(cached, options, per_kv_head):
    lists, missed = cached.expected(**options, per_kv_head=per_kv_head)
    k_pages = options.get("k_pages", 4)
    call = {
        "k_pages": k_pages,
        "first_pages": options.get("first", 1),
        "last_pages": options.get("last", 1),
        "per_kv_head": per_kv_head,
        **{x: options[x] for x in ("score", "window") if x in options},
    }
    step = cached.step()
    slots, left_out = step.select_pages(
        cached.cache[0], cached.summaries, cached.q, missed=True, **call
    )
    assert slots.dtype == I32 and left_out.dtype == np.float32
    np.testing.assert_array_equal(slots, lists)
    np.testing.assert_allclose(left_out, missed, rtol=1e-5)
    out = np.full((sum(NEW) + 2, *lists.shape[1:]), 7, I32)
    into = np.full((sum(NEW), Q_HEADS), 7, np.float32)
    found = step.select_pages(
        cached.cache[0], cached.summaries, cached.q, out=out, missed=into, **call
    )
    assert found is out and (out[sum(NEW) :] == -1).all()
    np.testing.assert_array_equal(out[: sum(NEW)], lists)
    np.testing.assert_array_equal(into, left_out)


def test_means_choose_by_means():
    cached = Cached("mean").append()
    found = cached.step().select_pages(cached.cache[0], cached.summaries, cached.q, k_pages=4)
    np.testing.assert_array_equal(found, cached.expected("mean")[0])


def test_intervals_hide_what_is_before_them(cached):
    begins, ends = (np.zeros(sum(NEW), I32) for _ in "be")
    for row, _, position in cached.queries():
        begins[row], ends[row] = max(0, position + 1 - 50), position + 1
    step = cached.step(visible=(begins, ends))
    found = step.select_pages(cached.cache[0], cached.summaries, cached.q, k_pages=4)
    np.testing.assert_array_equal(found, cached.expected(window=50)[0])


@pytest.mark.parametrize("per_kv_head", [False, True])
def test_attention_over_the_lists_errs_by_no_more_than_missed_says(cached, per_kv_head):
    kind, pages = folio_kv.Kind(Q_HEADS), cached.cache[0]
    slots, missed = cached.step().select_pages(
        pages, cached.summaries, cached.q, k_pages=4, per_kv_head=per_kv_head, missed=True
    )
    out, lse = cached.step(selected=slots).attend(kind, pages, cached.q, lse=True)
    dense, all_lse = cached.step().attend(kind, pages, cached.q, lse=True)
    share = 1 / (1 + np.exp(lse.astype(float) - missed))
    assert (1 - np.exp(lse - all_lse.astype(float)) <= share + 1e-5).all()
    most = max(np.abs(x).max() for x in cached.values)
    assert (np.abs(out - dense) <= 2 * share[..., None] * most + 1e-5).all()
    assert np.abs(out - dense).max() > 1e-3  # something was left out
    everything = cached.step().select_pages(pages, cached.summaries, cached.q, k_pages=20)
    whole = cached.step(selected=everything).attend(kind, pages, cached.q)
    np.testing.assert_allclose(whole, dense, atol=1e-5)


def test_bounds_in_bf16_are_outside_those_in_f32(cached):
    wide = Cached(dtype="bf16").append()
    used = np.concatenate([cached.table[b, : -(-n // PAGE)] for b, n in enumerate(LENGTHS)])
    low, high = np.from_dlpack(cached.summaries.key)[used].transpose(1, 0, 2, 3)
    bits = bits_of(wide)[used].astype(np.uint32) << 16
    rounded = bits.view(np.float32).transpose(1, 0, 2, 3)
    assert (rounded[0] <= low).all() and (rounded[1] >= high).all()
    np.testing.assert_allclose(rounded, [low, high], rtol=2**-7)


def bits_of(cached):
    """bf16 summaries as numpy can see them: copied into planes of uint16's size."""
    target = np.zeros((cached.table.size, 2, KV_HEADS, DIM), np.uint16)
    to = folio_kv.Pages(target, dtype="bf16")
    copies = [(i, i, 2) for i in range(cached.table.size)]
    folio_kv.copy_pages([cached.summaries], [to], copies)
    return target


def test_keys_that_are_stored_rotated_are_bounded_as_they_are(cached):
    """q is turned as keys are; the bounds are those of rows of 8 bits."""
    shape = {"kv_heads": KV_HEADS, "head_size": DIM}
    dtype = folio_kv.Format("i8", hadamard=32)
    pages = folio_kv.KVCache(1, cached.table.size, PAGE, **shape, dtype=dtype)[0]
    everything = folio_kv.Batch([0, *np.cumsum(LENGTHS)], LENGTHS, cached.table)
    rows = [np.concatenate(x) for x in (cached.keys, cached.values)]
    summaries = cached.new_summaries()
    folio_kv.append(everything, pages, *rows, summaries=summaries)
    step, kind = cached.step(), folio_kv.Kind(Q_HEADS)
    turned = step.rotate(cached.q, pages=pages)
    slots, missed = step.select_pages(pages, summaries, turned, k_pages=4, missed=True)
    _, lse = cached.step(selected=slots).attend(kind, pages, cached.q, lse=True)
    _, all_lse = step.attend(kind, pages, cached.q, lse=True)
    left = 1 - np.exp(lse - all_lse.astype(float))
    share = 1 / (1 + np.exp(lse.astype(float) - missed))
    assert (left <= share + 1e-5).all() and left.max() > 0.01
    straight = step.select_pages(pages, summaries, cached.q, k_pages=4)
    assert (straight != slots).any()


REFUSED = {
    "k_pages of 0": ({"k_pages": 0}, "k_pages: expected 1 to 4096, got 0"),
    "k_pages of 5000": ({"k_pages": 5000}, "k_pages: expected 1 to 4096, got 5000"),
    "fewer than are always there": ({"k_pages": 1}, "k_pages is 1, expected at least 2"),
    "negative first_pages": ({"first_pages": -1}, "first_pages is -1"),
    "negative last_pages": ({"last_pages": -1}, "last_pages -1"),
    "score": ({"score": "mean"}, "score: expected 'greatest' or 'sum', got 'mean'"),
    "a scale without end": ({"scale": float("nan")}, "scale is nan, expected a finite number"),
    "a window of 0": ({"window": 0}, "window: expected at least 1, got 0"),
    "q of another head": ({"q": np.zeros((7, 4, 16), np.float32)}, "q"),
    "q of odd heads": ({"q": np.zeros((7, 3, 32), np.float32)}, "q has 3 heads, expected a mult"),
    "q of two dimensions": ({"q": np.zeros((7, 32), np.float32)}, "q: expected"),
    "too few rows": ({"q": np.zeros((6, 4, 32), np.float32)}, "q: expected rows for 7 tokens"),
    "integer q": ({"q": np.zeros((7, 4, 32), I32)}, "q"),
    "out of int64": (
        {"out": np.zeros((7, 24), np.int64)},
        r"out: expected contiguous int32\[7, 24",
    ),
    "out of another width": ({"out": np.zeros((7, 25), I32)}, r"out: expected contiguous int32"),
    "out with gaps": ({"out": np.zeros((7, 48), I32)[:, ::2]}, r"out: expected contiguous int32"),
    "out without heads": (
        {"out": np.zeros((7, 24), I32), "per_kv_head": True},
        r"out: expected contiguous int32\[7, 2, 24\]",
    ),
    "missed of other heads": (
        {"missed": np.zeros((7, 2), np.float32)},
        r"missed: expected contiguous f32\[7, 4\]",
    ),
    "missed in float64": ({"missed": np.zeros((7, 4))}, "missed: expected contiguous f32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_named(cached, name):
    change, message = REFUSED[name]
    call = {"q": cached.q, "k_pages": 3} | change
    with pytest.raises(folio_kv.Error, match=message):
        cached.step().select_pages(cached.cache[0], cached.summaries, **call)


SUMMARIES = {
    "values, too": ({"latent": False}, "summaries: expected Pages of K alone"),
    "three rows": ({"rows": 3}, r"summaries: expected a page_size of 2 \(bounds\) or 1"),
    "fewer pages": ({"pages": 5}, "summaries: expected 51 pages of 2 heads of 32 elements"),
    "one head": ({"heads": 1}, "summaries: expected 51 pages of 2 heads"),
    "another head size": ({"dim": 64}, "summaries: expected 51 pages of 2 heads of 32"),
    "8 bits": ({"dtype": "i8"}, "summaries"),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_that_are_none_are_named(cached, name):
    change, message = SUMMARIES[name]
    summaries, pages = cached.new_summaries(**change), cached.cache[0]
    before = np.from_dlpack(pages.key).copy()
    rows = [x + 1 for x in cached.new_rows()]
    for call in (
        lambda: cached.step().select_pages(pages, summaries, cached.q, k_pages=3),
        lambda: folio_kv.summarise(pages, summaries, [0]),
        lambda: cached.step().append(pages, *rows, summaries=summaries),
    ):
        with pytest.raises(folio_kv.Error, match=message):
            call()
    np.testing.assert_array_equal(np.from_dlpack(pages.key), before)


def test_pages_and_lists_that_cannot_be_are_named(cached):
    pages, summaries = cached.cache[0], cached.summaries
    for ids, slots, message in (
        ([51], None, "51"),
        ([-1], None, "page"),
        ([0], [9], "9"),
        ([0], [0], "0"),
        ([0, 1], [8], "slots: expected one for each of 2 ids, got 1"),
        ([[0]], None, "ids"),
    ):
        with pytest.raises((folio_kv.Error, TypeError), match=message):
            folio_kv.summarise(pages, summaries, ids, slots)
    means = cached.new_summaries(1)
    folio_kv.summarise(pages, means, np.arange(cached.table.size, dtype=I32))
    with pytest.raises(folio_kv.Error, match="missed is given, expected null"):
        cached.step().select_pages(pages, means, cached.q, k_pages=3, missed=True)
    with pytest.raises(folio_kv.Error, match="summaries: given without k"):
        cached.step()(folio_kv.Kind(Q_HEADS), pages, cached.q, summaries=summaries)
    rows = np.zeros((100, KV_HEADS, DIM), np.float32)
    with pytest.raises(folio_kv.Error, match="pages: expected pages of a fixed size"):
        ragged = folio_kv.Pages.ragged(rows, rows)
        cached.step().select_pages(ragged, summaries, cached.q, k_pages=3)
    tree = np.zeros((sum(NEW), 1), np.uint64)
    with pytest.raises(folio_kv.Unsupported, match="batch.tree"):
        cached.step(tree=tree).select_pages(pages, summaries, cached.q, k_pages=3)
