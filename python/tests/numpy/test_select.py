# SPDX-License-Identifier: Apache-2.0
"""Step.select beside numpy, and lists of each head."""

import numpy as np
import pytest

import folio_kv

PAGE, HEADS, DIM = 8, 3, 64
LENGTHS, NEW = [45, 130, 9], [2, 1, 4]
I32 = np.int32


class Indexer:
    """Keys of an index cache on permuted pages, and the scores of random queries in float64."""

    def __init__(self, seed=3):
        rng = np.random.default_rng(seed)
        columns = -(-max(LENGTHS) // PAGE)
        self.table = rng.permutation(3 * columns).astype(np.uint32).reshape(3, columns)
        self.cache = folio_kv.KVCache(
            1, 3 * columns, PAGE, kv_heads=1, head_size=DIM, dtype="f32", latent=True
        )
        self.keys = [rng.standard_normal((n, DIM), dtype=np.float32) for n in LENGTHS]
        everything = folio_kv.Batch([0, *np.cumsum(LENGTHS)], LENGTHS, self.table)
        folio_kv.append(everything, self.cache[0], np.concatenate(self.keys)[:, None])
        self.q = rng.standard_normal((sum(NEW), HEADS, DIM), dtype=np.float32)
        self.weights = rng.standard_normal((sum(NEW), HEADS), dtype=np.float32)
        self.offsets = [0, *np.cumsum(NEW)]

    def step(self, **kwargs):
        return folio_kv.Step(self.offsets, LENGTHS, self.table, **kwargs)

    def expected(self, k, relu=True, window=None, weights=True):
        lists = np.full((sum(NEW), k), -1, I32)
        for b, keys in enumerate(self.keys):
            for t in range(NEW[b]):
                row, position = self.offsets[b] + t, LENGTHS[b] - NEW[b] + t
                products = self.q[row].astype(float) @ keys.T.astype(float) / DIM**0.5
                products = np.maximum(products, 0) if relu else products
                scores = self.weights[row] @ products if weights else products.sum(0)
                first = 0 if window is None else max(0, position + 1 - window)
                seen = np.arange(first, position + 1)
                best = seen[np.argsort(-scores[seen], kind="stable")[:k]]
                lists[row, : len(best)] = np.sort(best)
        return lists

    def slots(self, lists):
        row_of = np.repeat(np.arange(3), NEW)[:, None]
        pages = self.table[row_of, lists // PAGE].astype(np.int64)
        return np.where(lists < 0, -1, pages * PAGE + lists % PAGE)


@pytest.fixture
def indexer():
    return Indexer()


@pytest.mark.parametrize("options", [{}, {"relu": False}, {"window": 20}, {"weights": False}])
@pytest.mark.parametrize("k", [1, 12, 60])
def test_the_best_keys_are_those_of_numpy(indexer, k, options):
    call = {name: x for name, x in options.items() if name != "weights"}
    weights = indexer.weights if options.get("weights", True) else None
    pages = indexer.cache[0]
    keys = indexer.step().select(pages, indexer.q, weights, k=k, entries="keys", **call)
    expected = indexer.expected(k, **options)
    np.testing.assert_array_equal(keys, expected)
    assert keys.dtype == I32
    out = np.full((sum(NEW) + 2, k + 3), 7, I32)
    slots = indexer.step().select(pages, indexer.q, weights, k=k, out=out[:, :k], **call)
    np.testing.assert_array_equal(slots[: sum(NEW)], indexer.slots(expected))
    assert (out[sum(NEW) :, :k] == -1).all() and (out[:, k:] == 7).all()


def test_lists_of_each_head_are_those_heads_keys(indexer):
    """Attention over lists of heads equals that of each head alone."""
    rng = np.random.default_rng(5)
    pages = indexer.table.size
    cache = folio_kv.KVCache(1, pages, PAGE, kv_heads=2, head_size=DIM, dtype="f32")
    everything = folio_kv.Batch([0, *np.cumsum(LENGTHS)], LENGTHS, indexer.table)
    k, v = (rng.standard_normal((sum(LENGTHS), 2, DIM), dtype=np.float32) for _ in "kv")
    folio_kv.append(everything, cache[0], k, v)
    lists = [indexer.slots(indexer.expected(10, window=window)) for window in (None, 30)]
    q = rng.standard_normal((sum(NEW), 4, DIM), dtype=np.float32)
    kind = folio_kv.Kind(4)
    both = indexer.step(selected=np.stack(lists, 1).astype(I32)).attend(kind, cache[0], q)
    for head, of_head in enumerate(lists):
        alone = indexer.step(selected=of_head.astype(I32)).attend(kind, cache[0], q)
        heads = slice(2 * head, 2 * head + 2)
        np.testing.assert_array_equal(both[:, heads], alone[:, heads])
    with pytest.raises(folio_kv.Error, match=r"selected: lists of 3 KV heads, expected 2"):
        wrong = np.zeros((sum(NEW), 3, 10), I32)
        indexer.step(selected=wrong).attend(kind, cache[0], q)


REFUSED = {
    "k of 0": ({"k": 0}, "k: expected 1 to 4096, got 0"),
    "k of 5000": ({"k": 5000}, "k: expected 1 to 4096, got 5000"),
    "entries": ({"entries": "pages"}, "entries: expected 'slots' or 'keys', got 'pages'"),
    "q of another head": ({"q": np.zeros((7, 3, 32), np.float32)}, "q"),
    "too few rows": ({"q": np.zeros((6, 3, 64), np.float32)}, "q: expected rows for 7 tokens"),
    "weights of other heads": ({"weights": np.zeros((7, 2), np.float32)}, "weights"),
    "weights of few rows": (
        {"weights": np.zeros((2, 3), np.float32)},
        "weights: expected rows for 7 tokens",
    ),
    "integer q": ({"q": np.zeros((7, 3, 64), I32)}, "q"),
    "out of int64": ({"out": np.zeros((7, 5), np.int64)}, r"out: expected int32\[7, 5\]"),
    "out of another width": ({"out": np.zeros((7, 4), I32)}, r"out: expected int32\[7, 5\]"),
    "out whose rows overlap": (
        {"out": np.lib.stride_tricks.as_strided(np.zeros(40, I32), (7, 5), (8, 4))},
        "out: expected",
    ),
    "a window of 0": ({"window": 0}, "window: expected at least 1, got 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_named(indexer, name):
    change, message = REFUSED[name]
    call = {"q": indexer.q, "weights": indexer.weights, "k": 5} | change
    with pytest.raises(folio_kv.Error, match=message):
        indexer.step().select(indexer.cache[0], **call)
