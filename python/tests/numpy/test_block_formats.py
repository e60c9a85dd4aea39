# SPDX-License-Identifier: Apache-2.0
"""Caches whose rows are blocks of 32 elements beside their scale, as llama.cpp's are."""

import numpy as np
import pytest

import folio_kv
from reference import Case

# bytes of a block: scales before the patterns
BYTES = {"q8_0": 34, "q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "iq4_nl": 18}
# what the 16 patterns of iq4_nl stand for
IQ4_NL = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float64
)


def random_blocks(rng, dtype, *shape):
    """Bytes [..., blocks * bytes] of any patterns, with scales (and least values) near 1 / 64."""
    *rows, blocks = shape
    data = rng.integers(0, 256, (*rows, blocks, BYTES[dtype]), dtype=np.uint8)
    for at in (0, 2) if dtype in ("q4_1", "q5_1") else (0,):
        scales = (rng.uniform(-1, 1, (*rows, blocks, 1)) / 64).astype(np.float16)
        data[..., at : at + 2] = scales.view(np.uint8)
    return data.reshape(*rows, blocks * BYTES[dtype])


def values_of(data, dtype):
    """The elements [..., blocks * 32] of such bytes, in double."""
    block = data.reshape(*data.shape[:-1], -1, BYTES[dtype])
    half = lambda at: block[..., at : at + 2].copy().view(np.float16).astype(float)  # noqa: E731
    scale, least, at = half(0), 0.0, 2
    if dtype in ("q4_1", "q5_1"):
        least, at = half(2), 4
    if dtype == "q8_0":
        patterns = block[..., 2:].view(np.int8).astype(float)
    else:
        packed = block[..., -16:]
        patterns = np.concatenate([packed & 15, packed >> 4], -1).astype(int)
        if dtype in ("q5_0", "q5_1"):
            fifth = np.unpackbits(block[..., at : at + 4], axis=-1, bitorder="little")
            patterns = patterns + 16 * fifth.astype(int)
        if dtype == "iq4_nl":
            patterns = IQ4_NL[patterns]
        elif dtype in ("q4_0", "q5_0"):
            patterns = patterns - (8 if dtype == "q4_0" else 16)
    values = patterns * scale + least
    return values.reshape(*data.shape[:-1], -1)


def planes_of(case, order, *dtypes):
    """Random planes of blocks for K and V: (arrays, elements [pages, slots, heads, dim])."""
    rng = np.random.default_rng(21)
    slots_heads = (case.page_size, 2) if order == "NHD" else (2, case.page_size)
    arrays = [random_blocks(rng, t, case.num_pages, *slots_heads, 2) for t in dtypes]
    elements = [values_of(a, t) for a, t in zip(arrays, dtypes)]
    return arrays, [e if order == "NHD" else e.swapaxes(1, 2) for e in elements]


