# SPDX-License-Identifier: Apache-2.0
"""Arrays cross without a copy, and what does not fit is named."""

import ml_dtypes
import numpy as np
import pytest

import folio_kv
from reference import Case

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def one_page(dtype=np.float32, heads=2, dim=16):
    return [np.zeros((3, 8, heads, dim), dtype) for _ in range(2)]


def test_pages_are_a_view_of_the_arrays_memory():
    key, value = one_page()
    pages = folio_kv.Pages(key, value)
    folio_kv.append(
        None,
        pages,
        np.ones((1, 2, 16), np.float32),
        np.ones((1, 2, 16), np.float32) * 2,
        slots=[10],
    )
    assert key[1, 2].sum() == 32 and value[1, 2].sum() == 64
    assert np.from_dlpack(pages.key).__array_interface__["data"] == key.__array_interface__["data"]


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(BF16, "bf16"), (E4M3, "f8_e4m3"), (E5M2, "f8_e5m2"), (np.int8, "i8"), (np.float16, "f16")],
)
def test_arrays_of_ml_dtypes_are_what_they_say(dtype, name):
    pages = folio_kv.Pages(*one_page(dtype))
    assert (pages.dtype, pages.v_dtype) == (name, name)


def test_bf16_rows_of_numpy_give_bf16_outputs_of_numpy():
    case = Case(20, [40, 7], [1, 3])
    cache = folio_kv.KVCache(1, case.num_pages, kv_heads=2, head_size=64)
    case.q = case.q.astype(BF16)
    case.k, case.v = ([x.astype(BF16) for x in rows] for rows in (case.k, case.v))
    folio_kv.append(case.cached_batch(folio_kv), cache[0], case.cached(case.k), case.cached(case.v))
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    out = step(folio_kv.Kind(8), cache[0], case.q, case.fresh(case.k), case.fresh(case.v))
    assert out.dtype == BF16
    np.testing.assert_allclose(out.astype(float), case.expected()[0], atol=0.02)


def test_bytes_may_be_declared_to_hold_fp8():
    key, value = one_page(np.uint8)
    pages = folio_kv.Pages(key, value, dtype="fp8_e5m2", key_scales=0.5, value_scales=0.5)
    folio_kv.append(
        None,
        pages,
        np.full((1, 2, 16), 3, np.float32),
        np.full((1, 2, 16), 3, np.float32),
        slots=[0],
    )
    assert (key.view(E5M2)[0, 0].astype(float) == 6).all()


def test_strided_rows_are_read_in_place():
    fused = np.random.default_rng(0).standard_normal((5, 8 * 64 + 2 * 2 * 64)).astype(np.float32)
    q, k, v = (x.reshape(5, -1, 64) for x in np.split(fused, [512, 640], axis=1))
    pages = folio_kv.KVCache(1, 1, kv_heads=2, head_size=64, dtype="f32")[0]
    wide = np.lib.stride_tricks.as_strided(fused, (5, 8, 64), (fused.strides[0], 256, 4))
    step = folio_kv.Step([0, 5], [5], [[0]])
    out = np.full((5, 8, 128), np.nan, np.float32)[:, :, 32:96]
    step(folio_kv.Kind(8), pages, wide, k, v, out=out)
    dense = step.attend(folio_kv.Kind(8), pages, np.ascontiguousarray(q))
    np.testing.assert_array_equal(out, dense)
    assert np.isnan(out.base[:, :, :32]).all() and np.isnan(out.base[:, :, 96:]).all()


