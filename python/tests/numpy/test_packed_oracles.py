# SPDX-License-Identifier: Apache-2.0
"""Caches of four bits beside what others make of the same numbers: ml_dtypes' element types, and
gguf's blocks of llama.cpp.
"""

import gguf
import ml_dtypes
import numpy as np
import pytest
from gguf import quants

import folio_kv
from folio_kv import Format

# what a pattern of four bits is to ml_dtypes, and what stands for 0
ELEMENTS = {
    "f4_e2m1": (ml_dtypes.float4_e2m1fn, 0),
    "i4": (ml_dtypes.int4, 0),
    "u4": (ml_dtypes.uint4, 8),
}
LARGEST = {"f4_e2m1": 6, "i4": 7, "u4": 7}
LEAST = {"f4_e2m1": -6, "i4": -8, "u4": -8}  # of what saturates
SCALES = {
    "f8_e8m0": ml_dtypes.float8_e8m0fnu,
    "f8_e4m3": ml_dtypes.float8_e4m3fn,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}
GGML = gguf.GGMLQuantizationType


def pages_of(data, format, scales=None, zeros=None):
    """One page of rows [tokens, heads, ...]."""
    data, scales, zeros = (x if x is None else x[None] for x in (data, scales, zeros))
    return folio_kv.Pages(data, dtype=format, key_scales=scales, key_zeros=zeros)


def read(data, format, scales=None, zeros=None):
    """f32 [tokens, heads, dim] of rows [tokens, heads, bytes], copied out of their page."""
    pages = pages_of(data, format, scales, zeros)
    out = np.full((1, *data.shape[:2], pages.head_size), 12345, np.float32)
    folio_kv.copy_pages([pages], [folio_kv.Pages(out)], [(0, 0, len(data))])
    return out[0]