def take_from(case, key, value):
    """Makes the case's rows those that its table finds in the planes."""
    for b, n in enumerate(case.lengths):
        pages = case.table[b, : -(-n // case.page_size)]
        case.k[b], case.v[b] = (x[pages].reshape(-1, *x.shape[2:])[:n] for x in (key, value))


@pytest.mark.parametrize("order", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", BYTES)
def test_blocks_are_read_in_place(dtype, order):
    case = Case(20, [37, 70, 1], [1, 5, 1])
    (key, value), elements = planes_of(case, order, dtype, dtype)
    take_from(case, *elements)
    pages = folio_kv.Pages(key, value, order=order, dtype=dtype)
    assert (pages.dtype, pages.head_size, pages.page_size) == (dtype, 64, 16)
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    out = step.attend(folio_kv.Kind(8), pages, case.q)
    np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)


def test_keys_and_values_may_be_of_different_formats():
    case = Case(22, [37, 70], [1, 5])
    (key, value), elements = planes_of(case, "NHD", "q8_0", "iq4_nl")
    take_from(case, *elements)
    pages = folio_kv.Pages(key, value, dtype="q8_0", v_dtype="iq4_nl")
    assert (pages.dtype, pages.v_dtype) == ("q8_0", "iq4_nl")
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    out = step.attend(folio_kv.Kind(8), pages, case.q)
    np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)


def test_a_cache_of_blocks_is_filled_as_bytes_and_copied_as_it_is():
    cache, other = (
        folio_kv.KVCache(1, 4, kv_heads=2, head_size=64, dtype="q5_1", v_dtype="q4_0")
        for _ in range(2)
    )
    key, value = (np.from_dlpack(x) for x in (cache[0].key, cache[0].value))
    assert key.dtype == np.uint8 and key.shape == (4, 16, 2, 48) and value.shape == (4, 16, 2, 36)
    for array in (key, value):
        array[:] = np.random.default_rng(23).integers(0, 256, array.shape)
    np.from_dlpack(other[0].key)[:] = 0
    folio_kv.copy_pages(list(cache), list(other), [(1, 2, 16)])
    np.testing.assert_array_equal(np.from_dlpack(other[0].key)[2], key[1])
    np.testing.assert_array_equal(np.from_dlpack(other[0].value)[2], value[1])
    assert not np.from_dlpack(other[0].key)[1].any()


# the largest magnitude of a block over what an element may be off by (attention/append.h)
ERROR = {"q8_0": 225, "q4_0": 7.9, "q4_1": 14, "q5_0": 15.8, "q5_1": 29, "iq4_nl": 4}


@pytest.mark.parametrize("dtype", BYTES)
def test_append_quantises_what_attention_then_reads(dtype):
    case = Case(24, [37, 70, 1], [37, 70, 1])
    cache = folio_kv.KVCache(1, case.num_pages, kv_heads=2, head_size=64, dtype=dtype, order="NHD")
    pages = cache[0]
    for plane in (pages.key, pages.value):
        np.from_dlpack(plane)[:] = 0
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    rows = [np.concatenate(x).astype(np.float32) for x in (case.k, case.v)]
    folio_kv.append(step, pages, *rows)
    given = [x.copy() for x in (*case.k, *case.v)]
    take_from(case, *(values_of(np.from_dlpack(x), dtype) for x in (pages.key, pages.value)))
    for stored, row in zip((*case.k, *case.v), given):
        blocks = np.abs(row).reshape(*row.shape[:-1], -1, 32).max(-1).repeat(32, -1)
        assert (np.abs(stored - row) <= blocks / ERROR[dtype]).all()
    out = step.attend(folio_kv.Kind(8), pages, case.q)
    np.testing.assert_allclose(out, case.expected()[0], atol=3e-6)


def pages_of(last, array_type=np.uint8, dtype="q8_0", **options):
    planes = np.zeros((2, 2, 16, 2, last), array_type)
    return folio_kv.Pages(planes[0], planes[1], dtype=dtype, **options)


def append(pages):
    rows = np.zeros((1, 2, 64), np.float32)
    folio_kv.append(None, pages, rows, rows, slots=[0])


def attend(pages, head_size=64):
    step = folio_kv.Step([0, 1], [1], [[0]])
    step.attend(folio_kv.Kind(8), pages, np.zeros((1, 8, head_size), np.float32))


REFUSED = {
    "rows of no whole block": (lambda: pages_of(67), r"key: rows have 67 bytes, expected a multiple of 34 \(q8_0\)"),
    "values of no whole block": (lambda: pages_of(68, v_dtype="q4_0"), r"value: rows have 68 bytes, expected a multiple of 18 \(q4_0\)"),
    "blocks in float32": (lambda: pages_of(68, np.float32), "dtype: q8_0 is stored as bytes, the elements of key have 32 bits"),
    "a type of values without values": (lambda: folio_kv.Pages(np.zeros((2, 16, 2, 68), np.uint8), dtype="q8_0", v_dtype="q8_0"), "v_dtype: given without value"),
    "scales beside blocks": (lambda: attend(pages_of(68, key_scales=0.5)), "key.scales are given, expected none"),
    "an append to scales beside blocks": (lambda: append(pages_of(68, key_scales=0.5)), "key.scales are given, expected none"),
    "blocks as q": (lambda: folio_kv.Attention(folio_kv.Kind(8), pages_of(68), batch=1, tokens=1, context=1, q_dtype="q8_0"), "q_dtype|q8_0"),
    "heads of half a block": (lambda: folio_kv.KVCache(1, 1, kv_heads=1, head_size=48, dtype="q8_0"), "head_size is 48, expected a multiple of 32"),
    "a cache of blocks with scales": (lambda: folio_kv.KVCache(1, 1, kv_heads=1, head_size=64, dtype="q8_0", scale_dtype="f32"), "scale"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_a_block_format_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises(folio_kv.Error, match=message):
        call()
