# SPDX-License-Identifier: Apache-2.0
"""Attention through a Step against the double-precision reference."""

import numpy as np
import pytest

import folio_kv
from reference import Case

LENGTHS, NEW = [37, 100, 64, 1, 16, 17], [1, 5, 64, 1, 2, 1]


def filled_cache(case, **options):
    """A cache of one layer, NaN everywhere but in the cached tokens."""
    heads, dim = case.k[0].shape[1:]
    cache = folio_kv.KVCache(
        1, case.num_pages, case.page_size, kv_heads=heads, head_size=dim,
        v_head_size=case.v[0].shape[2], **{"dtype": "f32", **options},
    )  # fmt: skip
    pages = cache[0]
    if options.get("dtype", "f32") == "f32":
        np.from_dlpack(pages.key)[:] = np.nan
        np.from_dlpack(pages.value)[:] = np.nan
    folio_kv.append(case.cached_batch(folio_kv), pages, case.cached(case.k), case.cached(case.v))
    return cache


def run(case, kind=None, arrays=None, **options):
    """(out, lse) of one step over a cache that has been filled by append."""
    cache = filled_cache(case, **options)
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    return step(
        folio_kv.Kind(case.q.shape[1], **(kind or {})), cache[0], case.q, case.fresh(case.k),
        case.fresh(case.v), lse=True, **(arrays or {}),
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"causal": False},
        {"window": 7},
        {"window": 33, "sink_tokens": 4},
        {"chunk": 32},
        {"softcap": 3.0},
        {"scale": 0.31},
    ],
    ids=lambda kind: " ".join(f"{k}={v}" for k, v in kind.items()) or "causal",
)
@pytest.mark.parametrize("page_size", [1, 16, 48])
def test_every_kind_of_layer_agrees_with_the_formula(kind, page_size):
    case = Case(1, LENGTHS, NEW, page_size=page_size)
    out, lse = run(case, kind)
    expected, expected_lse = case.expected(kind)
    np.testing.assert_allclose(out, expected, atol=3e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=3e-6)


def test_sinks_alibi_and_bias_enter_the_logits():
    case = Case(2, LENGTHS, NEW)
    rng = np.random.default_rng(3)
    arrays = {
        "sinks": rng.standard_normal(8).astype(np.float32),
        "alibi": rng.uniform(0.01, 0.4, 8).astype(np.float32),
        "bias": rng.standard_normal((8, case.q.shape[0], 112)).astype(np.float32),
    }
    arrays["bias"][:, :, 3] = -np.inf
    out, lse = run(case, {}, arrays)
    expected, expected_lse = case.expected({}, *arrays.values())
    np.testing.assert_allclose(out, expected, atol=3e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=3e-6)


def test_k_and_v_may_have_heads_of_their_own_size():
    case = Case(4, [50, 9], [3, 9], k_dim=48, v_dim=80)
    out, _ = run(case)
    np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [("bf16", 0.02), ("f16", 3e-3), ("i8", 0.03), ("f8_e4m3", 0.15), ("f8_e5m2", 0.3)],
)
def test_narrow_caches_are_as_exact_as_their_type(dtype, bound):
    case = Case(5, LENGTHS, NEW)
    out, _ = run(case, dtype=dtype)
    error = np.abs(out - case.expected()[0]).max()
    assert 1e-7 < error < bound


def test_a_latent_cache_has_its_values_in_its_keys():
    case = Case(6, [40, 7], [2, 7], q_heads=4, kv_heads=1, k_dim=80, v_dim=64)
    case.v = [k[:, :, :64] for k in case.k]
    cache = folio_kv.KVCache(
        1, case.num_pages, 16, kv_heads=1, head_size=80, latent=True, dtype="f32"
    )
    assert cache[0].is_latent and cache[0].value is None
    folio_kv.append(case.cached_batch(folio_kv), cache[0], case.cached(case.k))
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    kind = folio_kv.Kind(4, v_in_key=64)
    out = step(kind, cache[0], case.q, case.fresh(case.k))
    np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)


def test_over_attends_before_it_appends():
    case = Case(7, LENGTHS, NEW)
    sinks = np.linspace(-1, 1, 8).astype(np.float32)
    cache = filled_cache(case)
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    for kind in ({}, {"window": 20}):
        out, lse = step.over(
            folio_kv.Kind(8, **kind), cache[0], case.q, case.fresh(case.k), case.fresh(case.v),
            sinks=sinks, lse=True,
        )  # fmt: skip
        expected, expected_lse = case.expected(kind, sinks)
        np.testing.assert_allclose(out, expected, atol=3e-6)
        np.testing.assert_allclose(lse, expected_lse, atol=3e-6)
    again = step.attend(folio_kv.Kind(8), cache[0], case.q)
    np.testing.assert_allclose(again, case.expected()[0], atol=3e-6)