def written(rows, dtype, scale_dtype, granularity, **format):
    """(bytes, scales) that append makes of rows [tokens, heads, dim]."""
    made = Format(dtype, scale_dtype=scale_dtype, granularity=granularity, **format)
    *at, dim = rows.shape
    data = np.zeros((*at, dim // 2), np.uint8)
    kind = np.uint8 if scale_dtype.startswith("f8") else SCALES[scale_dtype]
    scales = np.zeros((*at, dim // granularity), kind)
    rows = rows.astype(np.float32)
    folio_kv.append(None, pages_of(data, made, scales), rows, slots=np.arange(len(rows)))
    return data, scales.view(SCALES[scale_dtype])


def in_pairs(data):
    """Patterns of bytes whose low half is the even element."""
    return np.stack([data & 15, data >> 4], -1).reshape(*data.shape[:-1], -1)


def numbers_of(patterns, dtype):
    kind, zero = ELEMENTS[dtype]
    return patterns.view(kind).astype(np.float32) - zero


def scaled(numbers, scales):
    """Both in f32, with one scale for each row or granule: no product is rounded but at the ends."""
    with np.errstate(over="ignore", invalid="ignore"):
        each = scales.astype(np.float32).repeat(numbers.shape[-1] // scales.shape[-1], -1)
        return numbers * each


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("scale_dtype", ["f8_e8m0", "f8_e4m3"])
def test_every_byte_is_read_with_every_scale(dtype, scale_dtype):
    """Rows of all 256 bytes, one for each pattern of the scale: those of NaN, of a sign and of the
    ends among them."""
    data = np.tile(np.arange(256, dtype=np.uint8), (256, 1, 1))
    scales = np.arange(256, dtype=np.uint8).reshape(256, 1, 1)
    format = Format(dtype, scale_dtype=scale_dtype, granularity=512)
    expected = scaled(numbers_of(in_pairs(data), dtype), scales.view(SCALES[scale_dtype]))
    np.testing.assert_array_equal(read(data, format, scales), expected)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("scale_dtype", ["f8_e8m0", "f8_e4m3"])
def test_attention_to_one_row_is_that_row(dtype, scale_dtype):
    """As above, by way of attention: each row is V of a sequence of one token."""
    data = np.tile(np.arange(256, dtype=np.uint8), (256, 1, 1, 1))
    scales = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)
    format = Format(dtype, scale_dtype=scale_dtype, granularity=512)
    key = np.zeros((256, 1, 1, 512), np.float32)
    pages = folio_kv.Pages(key, data, v_dtype=format, value_scales=scales)
    step = folio_kv.Step(np.arange(257), np.ones(256, int), np.arange(256).reshape(256, 1))
    out = step.attend(folio_kv.Kind(1), pages, np.ones((256, 1, 512), np.float32))
    expected = scaled(numbers_of(in_pairs(data), dtype), scales.view(SCALES[scale_dtype]))[:, 0]
    # what is as small as float32's subnormal numbers may be flushed
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-36)


def halves_of_steps(dtype):
    """All float16 within what is stored with a scale of 1, and their neighbours in float32: every
    tie, and what lies next to it."""
    numbers = np.arange(65536, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.abs(numbers) <= LARGEST[dtype]].astype(np.float32)
    near = [np.nextafter(numbers, np.float32(0)), np.nextafter(numbers, numbers * 2)]
    return np.concatenate([numbers, *(x[np.abs(x) <= LARGEST[dtype]] for x in near)])


def patterns_by_ml_dtypes(numbers, dtype):
    """Of numbers within the range: beyond it ml_dtypes' integers wrap. Its integers are cut."""
    kind, zero = ELEMENTS[dtype]
    whole = numbers if dtype == "f4_e2m1" else np.rint(numbers) + zero
    return whole.astype(kind).view(np.uint8) & 15


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_numbers_become_the_nearest_pattern(dtype):
    numbers = halves_of_steps(dtype)
    rows = np.full((-(-len(numbers) // 127), 1, 128), LARGEST[dtype], np.float32)
    rows[:, 0, 1:].flat[: len(numbers)] = numbers
    data, scales = written(rows, dtype, "f8_e8m0", 128)
    assert (scales.astype(np.float32) == 1).all()
    np.testing.assert_array_equal(in_pairs(data), patterns_by_ml_dtypes(rows, dtype))


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_what_is_beyond_a_calibrated_scale_saturates(dtype):
    """Infinities, too, and NaN is 0: ml_dtypes has 0 of the other sign for E2M1."""
    beyond = np.array([6.01, 7.49, 7.5, 8, 9, 15.5, 16, 1e30, np.inf], np.float32)
    rows = np.concatenate([beyond, -beyond, [np.nan, -np.nan, 0.0, -0.0, 0.2, -0.2], np.zeros(8)])
    rows = rows.astype(np.float32).reshape(1, 1, 32)
    data = np.zeros((1, 1, 16), np.uint8)
    pages = folio_kv.Pages(data[None], dtype=dtype, key_scales=1.0)
    folio_kv.append(None, pages, rows, slots=[0])
    expected = np.nan_to_num(rows, nan=0.0, posinf=99, neginf=-99).clip(
        LEAST[dtype], LARGEST[dtype]
    )
    np.testing.assert_array_equal(in_pairs(data), patterns_by_ml_dtypes(expected, dtype))


def positive_numbers(scale_dtype):
    """All of a type of scales, ascending, in double."""
    kind = SCALES[scale_dtype]
    bits = np.dtype(kind).itemsize * 8
    with np.errstate(invalid="ignore"):
        numbers = np.arange(2**bits).astype(f"u{bits // 8}").view(kind).astype(float)
    return np.unique(numbers[np.isfinite(numbers) & (numbers > 0)])


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("scale_dtype", ["f8_e8m0", "f8_e4m3", "f16", "bf16"])
@pytest.mark.parametrize("tensor_scale", [None, 2.0**-7])
def test_a_scale_is_the_least_that_reaches_the_largest(dtype, scale_dtype, tensor_scale):
    """Of the type's numbers, or its largest; of a granule of zeros 1. Of i4 it makes -8 of the
    largest, so that it is negative where that is positive."""
    has_sign = dtype == "i4" and scale_dtype != "f8_e8m0"
    reach = (8 if has_sign else LARGEST[dtype]) * (tensor_scale or 1)
    rng = np.random.default_rng(31)
    rows = rng.standard_normal((400, 1, 64)) * 2.0 ** rng.uniform(-40, 40, (400, 1, 1))
    # numbers whose scale is one of the type's, and the next ones
    exact = positive_numbers(scale_dtype)[1:-1:97] * reach
    exact = exact[(exact > 1e-37) & (exact < 1e38)].astype(np.float32)
    peaks = np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), [0, 1e-37, 3e38]])
    few = rng.uniform(-0.9, 0.9, (len(peaks), 1, 64)) * peaks[:, None, None]
    few[:, 0, 5] = -peaks
    rows = np.concatenate([rows, few]).astype(np.float32)
    _, scales = written(rows, dtype, scale_dtype, 64, tensor_scale=tensor_scale)
    wanted = np.abs(rows).max(-1).astype(float) / reach
    of_type = positive_numbers(scale_dtype)
    at = np.searchsorted(of_type, wanted).clip(max=len(of_type) - 1)
    expected = np.where(wanted == 0, 1, of_type[at])
    if has_sign:
        expected = np.where(rows.max(-1) > -rows.min(-1), -expected, expected)
    np.testing.assert_array_equal(scales[..., 0].astype(float), expected)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("scale_dtype", SCALES)
def test_what_is_not_finite_leaves_its_granule_as_it_is(dtype, scale_dtype):
    """Where a NaN was is 0, where an infinity was the largest pattern; the scale and all beside them
    are those of the finite numbers."""
    rng = np.random.default_rng(32)
    rows = rng.standard_normal((6, 2, 64)).astype(np.float32)
    spoilt = rows.copy()
    spoilt[0, 0, 3], spoilt[1, 1, 60], spoilt[2, 0, :32] = np.nan, np.inf, np.nan
    spoilt[3, 1, 32:], spoilt[4] = -np.inf, np.nan
    rows[~np.isfinite(spoilt)] = 0
    plain, scales = written(rows, dtype, scale_dtype, 32)
    data, found = written(spoilt, dtype, scale_dtype, 32)
    np.testing.assert_array_equal(found, scales)
    patterns, expected = in_pairs(data), in_pairs(plain)
    is_finite = np.isfinite(spoilt)
    np.testing.assert_array_equal(patterns[is_finite], expected[is_finite])
    numbers = numbers_of(patterns, dtype)
    assert (numbers[np.isnan(spoilt)] == 0).all()
    infinite = np.isinf(spoilt)
    side = np.signbit(found.astype(float)).repeat(32, -1)  # a negative scale turns signs round
    ends = np.where((spoilt > 0) != side, LARGEST[dtype], LEAST[dtype])
    np.testing.assert_array_equal(numbers[infinite], ends[infinite])


def test_a_nan_spoils_no_more_than_what_it_is_turned_with():
    rng = np.random.default_rng(33)
    rows = rng.standard_normal((3, 2, 128)).astype(np.float32)
    spoilt = rows.copy()
    spoilt[1, 0, 70] = np.nan
    plain, scales = written(rows, "i4", "f16", 32, hadamard=64)
    data, found = written(spoilt, "i4", "f16", 32, hadamard=64)
    is_other = np.ones((3, 2, 2), bool)
    is_other[1, 0, 1] = False
    np.testing.assert_array_equal(
        data.reshape(3, 2, 2, 32)[is_other], plain.reshape(3, 2, 2, 32)[is_other]
    )
    np.testing.assert_array_equal(
        found.reshape(3, 2, 2, 2)[is_other], scales.reshape(3, 2, 2, 2)[is_other]
    )


def blocks(name, rows=40, blocks=3):
    """Random blocks as rows of a head, and their numbers to gguf."""
    rng = np.random.default_rng(34)
    size, bytes_of = gguf.GGML_QUANT_SIZES[GGML[name]]
    data = rng.integers(0, 256, (rows, 1, blocks, bytes_of), dtype=np.uint8)
    halves = {"Q4_0": 1, "Q4_1": 2, "Q5_0": 1, "Q5_1": 2, "Q8_0": 1, "IQ4_NL": 1}.get(name, 0)
    for i in range(halves):
        some = rng.standard_normal((rows, 1, blocks, 1)).astype(np.float16)
        data[..., 2 * i : 2 * i + 2] = some.view(np.uint8)
    rows_of_bytes = data.reshape(rows, 1, -1)
    return data, rows_of_bytes, quants.dequantize(rows_of_bytes, GGML[name]).astype(np.float32)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL"])
def test_blocks_are_read_as_gguf_reads_them(name):
    _, data, expected = blocks(name)
    np.testing.assert_array_equal(read(data, name.lower()), expected)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_blocks_are_written_as_gguf_writes_them(name):
    rng = np.random.default_rng(35)
    rows = rng.standard_normal((300, 1, 96)) * 2.0 ** rng.uniform(-10, 10, (300, 1, 1))
    rows[5], rows[6, 0, :32] = 0, 3
    rows = rows.astype(np.float32)
    expected = quants.quantize(rows, GGML[name])
    data = np.zeros_like(expected)
    folio_kv.append(None, pages_of(data, name.lower()), rows, slots=np.arange(300))
    np.testing.assert_array_equal(data, expected)


@pytest.mark.parametrize(
    ("name", "dtype", "zeros"),
    [("Q4_0", "u4_halves", None), ("Q4_0", "i4_halves", None), ("Q4_1", "u4_halves", "minimum")],
)
def test_halves_are_in_ggmls_order(name, dtype, zeros):
    """The same blocks with their scales beside them."""
    data, _, expected = blocks(name)
    packed = data[..., -16:].reshape(40, 1, 48)
    if dtype == "i4_halves":
        packed = packed ^ 0x88  # from patterns of which 8 stands for 0
    beside = np.ascontiguousarray(data[..., :-16]).view(np.float16)
    format = Format(dtype, scale_dtype="f16", granularity=32, zeros=zeros)
    least = beside[..., 1] if zeros else None
    np.testing.assert_array_equal(read(packed.copy(), format, beside[..., 0], least), expected)


def in_halves(patterns):
    """Bytes in ggml's order for patterns [..., 32 n]."""
    both = patterns.reshape(*patterns.shape[:-1], -1, 2, 16)
    return (both[..., 0, :] | both[..., 1, :] << 4).astype(np.uint8)


@pytest.mark.parametrize("halves", ["i4_halves", "u4_halves"])
def test_both_orders_hold_the_same_patterns(halves):
    rows = np.random.default_rng(36).standard_normal((20, 1, 96)).astype(np.float32)
    data, scales = written(rows, halves[:2], "f16", 32)
    other, others = written(rows, halves, "f16", 32)
    np.testing.assert_array_equal(others, scales)
    np.testing.assert_array_equal(other, in_halves(in_pairs(data)).reshape(20, 1, 48))


def test_mxfp4_is_what_gguf_reads_of_the_same_patterns():
    """gguf has ggml's order of elements; scales but that of NaN."""
    rng = np.random.default_rng(38)
    data = rng.integers(0, 256, (255, 1, 3, 17), dtype=np.uint8)
    data[..., 0] = np.arange(255).reshape(255, 1, 1)
    with np.errstate(over="ignore"):
        expected = quants.dequantize(data.reshape(255, 1, -1), GGML.MXFP4).astype(np.float32)
    low_first = np.concatenate([data[..., 1:] & 15, data[..., 1:] >> 4], -1)
    packed = (low_first[..., ::2] | low_first[..., 1::2] << 4).reshape(255, 1, 48)
    format = Format("f4_e2m1", scale_dtype="f8_e8m0", granularity=32)
    found = read(packed, format, np.ascontiguousarray(data[..., 0]))
    np.testing.assert_array_equal(found, expected)


def test_mxfp4_is_written_as_by_gguf_but_that_nothing_is_cut():
    """OCP's rule, gguf's, takes the exponent of the largest number, of which up to a quarter is cut
    where its mantissa is above 1.5: there folio has twice the scale. -0 is 0 in gguf."""
    rows = np.random.default_rng(37).standard_normal((500, 1, 96)).astype(np.float32)
    packed = quants.quantize(rows, GGML.MXFP4).reshape(500, 1, 3, 17)
    theirs = quants.dequantize(packed.reshape(500, 1, -1), GGML.MXFP4).reshape(500, 1, 3, 32)
    data, scales = written(rows, "f4_e2m1", "f8_e8m0", 32)
    ours = scaled(numbers_of(in_pairs(data), "f4_e2m1"), scales).reshape(500, 1, 3, 32)
    largest = np.abs(rows).reshape(500, 1, 3, 32).max(-1)
    is_cut = np.frexp(largest)[0] * 2 > 1.5
    assert 0.2 < is_cut.mean() < 0.6
    np.testing.assert_array_equal(scales.view(np.uint8), packed[..., 0] + is_cut)
    np.testing.assert_array_equal(ours[~is_cut], theirs[~is_cut])
    off = np.abs(ours - rows.reshape(ours.shape))
    assert (off.max(-1) <= scales.astype(np.float32)).all()  # half of the largest step, from 4 to 6
