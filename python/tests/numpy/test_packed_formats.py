# SPDX-License-Identifier: Apache-2.0
"""Caches of four bits an element, with their scales beside them, rotated and scaled by channels: what
is written is decoded here by the formats' words, and attention is compared with that.
"""

import copy
import pickle

import numpy as np
import pytest

import folio_kv
from folio_kv import Format
from reference import Case

DTYPES = ["i4", "u4", "f4_e2m1", "i4_halves", "u4_halves"]
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
SCALES = {"f32": np.float32, "f16": np.float16}


def patterns_of(data, dtype):
    """Four bits of each element of rows [..., bytes]."""
    low, high = data & 15, data >> 4
    if dtype.endswith("_halves"):
        blocks = (data.reshape(*data.shape[:-1], -1, 16) for data in (low, high))
        return np.concatenate(list(blocks), -1).reshape(*data.shape[:-1], -1)
    return np.stack([low, high], -1).reshape(*data.shape[:-1], -1)


def stored_numbers(patterns, dtype):
    if dtype == "f4_e2m1":
        return E2M1[patterns & 7] * np.where(patterns & 8, -1.0, 1.0)
    if dtype.startswith("i4"):
        return np.where(patterns < 8, patterns, patterns.astype(int) - 16).astype(float)
    return patterns.astype(float)


def hadamard_of(block, seed=0):
    """The matrix by which rows are multiplied, [block, block]."""
    matrix = np.ones((1, 1))
    while len(matrix) < block:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    if seed:
        coins = np.random.RandomState(seed)._bit_generator.random_raw(block) >> 23 & 1
        matrix = matrix * np.where(coins, -1.0, 1.0)
    return matrix / np.sqrt(block)


def turned(rows, format, channels=None):
    rows = rows.astype(float) if channels is None else rows / channels
    if format.hadamard is None:
        return rows
    blocks = rows.reshape(*rows.shape[:-1], -1, format.hadamard)
    return (blocks @ hadamard_of(format.hadamard, format.sign_seed).T).reshape(rows.shape)


def turned_back(rows, format, channels=None):
    if format.hadamard is not None:
        blocks = rows.reshape(*rows.shape[:-1], -1, format.hadamard)
        rows = (blocks @ hadamard_of(format.hadamard, format.sign_seed)).reshape(rows.shape)
    return rows if channels is None else rows * channels


