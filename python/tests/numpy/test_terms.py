# SPDX-License-Identifier: Apache-2.0
"""Lists of keys, the forms of sinks, biases and ALiBi, and rounded operands, against the formula."""

import numpy as np
import pytest
from test_attention import filled_cache, run

import folio_kv
import reference
from reference import Case

F32, I32 = np.float32, np.int32
LENGTHS, NEW = [37, 70, 16, 1], [1, 5, 16, 1]


class Listed:
    """Queries with a list of slots each over pages that are NaN where no list looks."""

    def __init__(self, seed, tokens=5, entries=40, k_dim=64, v_dim=64, kv_heads=2):
        rng = np.random.default_rng(seed)
        self.key, self.value = (
            np.full((12, 16, kv_heads, dim), np.nan, F32) for dim in (k_dim, v_dim)
        )
        self.q = rng.standard_normal((tokens, 8, k_dim)).astype(F32)
        self.slots = rng.choice(12 * 16, 60, replace=False)
        for plane in (self.key, self.value):
            rows = plane.reshape(-1, kv_heads, plane.shape[-1])
            rows[self.slots] = rng.standard_normal((60, *rows.shape[1:]))
        self.lists = self.draw(rng, tokens, entries)

    def draw(self, rng, tokens, entries):
        """Lists with holes, and a key twice: no place twice otherwise."""
        lists = np.stack([rng.choice(self.slots, entries, replace=False) for _ in range(tokens)])
        lists[rng.random(lists.shape) < 0.2] = -1
        lists[:, 0] = lists[:, 1]
        return lists.astype(I32)

    def step(self, lists, **options):
        """All queries are of one sequence of 6 keys: the list alone says what they see."""
        return folio_kv.Step([0, len(self.q)], [6], [[3]], selected=lists, **options)

    def expected(self, value):
        out = []
        for q, entries in zip(self.q, self.lists):
            at = entries[entries >= 0]
            k, v = (x.reshape(-1, *x.shape[2:])[at] for x in (self.key, value))
            group = len(q) // k.shape[1]
            out.append(
                [
                    reference.attention(
                        q[h], k[:, h // group], v[:, h // group], 0, {"causal": False}
                    )
                    for h in range(len(q))
                ]
            )
        return [np.array([[part[i] for part in row] for row in out]) for i in range(2)]


@pytest.mark.parametrize("entries", [1, 40, 59])
def test_a_list_names_the_only_keys_that_a_query_sees(entries):
    case = Listed(1, entries=entries) if entries > 1 else Listed(1, entries=2)
    case.lists = np.ascontiguousarray(case.lists[:, :entries])
    out, lse = case.step(case.lists).attend(
        folio_kv.Kind(8), folio_kv.Pages(case.key, case.value), case.q, lse=True
    )
    expected, expected_lse = case.expected(case.value)
    np.testing.assert_allclose(out, expected, atol=3e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=3e-6)


def test_every_layer_may_bring_its_own_lists_in_the_same_array():
    case = Listed(2)
    pages, kind = folio_kv.Pages(case.key, case.value), folio_kv.Kind(8)
    lists = case.lists.copy()
    step = case.step(lists)
    for layer in range(3):
        lists[:] = case.lists = case.draw(np.random.default_rng(layer), *lists.shape)
        out = step.attend(kind, pages, case.q)
        np.testing.assert_allclose(out, case.expected(case.value)[0], atol=3e-6)


def test_lists_name_rows_of_a_latent_cache():
    case = Listed(3, k_dim=80, kv_heads=1)
    out = case.step(case.lists).attend(
        folio_kv.Kind(8, v_in_key=64), folio_kv.Pages(case.key), case.q
    )
    np.testing.assert_allclose(out, case.expected(case.key[..., :64])[0], atol=3e-6)


def test_a_list_without_entries_leaves_a_query_without_keys():
    case = Listed(4)
    for lists in (np.zeros((5, 0), I32), np.full((5, 7), -1, I32)):
        out, lse = case.step(lists).attend(
            folio_kv.Kind(8), folio_kv.Pages(case.key, case.value), case.q, lse=True
        )
        assert not out.any() and (lse == -np.inf).all()


def test_the_thin_face_takes_lists_too():
    case = Listed(5)
    pages, kind = folio_kv.Pages(case.key, case.value), folio_kv.Kind(8)
    attention = folio_kv.Attention(
        kind, pages, batch=1, tokens=5, context=40, q_dtype="f32", selected=True
    )
    batch = folio_kv.Batch([0, 5], [6], [[3]], selected=case.lists)
    out = folio_kv.attend(attention, folio_kv.plan(attention, batch), pages, case.q)
    np.testing.assert_allclose(out, case.expected(case.value)[0], atol=3e-6)
    assert folio_kv.why_not(kind, pages, selected=True) is None
    assert "selection" in folio_kv.why_not(kind, pages, selected=True, tree=True)


@pytest.mark.parametrize("dtype", [F32, np.float16])
def test_every_query_may_have_sinks_of_its_own(dtype):
    case = Case(6, LENGTHS, NEW)
    wide = np.random.default_rng(7).standard_normal((len(case.q) + 2, 12)).astype(dtype)
    sinks = wide[:, :8]  # rows of another distance than their length
    out, lse = run(case, {}, {"sinks": sinks})
    expected, expected_lse = case.expected({}, sinks.astype(float))
    np.testing.assert_allclose(out, expected, atol=3e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=3e-6)
    for_all, _ = run(case, {}, {"sinks": np.ascontiguousarray(sinks[0])})
    np.testing.assert_allclose(for_all, case.expected({}, sinks[0].astype(float))[0], atol=3e-6)


def test_over_takes_sinks_of_each_query_once():
    case = Case(8, LENGTHS, NEW)
    sinks = np.random.default_rng(9).standard_normal((len(case.q), 8)).astype(np.float16)
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    out = step.over(
        folio_kv.Kind(8), filled_cache(case)[0], case.q, case.fresh(case.k), case.fresh(case.v),
        sinks=sinks,
    )  # fmt: skip
    np.testing.assert_allclose(out, case.expected({}, sinks.astype(float))[0], atol=3e-6)


@pytest.mark.parametrize("dtype", [F32, np.float16])
@pytest.mark.parametrize("shape", [(4, 8), (4, 1), (1, 8), (1, 1), (8,)])
def test_a_bias_is_of_the_batch_or_of_each_sequence(shape, dtype):
    case = Case(10, LENGTHS, NEW)
    rows = len(case.q) if len(shape) == 1 else max(NEW)
    bias = np.random.default_rng(11).standard_normal((*shape, rows, 80)).astype(dtype)
    bias[..., 3] = -np.inf
    out, lse = run(case, {}, {"bias": bias})
    expected, expected_lse = case.expected({}, bias=bias.astype(float))
    np.testing.assert_allclose(out, expected, atol=3e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=3e-6)


@pytest.mark.parametrize("is_shared", [False, True])
def test_alibi_takes_the_positions_of_single_keys(is_shared):
    case = Case(12, LENGTHS, NEW)
    rng = np.random.default_rng(13)
    positions = rng.integers(0, 90, (1 if is_shared else 4, 100)).astype(I32)
    slopes = rng.uniform(0.01, 0.4, 8).astype(F32)
    cache = filled_cache(case)
    given = positions[0, :71] if is_shared else positions[:, :71]
    step = folio_kv.Step(case.offsets, case.lengths, case.table, alibi_positions=given)
    out = step(
        folio_kv.Kind(8), cache[0], case.q, case.fresh(case.k), case.fresh(case.v), alibi=slopes
    )
    rows = np.broadcast_to(positions, (4, 100))
    np.testing.assert_allclose(out, case.expected({}, alibi=slopes, positions=rows)[0], atol=3e-6)


def test_rounded_operands_are_as_exact_as_bf16_and_off_under_per_query():
    case = Case(14, LENGTHS, NEW)
    scale = case.q.shape[2] ** -0.5
    out, _ = run(case, {"bf16_operands": True})
    error = np.abs(out - case.expected()[0])
    largest = max(np.abs(v).max() for v in case.v)
    # A logit moves by 2^-7 |scale| sum |q k|, a weight by e to twice that, an element by 2^-8.
    logit = max(
        scale * (np.abs(case.q) @ np.abs(k[:, h]).T).max() for k in case.k for h in range(2)
    )
    assert error.max() < largest * (np.expm1(2 * 2**-7 * logit) + 2**-8)
    exact = run(case, {"reproducible": "query"})[0]
    same = run(case, {"reproducible": "query", "bf16_operands": True})[0]
    np.testing.assert_array_equal(exact, same)


def test_operands_of_8_bits_stay_near_and_are_off_under_per_query():
    case = Case(15, LENGTHS, NEW)
    as_given, _ = run(case, dtype="i8")
    rounded, _ = run(case, {"int8_operands": True}, dtype="i8")
    largest = max(np.abs(v).max() for v in case.v)
    # A logit moves by |scale| max |q| / 254 sum |k|, a weight by e to twice that; all weights of a
    # tile by 1 / 510 of the greatest, which is at most their sum.
    logit = max(np.abs(k).sum(-1).max() for k in case.k) * np.abs(case.q).max() / 254 / 8
    assert np.abs(rounded - as_given).max() < largest * (np.expm1(2 * logit) + 64 / 510)
    exact = run(case, {"reproducible": "query"}, dtype="i8")[0]
    same = run(case, {"reproducible": "query", "int8_operands": True}, dtype="i8")[0]
    np.testing.assert_array_equal(exact, same)


def pages():
    return folio_kv.KVCache(1, 8, kv_heads=2, head_size=16, dtype="f32")[0]


def step(tokens=1, **options):
    return folio_kv.Step([0, tokens], [20], [[0, 1]], **options)


def attend(arrays=None, tokens=1, **options):
    q = np.zeros((tokens, 8, 16), F32)
    return step(tokens, **options).attend(folio_kv.Kind(8), pages(), q, **(arrays or {}))


def thin(arrays, **options):
    kind, layer = folio_kv.Kind(8), pages()
    attention = folio_kv.Attention(
        kind, layer, batch=1, tokens=1, context=20, q_dtype="f32", **options
    )
    plan = folio_kv.plan(attention, folio_kv.Batch([0, 1], [20], [[0, 1]]))
    return folio_kv.attend(attention, plan, layer, np.zeros((1, 8, 16), F32), **arrays)


REFUSED = {
    "lists of int64": (lambda: step(selected=np.zeros((1, 4), np.int64)), r"selected: expected contiguous int32\[1, slots\] or \[1, heads, slots\], got int64"),
    "lists of one dimension": (lambda: step(selected=np.zeros(4, I32)), "selected: expected 2 dimensions"),
    "too few lists": (lambda: step(2, selected=np.zeros((1, 4), I32)), r"selected: expected contiguous int32\[2, slots\]"),
    "lists with holes": (lambda: step(2, selected=np.zeros((2, 8), I32)[:, :4]), "selected: expected contiguous int32"),
    "a slot behind the pages": (lambda: attend(selected=np.array([[0, 8 * 16]], I32)), r"selected\[0\]\[1\] is 128"),
    "a slot of -2": (lambda: attend(selected=np.array([[-2]], I32)), r"selected\[0\]\[0\] is -2"),
    "lists in over": (lambda: step(selected=np.zeros((1, 1), I32)).over(folio_kv.Kind(8), pages(), np.zeros((1, 8, 16), F32), np.zeros((1, 2, 16), F32), np.zeros((1, 2, 16), F32)), r"over: lists \(selected\)"),
    "lists with a bias": (lambda: attend({"bias": np.zeros((1, 1, 20), F32)}, selected=np.zeros((1, 1), I32)), "selection"),
    "positions of int64": (lambda: step(alibi_positions=np.zeros(20, np.int64)), "alibi_positions: expected int32"),
    "positions too short": (lambda: step(alibi_positions=np.zeros(19, I32)), r"alibi_positions: expected int32\[20 or more\]"),
    "positions of more sequences": (lambda: step(alibi_positions=np.zeros((3, 20), I32)), "alibi_positions: expected int32"),
    "positions without alibi": (lambda: attend(alibi_positions=np.zeros(20, I32)), "alibi_positions"),
    "sinks of fewer queries": (lambda: attend({"sinks": np.zeros((1, 8), F32)}, tokens=2), r"sinks: expected f32, bf16 or f16 \[8\] or \[2, 8\]"),
    "sinks of int8": (lambda: attend({"sinks": np.zeros(8, np.int8)}), "sinks: expected f32, bf16 or f16"),
    "sinks that share a row": (lambda: attend({"sinks": np.broadcast_to(np.zeros(8, F32), (2, 8))}, tokens=2), "sinks: expected f32, bf16 or f16"),
    "sinks with holes": (lambda: attend({"sinks": np.zeros(16, F32)[::2]}), "sinks: expected f32, bf16 or f16"),
    "a bias of int8": (lambda: attend({"bias": np.zeros((1, 1, 20), np.int8)}), "bias: expected f32, bf16 or f16"),
    "a bias of two dimensions": (lambda: attend({"bias": np.zeros((1, 20), F32)}), "bias: expected 3 dimensions"),
    "a bias of five dimensions": (lambda: attend({"bias": np.zeros((1, 1, 1, 1, 20), F32)}), "bias: expected 3 dimensions"),
    "a bias of other sequences": (lambda: attend({"bias": np.zeros((2, 1, 1, 20), F32)}), "bias: expected 1 sequences or 1"),
    "a bias of fewer new tokens": (lambda: attend({"bias": np.zeros((1, 1, 1, 20), F32)}, tokens=2), r"bias: expected f32, bf16 or f16 \[batch, 8 or 1, 2, 20 or more\]"),
    "sinks of another form than planned": (lambda: thin({"sinks": np.zeros(8, F32)}, sinks=True, sinks_per_query=True), r"sinks: expected f32\[tokens, q_heads\]"),
    "sinks of another type than planned": (lambda: thin({"sinks": np.zeros(8, F32)}, sinks=True, sinks_dtype="f16"), r"sinks: expected f16\[q_heads\]"),
    "a bias of another form than planned": (lambda: thin({"bias": np.zeros((1, 1, 20), F32)}, bias=True, bias_per_sequence=True), "bias: expected 4 dimensions"),
    "a bias of another type than planned": (lambda: thin({"bias": np.zeros((1, 1, 20), F32)}, bias=True, bias_dtype="f16"), "bias"),
    "a form without its term": (lambda: thin({}, sinks_per_query=True), "sink_per_query is set, expected sink_logits"),
    "sinks of a type unknown": (lambda: thin({}, sinks=True, sinks_dtype="int3"), "sinks_dtype: expected f32"),
    "sinks of blocks": (lambda: thin({}, sinks=True, sinks_dtype="q8_0"), "sink_dtype is q8_0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_term_that_does_not_fit_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises(folio_kv.Error, match=message):
        call()