def test_explicit_intervals_replace_the_mask():
    case = Case(8, [40], [4])
    begin, end = np.array([0, 3, 10, 39], np.int32), np.array([1, 8, 40, 40], np.int32)
    cache = filled_cache(case)
    folio_kv.append(
        folio_kv.Batch(case.offsets, case.lengths, case.table), cache[0], case.fresh(case.k),
        case.fresh(case.v),
    )  # fmt: skip
    step = folio_kv.Step(case.offsets, case.lengths, case.table, visible=(begin, end))
    out = step.attend(folio_kv.Kind(8), cache[0], case.q)
    for t in range(4):
        alone = Case(8, [40], [4])
        alone.k, alone.v = ([x[0][begin[t] : end[t]]] for x in (case.k, case.v))
        alone.lengths = [end[t] - begin[t]]
        expected = alone_expected(alone, case.q[t])
        np.testing.assert_allclose(out[t], expected, atol=3e-6)


def alone_expected(case, q):
    """One query over all keys of the case's only sequence."""
    case.q, case.new, case.offsets = q[None], [1], np.array([0, 1])
    return case.expected({"causal": False})[0][0]


def test_rows_of_q_beyond_the_batch_are_padding():
    case = Case(9, [20, 5], [1, 2])
    cache = filled_cache(case)
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    pad = lambda x: np.concatenate([x, np.full((2, *x.shape[1:]), np.nan, x.dtype)])  # noqa: E731
    out, lse = step(
        folio_kv.Kind(8), cache[0], pad(case.q), pad(case.fresh(case.k)), pad(case.fresh(case.v)),
        lse=True,
    )  # fmt: skip
    np.testing.assert_allclose(out[:3], case.expected()[0], atol=3e-6)
    assert not out[3:].any() and not lse[3:].any()


def test_slots_say_where_rows_go_and_negative_ones_skip():
    pages = folio_kv.Pages(*(np.zeros((4, 8, 2, 16), np.float32) for _ in range(2)))
    rows = np.arange(3 * 2 * 16, dtype=np.float32).reshape(3, 2, 16) + 1
    folio_kv.append(None, pages, rows, -rows, slots=np.array([9, -1, 31]))
    key, value = np.from_dlpack(pages.key), np.from_dlpack(pages.value)
    np.testing.assert_array_equal(key[1, 1], rows[0])
    np.testing.assert_array_equal(value[3, 7], -rows[2])
    assert np.count_nonzero(key) == 2 * 32


@pytest.mark.parametrize("has_shifts", [False, True])
def test_rope_and_norms_in_a_step_are_those_of_rotate_and_append(has_shifts):
    case = Case(10, [30, 6], [4, 6])
    rng = np.random.default_rng(11)
    angles = rng.uniform(-3, 3, (64, 16))
    rope = folio_kv.Rope(np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32))
    names = ["q_norm", "k_norm"] + ["q_norm_shift", "k_norm_shift"] * has_shifts
    norms = {name: rng.uniform(0.5, 2, 64).astype(np.float32) for name in names}
    out, _ = run(case, {}, {"rope": rope, **norms})

    def rotated(x, position, norm):
        x = x.astype(float)
        y = x - x.mean(-1, keepdims=True) if has_shifts else x
        y = y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-6) * norms[norm]
        y = y + norms[f"{norm}_shift"] if has_shifts else y
        c, s = np.cos(angles[position]), np.sin(angles[position])
        a, b = y[..., :16], y[..., 16:32]
        return np.concatenate([a * c - b * s, b * c + a * s, y[..., 32:]], -1)

    for b, (n, new) in enumerate(zip(case.lengths, case.new)):
        for t in range(n - new, n):
            row = case.offsets[b] + t - (n - new)
            case.q[row] = rotated(case.q[row], t, "q_norm")
            case.k[b][t] = rotated(case.k[b][t], t, "k_norm")
    np.testing.assert_allclose(out, case.expected()[0], atol=1e-5)


def test_per_query_results_do_not_depend_on_the_batch():
    case = Case(12, [70, 33], [1, 1])
    together, _ = run(case, {"reproducible": "query"})
    for b in range(2):
        alone = Case(12, [70, 33], [1, 1])
        alone.k, alone.v, alone.q = [case.k[b]], [case.v[b]], case.q[b : b + 1]
        alone.lengths, alone.new = [case.lengths[b]], [1]
        alone.table, alone.offsets = case.table[b : b + 1], np.array([0, 1], np.int32)
        out, _ = run(alone, {"reproducible": "query"})
        np.testing.assert_array_equal(out[0], together[b])


def test_an_empty_batch_gives_an_empty_output():
    pages = folio_kv.KVCache(1, 2, kv_heads=2, head_size=64, dtype="f32")[0]
    out = folio_kv.Step([0], [], np.zeros((0, 1), np.int32)).attend(
        folio_kv.Kind(8), pages, np.zeros((0, 8, 64), np.float32)
    )
    assert out.shape == (0, 8, 64)