class Plane:
    """Arrays of one plane [pages, slots, heads, ...], or with slots and heads swapped."""

    def __init__(self, format, pages, slots, heads, dim, order):
        at = (pages, slots, heads) if order == "NHD" else (pages, heads, slots)
        granules = -(-dim // format.granularity)
        self.format, self.order, self.dim = format, order, dim
        self.data = np.zeros((*at, dim // 2), np.uint8)
        kind = SCALES[format.scale_dtype]
        self.zeros = None
        if format.zeros == "patterns":
            both = np.zeros((*at, granules, 4), np.uint8)
            self.scales, self.zeros = both[..., :2].view(np.float16)[..., 0], both[..., 2]
        elif format.zeros == "minimum":
            both = np.zeros((*at, granules, 2), kind)
            self.scales, self.zeros = both[..., 0], both[..., 1]
        else:
            self.scales = np.zeros((*at, granules), kind)

    def each(self, of_granules):
        """A number for each element."""
        return of_granules.astype(float).repeat(self.format.granularity, -1)[..., : self.dim]

    def decoded(self, channels=None):
        """(elements as they are stored, steps between patterns near them, elements as they were given),
        [pages, slots, heads, dim]
        """
        f = self.format
        numbers = stored_numbers(patterns_of(self.data, f.dtype), f.dtype)
        scales, zero, least = self.scales, 0.0, 0.0
        if f.dtype.startswith("u4"):
            zero = 8.0 if self.zeros is None else 0.0
        if f.zeros == "patterns":
            zero = self.each(self.zeros & 15)
        elif f.zeros == "minimum":
            least = self.each(self.zeros)
        elif f.zeros == "in_scale":
            words = scales.view(np.uint32)
            zero, scales = self.each(words & 15), (words & ~np.uint32(15)).view(np.float32)
        step = self.each(scales) * (f.tensor_scale or 1.0)
        stored = (numbers - zero) * step + least * (f.tensor_scale or 1.0)
        if f.dtype == "f4_e2m1":
            step = step * np.where(np.abs(numbers) >= 4, 2.0, 1.0)
        if f.dtype.startswith("i4"):  # 8 steps from 0 the other way are one too many
            step = np.abs(step) * np.where(numbers == 7, 2.0, 1.0)
        rows = turned_back(stored, f, channels)
        both = stored, step, rows
        return both if self.order == "NHD" else tuple(x.swapaxes(1, 2) for x in both)


def pages_of(key, value):
    return folio_kv.Pages(
        key.data, value.data, order=key.order, dtype=key.format, v_dtype=value.format,
        key_scales=key.scales, value_scales=value.scales, key_zeros=key.zeros, value_zeros=value.zeros,
    )  # fmt: skip


def formats():
    for dtype in DTYPES:
        for zeros in [None, "patterns", "minimum", "in_scale"] if dtype[0] == "u" else [None]:
            scale = "f32" if zeros == "in_scale" else "f16"
            for turn in {}, {"hadamard": 32}, {"hadamard": 64, "sign_seed": 0x9E3779B9}:
                yield Format(dtype, scale_dtype=scale, granularity=32, zeros=zeros, **turn)
    yield Format("i4", scale_dtype="f32", granularity=24, tensor_scale=0.5)
    yield Format("f4_e2m1", scale_dtype="f16", granularity=16, tensor_scale=1 / 16)


@pytest.mark.parametrize("order", ["NHD", "HND"])
@pytest.mark.parametrize("format", list(formats()), ids=repr)
def test_append_stores_what_the_format_says_and_attention_reads_it(format, order):
    case = Case(20, [37, 70, 1], [1, 5, 1])
    planes = [Plane(format, case.num_pages, 16, 2, 64, order) for _ in range(2)]
    pages = pages_of(*planes)
    assert (pages.dtype, pages.head_size, pages.page_size) == (format.dtype, 64, 16)
    ends = np.concatenate([[0], np.cumsum(case.lengths)])
    given = [np.concatenate(x) for x in (case.k, case.v)]
    folio_kv.append(folio_kv.Batch(ends, case.lengths, case.table), pages, *given)
    for plane, rows, of_case in zip(planes, given, (case.k, case.v)):
        stored, steps, back = plane.decoded()
        wanted = turned(rows, format)
        for b, n in enumerate(case.lengths):
            ids = case.table[b, : -(-n // 16)]
            at = [x[ids].reshape(-1, 2, 64)[:n] for x in (stored, steps, back)]
            # half a step, and what float32 rounds on the way
            assert (np.abs(at[0] - wanted[ends[b] : ends[b + 1]]) <= at[1] / 2 + 1e-5).all()
            of_case[b] = at[2]
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    out = step.attend(folio_kv.Kind(8), pages, case.q)
    np.testing.assert_allclose(out, case.expected()[0], atol=5e-6)


def test_pages_of_one_slot_have_scales_of_their_own():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(3, 2, 64)).astype(np.float32) * np.array([1, 5, 25])[:, None, None]
    rows = rows.astype(np.float32)
    plane = Plane(Format("i4", scale_dtype="f16", granularity=64), 4, 1, 2, 64, "NHD")
    plane.scales[:] = np.nan
    table = np.array([[2, 0, 3]], np.uint32)
    folio_kv.append(folio_kv.Batch([0, 3], [3], table), pages_of(plane, plane), rows, rows)
    stored, steps, _ = plane.decoded()
    assert (np.abs(stored[table[0], 0] - rows) <= steps[table[0], 0] / 2 + 1e-6).all()
    assert np.isnan(plane.scales[1]).all()  # a page of nobody


def test_channel_scales_divide_keys_before_they_are_rotated():
    case = Case(21, [33], [3])
    channels = np.random.default_rng(5).uniform(0.1, 4, (2, 64)).astype(np.float32)
    key = Plane(
        Format("i4", scale_dtype="f16", granularity=32, hadamard=64, channel_scales=channels),
        case.num_pages, 16, 2, 64, "NHD",
    )  # fmt: skip
    value = Plane(Format("u4", scale_dtype="f16", granularity=16), case.num_pages, 16, 2, 64, "NHD")
    pages = pages_of(key, value)
    folio_kv.append(folio_kv.Batch([0, 33], [33], case.table), pages, case.k[0], case.v[0])
    ids = case.table[0, :3]
    stored, steps, back = (x[ids].reshape(-1, 2, 64)[:33] for x in key.decoded(channels))
    wanted = turned(case.k[0], key.format, channels)
    assert (np.abs(stored - wanted) <= steps / 2 + 1e-5).all()
    case.k[0], case.v[0] = back, value.decoded()[2][ids].reshape(-1, 2, 64)[:33]
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    out = step.attend(folio_kv.Kind(8), pages, case.q)
    np.testing.assert_allclose(out, case.expected()[0], atol=5e-6)
    copied = np.zeros((2, case.num_pages, 16, 2, 64), np.float32)
    folio_kv.copy_pages([pages], [folio_kv.Pages(*copied)], [(i, i, 16) for i in ids])
    np.testing.assert_allclose(copied[0][ids].reshape(-1, 2, 64)[:33], back, atol=1e-5)


def test_a_row_of_vllms_int4_per_token_head_is_read():
    """Bytes of its own quantiser, of x[i] = ((37 i mod 64) - 31.5) / 8 but x[5] = 100."""
    x = ((np.arange(64) * 37 % 64) - 31.5) / 8
    x[5] = 100
    slot = bytes.fromhex("c2f41c1dc4d21c1ec2e32d1dc3e33e5be3c42d3ed2d04d3dc3e23d4cd2d22b3e")
    key = np.frombuffer(slot, np.uint8).reshape(1, 1, 1, 32).copy()
    scale = np.array(0x4199CCC8, np.uint32).view(np.float32).reshape(1, 1, 1, 1)
    # its matrix is not normalised
    format = Format("u4", scale_dtype="f32", zeros="in_scale", hadamard=64, sign_seed=0x9E3779B9,
                    tensor_scale=1 / 8)  # fmt: skip
    read = np.zeros((1, 1, 1, 64), np.float32)
    pages = folio_kv.Pages(key, dtype=format, key_scales=scale)
    folio_kv.copy_pages([pages], [folio_kv.Pages(read)], [(0, 0, 1)])
    half_a_step = 19.23 / 2 / 8
    assert np.linalg.norm(read[0, 0, 0] - x) < half_a_step * 8 < np.linalg.norm(x) / 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cache_by_the_name_of_its_dtype_has_scales_of_32(dtype):
    cache = folio_kv.KVCache(3, 4, kv_heads=2, head_size=64, dtype=dtype)
    assert cache.nbytes == 3 * 2 * 4 * 16 * 2 * (32 + 2 * 2)
    key = np.from_dlpack(cache[0].key)
    assert key.dtype == np.uint8 and key.shape == (4, 16, 2, 32)
    assert cache[0].v_dtype == dtype


@pytest.mark.parametrize(
    ("format", "bytes_of_a_row"),
    [
        (Format("i4", scale_dtype="f8_e8m0", granularity=32), 32 + 2),
        (Format("f4_e2m1", scale_dtype="f8_e4m3", granularity=16, tensor_scale=0.1), 32 + 4),
        (Format("u4", zeros="patterns"), 32 + 2 * 4),
        (Format("u4", zeros="in_scale", granularity=64), 32 + 4),
        (Format("i8"), 64 + 4),
        (Format("bf16", hadamard=64), 128),
    ],
    ids=repr,
)
def test_a_format_says_the_bytes_of_a_cache(format, bytes_of_a_row):
    """Beside a V that another says."""
    cache = folio_kv.KVCache(1, 2, kv_heads=3, head_size=64, dtype=format, v_dtype="bf16")
    assert cache.nbytes == 2 * 16 * 3 * (bytes_of_a_row + 128)
    latent = folio_kv.KVCache(1, 2, kv_heads=1, head_size=64, dtype=format, latent=True)
    assert latent.nbytes == 2 * 16 * bytes_of_a_row


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_a_cache_have_its_format(way):
    channels = np.random.default_rng(6).uniform(0.5, 2, (2, 2, 64)).astype(np.float32)
    key = Format("i4", hadamard=64, sign_seed=3, channel_scales=channels, tensor_scale=[0.5, 2.0])
    cache = folio_kv.KVCache(2, 4, kv_heads=2, head_size=64, dtype=key, v_dtype=Format("u4"))
    at, kind = folio_kv.Step([0, 12], [12], [[3]]), folio_kv.Kind(4)
    rows = np.random.default_rng(7).standard_normal((3, 12, 4, 64), np.float32)
    for layer in range(2):
        at.append(cache[layer], rows[0, :, :2] * (layer + 1), rows[1, :, :2])
    other = way(cache)
    assert other.nbytes == cache.nbytes
    for layer in range(2):
        both = [at.attend(kind, c[layer], rows[2]) for c in (cache, other)]
        assert np.array_equal(*both)
    assert not np.array_equal(*(at.attend(kind, cache[layer], rows[2]) for layer in range(2)))


def test_planes_of_one_format_move_bytes():
    format = Format("i4", hadamard=64)
    caches = [folio_kv.KVCache(1, 2, kv_heads=2, head_size=64, dtype=format) for _ in range(2)]
    rows = np.random.default_rng(8).standard_normal((16, 2, 64), np.float32)
    folio_kv.append(folio_kv.Step([0, 16], [16], [[0]]), caches[0][0], rows, rows)
    folio_kv.copy_pages(list(caches[0]), list(caches[1]), [(0, 1, 16)])
    both = [np.from_dlpack(cache[0].key) for cache in caches]
    np.testing.assert_array_equal(both[0][0], both[1][1])


def test_a_format_says_what_it_was_given():
    channels = np.ones((3, 2, 64), np.float32)
    format = Format("u4", scale_dtype="f16", granularity=64, zeros="minimum", hadamard=128,
                    sign_seed=9, channel_scales=channels, tensor_scale=[1.0, 2.0, 4.0])  # fmt: skip
    assert (format.dtype, format.scale_dtype, format.granularity) == ("u4", "f16", 64)
    assert (format.zeros, format.hadamard, format.sign_seed) == ("minimum", 128, 9)
    assert format.channel_scales is channels and format.tensor_scale == [1.0, 2.0, 4.0]
    assert repr(Format("int4", hadamard=16)) == "Format('i4', hadamard=16)"
    layer = format.of_layer(2)
    assert layer.tensor_scale == 4.0 and layer.channel_scales.shape == (2, 64)
    assert np.shares_memory(layer.channel_scales, channels)
    changed = format.replace(zeros=None, dtype="i4")
    assert (changed.dtype, changed.zeros, changed.hadamard) == ("i4", None, 128)
    plain = Format("i8")
    given = plain.scale_dtype, plain.granularity, plain.hadamard, plain.tensor_scale
    assert given == (None, None, None, None) and plain.of_layer(7).dtype == "i8"
    assert repr(pickle.loads(pickle.dumps(format))) == repr(format)


def test_rotation_brings_keys_with_an_outlier_nearer():
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((64, 1, 128)).astype(np.float32)
    rows[:, :, 17] *= 30
    errors = []
    for hadamard in (None, 128):
        cache = folio_kv.KVCache(
            1, 4, kv_heads=1, head_size=128, dtype=Format("i4", hadamard=hadamard)
        )
        at = folio_kv.Step([0, 64], [64], [[0, 1, 2, 3]])
        at.append(cache[0], rows, rows)
        read = np.zeros((2, 4, 16, 1, 128), np.float32)
        folio_kv.copy_pages(list(cache), [folio_kv.Pages(*read)], [(i, i, 16) for i in range(4)])
        q = rng.standard_normal((64, 1, 128))
        exact, got = (np.einsum("thd,shd->ts", q, x.reshape(64, 1, 128)) for x in (rows, read[0]))
        errors.append(np.linalg.norm(got - exact))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_query_that_rotate_turned_is_not_turned_again(dtype):
    case = Case(23, [37, 70], [1, 5])
    channels = np.random.default_rng(6).uniform(0.5, 2, (2, 64)).astype(np.float32)
    key = Format(dtype, hadamard=32, sign_seed=3, channel_scales=channels)
    cache = folio_kv.KVCache(1, case.num_pages, kv_heads=2, head_size=64, dtype=key,
                             v_dtype=Format("i4", hadamard=64))  # fmt: skip
    step = folio_kv.Step(case.offsets, case.lengths, case.table)
    folio_kv.append(case.cached_batch(folio_kv), cache[0], case.cached(case.k), case.cached(case.v))
    step.append(cache[0], case.fresh(case.k), case.fresh(case.v))
    out = step.attend(folio_kv.Kind(8), cache[0], case.q)
    turned_q = step.rotate(case.q, pages=cache[0])
    kind = folio_kv.Kind(8, q_is_turned=True)
    np.testing.assert_array_equal(step.attend(kind, cache[0], turned_q), out)
    np.testing.assert_array_equal(folio_kv.rotate(None, case.q, pages=cache[0]), turned_q)
    assert np.abs(step.attend(kind, cache[0], case.q) - out).max() > 1e-2
    assert pickle.loads(pickle.dumps(kind)).__getstate__()["q_is_turned"]
    angles = np.linspace(0, 3, 80 * 64, dtype=np.float32).reshape(80, 64)
    rope = folio_kv.Rope(np.concatenate([np.cos(angles), np.sin(angles)], 1)[:, ::2].copy())
    with pytest.raises(folio_kv.Error, match="rope: given for a kind with q_is_turned"):
        step(kind, cache[0], case.q, rope=rope)
    both = step.rotate(case.q, rope=rope, pages=cache[0])
    np.testing.assert_array_equal(
        step.attend(kind, cache[0], both), step(folio_kv.Kind(8), cache[0], case.q, rope=rope)
    )
    with pytest.raises(folio_kv.Unsupported, match="over: q_is_turned"):
        step.over(kind, cache[0], case.q, case.fresh(case.k), case.fresh(case.v))


def cache(dtype="i4", **options):
    return folio_kv.KVCache(1, 1, **{"kv_heads": 2, "head_size": 64, "dtype": dtype, **options})


def pages(last=32, dtype="i4", array=np.uint8, **options):
    key, value = np.zeros((2, 2, 16, 2, last), array)
    scales = np.ones((2, 16, 2, 2), np.float16)
    given = {"key_scales": scales, "value_scales": scales, "dtype": dtype} | options
    return folio_kv.Pages(key, value, **given)


def beside(zeros, **format):
    scales = np.ones((2, 16, 2, 2, 2), np.float16)
    made = Format("u4", **{"zeros": "minimum", **format})
    return pages(dtype=made, key_scales=scales[..., 0], value_scales=scales[..., 0],
                 key_zeros=zeros, value_zeros=scales[..., 1])  # fmt: skip


ONES = np.ones((2, 64), np.float32)

REFUSED = {
    "dtype": (lambda: Format("i3"), "dtype: expected f32, .*, f4_e2m1, i4, .*u4_halves, got i3"),
    "scales of integers": (lambda: Format("i4", scale_dtype="i8"), "scale_dtype: expected f32, f16, bf16, f8_e8m0, f8_e4m3 or none, got i8"),
    "no scales": (lambda: Format("i4", scale_dtype="none"), "scale_dtype: i4 has scales beside it"),
    "scales beside blocks": (lambda: Format("q4_0", scale_dtype="f16"), "scale_dtype: q4_0 has its scales in its blocks"),
    "granularity": (lambda: Format("i4", granularity=0), "granularity: expected at least 1, got 0"),
    "granularity without scales": (lambda: Format("bf16", granularity=32), "granularity: given for planes without scales"),
    "zeros": (lambda: Format("u4", zeros="least"), 'zeros: expected "patterns", "minimum", "in_scale" or None, got "least"'),
    "zeros of i4": (lambda: Format("i4", zeros="patterns"), 'zeros: "patterns" is of u4 and u4_halves, got it with i4'),
    "zeros in f16": (lambda: Format("u4", scale_dtype="f16", zeros="in_scale"), 'zeros: "in_scale" is of scales of f32, got it with f16'),
    "a minimum of 8 bits": (lambda: Format("u4", scale_dtype="f8_e4m3", zeros="minimum"), 'zeros: "minimum" is of scales of f32, f16 or bf16, got it with f8_e4m3'),
    "hadamard": (lambda: Format("i4", hadamard=48), "hadamard: expected a power of two from 16 to 512, or None, got 48"),
    "a small hadamard": (lambda: Format("i4", hadamard=8), "hadamard: expected a power of two"),
    "signs alone": (lambda: Format("i4", sign_seed=3), "sign_seed: given without hadamard"),
    "a negative tensor scale": (lambda: Format("i4", tensor_scale=-1.0), "tensor_scale: expected positive finite numbers, got -1"),
    "a tensor scale that is none": (lambda: Format("i4", tensor_scale="big"), "tensor_scale: expected a number, or a list"),
    "a tensor scale without scales": (lambda: Format("bf16", tensor_scale=2.0), "tensor_scale: given for planes without scales"),
    "channel scales of one dimension": (lambda: Format("i4", channel_scales=ONES[0]), r"channel_scales: expected contiguous f32\[heads, head_size\].*, got f32\[64\]"),
    "channel scales with holes": (lambda: Format("i4", channel_scales=ONES[:, ::2]), "channel_scales: expected contiguous"),
    "channel scales of f64": (lambda: Format("i4", channel_scales=ONES.astype(float)), "channel_scales: expected contiguous f32"),
    "a layer too many": (lambda: Format("i4", tensor_scale=[1.0, 2.0]).of_layer(2), "layer: expected less than the 2 of tensor_scale, got 2"),
    "heads of odd size": (lambda: cache(head_size=63), "head_size is 63, expected a multiple of 2"),
    "heads of half a block": (lambda: cache("u4_halves", head_size=48), "head_size is 48, expected a multiple of 32"),
    "a rotation that does not fit": (lambda: cache(Format("i4", hadamard=128)), "dtype: hadamard is 128, expected a divisor of the head_size 64"),
    "V's rotation that does not fit": (lambda: cache(v_dtype=Format("i4", hadamard=64), v_head_size=96), "v_dtype: hadamard is 64, expected a divisor of the head_size 96"),
    "words beside a Format": (lambda: cache(Format("i4"), granularity=16), "granularity: given beside a Format"),
    "a scale beside two": (lambda: cache(Format("i4"), v_dtype=Format("i8"), scale_dtype="f32"), "scale_dtype: given beside a Format"),
    "K's channels for V": (lambda: cache(Format("i4", channel_scales=ONES)), "v_dtype: expected V's own"),
    "channels of other heads": (lambda: cache(Format("i4", channel_scales=ONES[:1]), v_dtype="bf16"), r"dtype: channel_scales: expected f32\[2, 64\].*, got f32\[1, 64\]"),
    "tensor scales of other layers": (lambda: cache(Format("i4", tensor_scale=[1.0, 2.0])), "dtype: tensor_scale has 2 numbers, expected 1 or one for each of 1 layers"),
    "rows of float32": (lambda: pages(array=np.float32), "dtype: i4 is stored as bytes, the elements of key have 32 bits"),
    "rows of half a block": (lambda: pages(40, "i4_halves"), r"key: rows have 40 bytes, expected a multiple of 16 \(i4_halves\)"),
    "pages without scales": (lambda: pages(key_scales=None), "key_scales: expected those of i4, got None"),
    "V's pages without scales": (lambda: pages(value_scales=None), "value_scales: expected those of i4, got None"),
    "scales of another dtype": (lambda: pages(dtype=Format("i4", scale_dtype="f32")), r"key_scales: expected f32 \(scale_dtype\), got f16"),
    "scales of other bits": (lambda: pages(dtype=Format("i4", scale_dtype="f8_e4m3"), key_scales=np.ones((2, 16, 2, 2), np.uint16)), "scale_dtype: f8_e4m3 has 8 bits, the elements of key_scales have 16"),
    "too few granules": (lambda: pages(dtype=Format("i4", granularity=16)), r"key_scales: dimension 3 has 2 elements, expected 1 or 4 \(granules of 16\)"),
    "granules that divide nothing": (lambda: pages(key_scales=np.ones((2, 16, 2, 3), np.float16)), "key_scales: dimension 3 has 3 elements, expected 1 or a divisor of 64"),
    "no zeros": (lambda: beside(None), "key_zeros: expected an array beside one of scales"),
    "zeros that nobody wants": (lambda: pages(key_zeros=np.zeros((2, 16, 2, 2), np.uint8)), "key_zeros: given, the dtype has none"),
    "zeros of another stride": (lambda: beside(np.zeros((2, 16, 2, 2), np.float16)), r"key_zeros: expected f16 of the shape and the byte strides of key_scales, f16\[2, 16, 2, 2\], got f16"),
    "zeros of another dtype": (lambda: beside(np.zeros((2, 16, 2, 2), np.uint8)), "key_zeros: expected f16"),
    "V's zeros without V": (lambda: folio_kv.Pages(np.zeros((1, 1, 1, 32), np.uint8), dtype="i4", key_scales=1.0, value_zeros=ONES), "value_zeros: given without value"),
    "a tensor scale without scales of pages": (lambda: folio_kv.Pages(np.zeros((1, 1, 1, 32), np.int8), dtype=Format("i8", tensor_scale=2.0)), "key_scales: expected scales beside tensor_scale"),
    "a rotation of other pages": (lambda: pages(dtype=Format("i4", hadamard=128)), "dtype: hadamard is 128, expected a divisor of the head_size 64"),
    "q for other heads": (lambda: folio_kv.rotate(None, np.zeros((1, 3, 64), np.float32), pages=cache()[0]), "key.num_heads is 2, expected a divisor of q's 3"),
    "q of another size": (lambda: folio_kv.rotate(None, np.zeros((1, 4, 32), np.float32), pages=cache()[0]), r"key.head_size is 64, expected 32 \(from q\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_format_is_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises(folio_kv.Error, match=message):
        call()


def test_channel_scales_that_cannot_be_are_refused_where_they_are_read():
    channels = np.ones((2, 64), np.float32)
    held = cache(Format("i4", channel_scales=channels), v_dtype="bf16")[0]
    rows = np.ones((1, 2, 64), np.float32)
    folio_kv.append(None, held, rows, rows, slots=[0])
    channels[1, 3] = 0.0
    with pytest.raises(folio_kv.Error, match=r"key.channel_scales\[67\] is 0, expected a positive"):
        folio_kv.append(None, held, rows, rows, slots=[0])