def foreign_orders(k, v, ids, num_pages, slots):
    """The same keys and values as five engines keep them: (key, value, order, table)."""
    pages, heads, dim = len(ids), k.shape[1], k.shape[2]

    def paged(x):
        out = np.full((num_pages, slots, heads, dim), np.nan, x.dtype)
        for p in range(pages):
            rows = x[p * slots : (p + 1) * slots]
            out[ids[p], : len(rows)] = rows
        return out

    key, value = paged(k), paged(v)
    seeds = np.stack([key, value], 1)[:, :, None].repeat(
        2, 2
    )  # [pages, 2, layers, slots, heads, dim]
    yield seeds[:, 0, 1], seeds[:, 1, 1], "NHD", [ids]
    side_by_side = (
        np.stack([key, value], 3).transpose(0, 2, 1, 3, 4).copy()
    )  # vLLM: [pages, heads, slots, 2, dim]
    yield side_by_side[..., 0, :], side_by_side[..., 1, :], "HND", [ids]
    flashinfer = np.stack([key, value], 1)  # [pages, 2, slots, heads, dim]
    yield flashinfer[:, 0], flashinfer[:, 1], "NHD", [ids]
    flat = [
        x.reshape(-1, heads, dim) for x in (key, value)
    ]  # SGLang, llama.cpp: [slots, heads, dim]
    slots_of = [int(p) * slots + i for p in ids for i in range(slots)]
    yield *flat, "NHD", [slots_of]
    yield key.transpose(0, 2, 1, 3).copy(), value.transpose(0, 2, 1, 3).copy(), "HND", [ids]


def test_five_engines_caches_give_the_same_bits():
    rng = np.random.default_rng(30)
    k, v = (rng.standard_normal((37, 2, 64)).astype(np.float16) for _ in range(2))
    q = rng.standard_normal((3, 8, 64)).astype(np.float32)
    results = []
    for key, value, order, table in foreign_orders(k, v, [4, 0, 2], 5, 16):
        step = folio_kv.Step([0, 3], [37], table)
        results.append(step.attend(folio_kv.Kind(8), folio_kv.Pages(key, value, order=order), q))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    assert np.isfinite(results[0]).all()


def test_ragged_rows_are_pages_without_bound():
    case = Case(31, [5, 9], [5, 9])
    pages = folio_kv.Pages.ragged(case.fresh(case.k), case.fresh(case.v))
    step = folio_kv.Step(case.offsets, case.lengths, case.offsets[:2, None])
    np.testing.assert_allclose(
        step.attend(folio_kv.Kind(8), pages, case.q), case.expected()[0], atol=3e-6
    )


def test_tables_may_be_csr_wide_int64_or_lists():
    case = Case(32, [40, 20, 33], [1, 2, 1])
    cache = folio_kv.KVCache(1, case.num_pages, kv_heads=2, head_size=64, dtype="f32")
    written = folio_kv.Step([0, *np.cumsum(case.lengths)], case.lengths, case.table)
    written.append(cache[0], np.concatenate(case.k), np.concatenate(case.v))
    counts = [3, 2, 3]
    flat = np.concatenate([case.table[b, : counts[b]] for b in range(3)])
    wide = np.full((5, 40), 10**6, np.int32)
    wide[:3, :3] = case.table[:, :3]
    for table, starts in [
        (flat, [0, 3, 5]),
        (flat.astype(np.uint32), np.array([0, 3, 5])),
        (wide[:3, :30], None),
        (wide[:, ::-1][:3, ::-1], None),
        (case.table.astype(np.int64), None),
        ([list(map(int, row)) for row in case.table], None),
    ]:
        step = folio_kv.Step(case.offsets, case.lengths, table, row_starts=starts)
        out = step.attend(folio_kv.Kind(8), cache[0], case.q)
        np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)


def test_a_borrowed_array_lives_as_long_as_its_holder():
    pages = folio_kv.Pages(*one_page())
    step = folio_kv.Step([0, 1], [3], np.array([[1]], np.int32))
    junk = [np.full((3, 8, 2, 16), np.nan, np.float32) for _ in range(20)]
    folio_kv.append(
        None, pages, *(np.ones((3, 2, 16), np.float32) for _ in range(2)), slots=[8, 9, 10]
    )
    out = step.attend(folio_kv.Kind(2), pages, np.ones((1, 2, 16), np.float32))
    np.testing.assert_allclose(out, 1)
    assert len(junk) == 20
