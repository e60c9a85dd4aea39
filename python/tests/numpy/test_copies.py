# SPDX-License-Identifier: Apache-2.0
"""copy.copy, copy.deepcopy and pickle: copies that are whole, or a refusal by name."""

import copy
import pickle

import numpy as np
import pytest

import folio_kv

WAYS = [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]


def rows(tokens, heads, seed):
    return np.random.default_rng(seed).standard_normal((tokens, heads, 32), np.float32)


def step():
    return folio_kv.Step([0, 1], [20], [[0, 1]])


OPTIONS = [
    {},
    {"scale": 0.3, "softcap": 5.0},
    {"window": 5},
    {"window": (3, 2), "causal": False},
    {"window": 4, "sink_tokens": 2},
    {"causal": False},
    {"chunk": 7},
    {"reproducible": "query"},
    {"reproducible": "sequence", "bf16_operands": True},
    {"int8_operands": True},
    {"q_is_turned": True},
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_kind_is_what_it_was(options, way):
    cache = folio_kv.KVCache(1, 4, kv_heads=2, head_size=32, dtype="f32")
    at = folio_kv.Step([0, 12], [12], [[3]])
    kind = folio_kv.Kind(4, **options)
    folio_kv.append(at, cache[0], rows(12, 2, 1), rows(12, 2, 2))
    q = rows(12, 4, 3)
    first = at.attend(kind, cache[0], q)
    assert np.array_equal(first, at.attend(way(kind), cache[0], q))
    assert pickle.dumps(way(kind)) == pickle.dumps(kind)


def test_the_state_of_a_kind_says_each_option():
    states = {pickle.dumps(folio_kv.Kind(4, **options)) for options in OPTIONS}
    assert len(states) == len(OPTIONS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "f32"},
        {"dtype": "bf16", "order": "NHD"},
        {"dtype": "i8", "granularity": 16, "scale_dtype": "f16"},
        {"dtype": "q8_0", "v_dtype": "q4_0"},
        {"dtype": "i4", "v_dtype": folio_kv.Format("u4", zeros="patterns", hadamard=32)},
        {"dtype": "f32", "latent": True},
        {"dtype": "f32", "v_head_size": 64},
    ],
    ids=str,
)
def test_a_cache_is_copied_with_its_rows(options, way):
    cache = folio_kv.KVCache(2, 4, kv_heads=2, head_size=32, **options)
    at = folio_kv.Step([0, 12], [12], [[3]])
    v_dim = options.get("v_head_size", 32)
    v = None if options.get("latent") else np.repeat(rows(12, 2, 2), v_dim // 32, axis=2)
    kind = folio_kv.Kind(4, v_in_key=16 if v is None else None)
    q, k = rows(12, 4, 3), rows(12, 2, 1)
    for layer in range(2):
        folio_kv.append(at, cache[layer], k * (layer + 1), v)
    other = way(cache)
    assert (other.nbytes, len(other)) == (cache.nbytes, len(cache))
    first = [at.attend(kind, c[1], q) for c in (cache, other)]
    assert np.array_equal(*first)
    folio_kv.append(at, other[1], k, v)  # in memory of its own
    assert np.array_equal(first[0], at.attend(kind, cache[1], q))
    assert not np.array_equal(first[0], at.attend(kind, other[1], q))


def pool():
    return folio_kv.PagePool(4, 16, max_sequences=2)


REFUSED = {
    "Pages": (lambda: folio_kv.KVCache(1, 2, kv_heads=1, head_size=32)[0], "memory of others"),
    "PagePool": (pool, "make another, and admit them there"),
    "Step": (step, "it reads arrays of others"),
    "Batch": (lambda: folio_kv.Batch([0, 1], [20], [[0, 1]]), "it reads arrays of others"),
    "SequenceId": (lambda: pool().admit([1]).id, "make another"),
    "Admission": (lambda: pool().admit([1]), "make another"),
    "Rope": (lambda: folio_kv.Rope(np.zeros((4, 8), np.float32)), "make another"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_copied_says_so_by_its_name(name, way):
    make, instead = REFUSED[name]
    whole = make()
    with pytest.raises(folio_kv.Unsupported, match=f"^{name}: cannot be copied .*{instead}"):
        way(whole)


def test_a_state_that_somebody_has_crafted_is_refused():
    cache = folio_kv.KVCache(1, 2, kv_heads=1, head_size=32, dtype="i8")
    arguments, contents = cache.__getstate__()
    empty = folio_kv.KVCache.__new__(folio_kv.KVCache)
    for bad in ((arguments, contents[:1]), (arguments, [contents[0][:-1], *contents[1:]])):
        with pytest.raises(folio_kv.Error, match="KVCache: expected a state of"):
            folio_kv.KVCache.__new__(folio_kv.KVCache).__setstate__(bad)
    with pytest.raises((folio_kv.Error, TypeError)):
        empty.__setstate__(((1, -3, *arguments[2:]), contents))
    with pytest.raises(folio_kv.Error, match="expected 12 arguments, got 1"):
        empty.__setstate__(((1,), contents))
