# SPDX-License-Identifier: Apache-2.0
"""A hostile caller gets an exception that names the argument, what was expected and what came."""

import gc
import sys

import numpy as np
import pytest

import folio_kv

F32 = np.float32
MOST = 2**31 - 1


def pages(**options):
    return folio_kv.KVCache(1, 8, **{"kv_heads": 2, "head_size": 16, "dtype": "f32", **options})[0]


def rows(tokens=1, heads=2, dtype=F32):
    return np.zeros((tokens, heads, 16), dtype)


def step(**options):
    return folio_kv.Step(
        **{"query_offsets": [0, 1], "context_lengths": [20], "table": [[0, 1]], **options}
    )


def read_only_pages():
    array = np.zeros((2, 16, 2, 16), F32)
    array.flags.writeable = False
    return folio_kv.Pages(array, array)


def read_only_scales():
    scales = np.ones((2, 16, 2, 1), F32)
    scales.flags.writeable = False
    key, value = np.zeros((2, 2, 16, 2, 16), np.int8)
    return folio_kv.Pages(key, value, key_scales=scales, value_scales=scales)


KIND = folio_kv.Kind(8)

REFUSED_ARRAYS = {
    "q is no array": (lambda: step().attend(KIND, pages(), "rows"), "q: expected an array .*, got str"),
    "q of int64": (lambda: step().attend(KIND, pages(), rows(1, 8, np.int64)), r"q: expected f32, bf16 or f16, got int64\[1, 8, 16\]"),
    "q of float64": (lambda: step().attend(KIND, pages(), rows(1, 8, np.float64)), "q: expected f32, bf16 or f16, got float64"),
    "q of two dimensions": (lambda: step().attend(KIND, pages(), rows(1, 8)[0]), r"q: expected 3 dimensions \[tokens, heads, dim\]"),
    "q with other heads": (lambda: step().attend(KIND, pages(), rows(1, 4)), r"q: expected 8 heads .*, got f32\[1, 4, 16\]"),
    "q with other dims": (lambda: step().attend(KIND, pages(), np.zeros((1, 8, 24), F32)), "q"),
    "q with too few rows": (lambda: step().attend(KIND, pages(), rows(0, 8)), "q: expected at least 1 rows"),
    "q with holes": (lambda: step().attend(KIND, pages(), np.zeros((1, 8, 32), F32)[..., ::2]), "q: expected a contiguous last dimension, got a stride of 2"),
    "q of the other byte order": (lambda: step().attend(KIND, pages(), rows(1, 8, ">f4")), "q: expected an array .* byte order, got ndarray of >f4"),
    "q with strides of half elements": (lambda: step().attend(KIND, pages(head_size=64), np.zeros(3, [("q", F32, (8, 16)), ("", "u1")])["q"]), "q: expected an array .* strides of whole elements"),
    "out is read-only": (lambda: step().attend(KIND, pages(), rows(1, 8), out=np.broadcast_to(F32(0), (1, 8, 16))), "out: expected an array that can be written"),
    "out of another shape": (lambda: step().attend(KIND, pages(), rows(1, 8), out=rows(1, 4)), "out"),
    "out of int8": (lambda: step().attend(KIND, pages(), rows(1, 8), out=rows(1, 8, np.int8)), "out"),
    "lse of float64": (lambda: step().attend(KIND, pages(), rows(1, 8), lse=np.zeros((1, 8))), "lse: expected contiguous f32"),
    "lse too small": (lambda: step().attend(KIND, pages(), rows(1, 8), lse=np.zeros((1, 4), F32)), "lse: expected contiguous f32"),
    "sinks of another length": (lambda: step().attend(KIND, pages(), rows(1, 8), sinks=np.zeros(4, F32)), r"sinks: expected f32, bf16 or f16 \[8\] or \[1, 8\] .*, got f32\[4\]"),
    "sinks of more heads": (lambda: step().attend(KIND, pages(), rows(1, 8), sinks=np.zeros(16, F32)), r"sinks: expected f32, bf16 or f16 \[8\] or \[1, 8\] .*, got f32\[16\]"),
    "alibi of float64": (lambda: step().attend(KIND, pages(), rows(1, 8), alibi=np.zeros(8)), "alibi: expected contiguous f32"),
    "bias too narrow": (lambda: step().attend(KIND, pages(), rows(1, 8), bias=np.zeros((1, 1, 19), F32)), "bias: expected f32"),
    "bias with too many heads": (lambda: step().attend(KIND, pages(), rows(1, 8), bias=np.zeros((2, 1, 20), F32)), "bias: expected f32"),
    "k with other heads": (lambda: step().append(pages(), rows(1, 3), rows()), "k"),
    "v without k": (lambda: step()(KIND, pages(), rows(1, 8), None, rows()), "v: given without k"),
    "slots without k": (lambda: step()(KIND, pages(), rows(1, 8), slots=[0]), "slots: given without k"),
    "k_norm without k": (lambda: step()(KIND, pages(), rows(1, 8), k_norm=np.zeros(16, F32)), "k_norm: given without k"),
    "k_norm_shift without k": (lambda: step()(KIND, pages(), rows(1, 8), k_norm_shift=np.zeros(16, F32)), "k_norm_shift: given without k"),
    "k_norm_shift without k_norm": (lambda: step().append(pages(), rows(), rows(), k_norm_shift=np.zeros(16, F32)), "k_norm_shift is given, expected none without k_norm"),
    "k_norm_shift of another length": (lambda: step().append(pages(), rows(), rows(), k_norm=np.zeros(16, F32), k_norm_shift=np.zeros(8, F32)), "k_norm_shift: expected"),
    "q_norm_shift without q_norm": (lambda: step()(KIND, pages(), rows(1, 8), q_norm_shift=np.zeros(16, F32)), "q_norm_shift is given, expected none without q_norm"),
    "k into read-only scales": (lambda: step().append(read_only_scales(), rows(), rows()), "read-only"),
    "v missing": (lambda: step().append(pages(), rows()), "v"),
    "k into read-only pages": (lambda: step().append(read_only_pages(), rows(), rows()), "read-only"),
    "k into pages that share bytes": (lambda: step().append(folio_kv.Pages(*[np.lib.stride_tricks.as_strided(np.zeros(16, F32), (2, 16, 2, 16), (0, 0, 0, 4))] * 2), rows(), rows()), "expected a place for each"),
    "slots too short": (lambda: step().append(pages(), rows(), rows(), slots=[]), "slots: expected one for each of 1 tokens, got 0"),
    "slots out of range": (lambda: step().append(pages(), rows(), rows(), slots=[8 * 16]), "slot"),
    "neither batch nor slots": (lambda: folio_kv.append(None, pages(), rows(), rows()), "expected a batch or slots"),
    "rope of two angles too many": (lambda: step().rotate(rows(1, 8), rope=folio_kv.Rope(np.zeros((64, 18), F32))), "dims"),
    "rope beyond its rows": (lambda: folio_kv.rotate(step(), rows(1, 8), rope=folio_kv.Rope(np.zeros((5, 16), F32))), "position"),
    "rotated rows of another count": (lambda: folio_kv.rotate(None, rows(4), q_norm=np.ones(16, F32), out=rows(2)), r"out: expected 4 rows \(those of q\)"),
    "pages without slots": (lambda: folio_kv.Pages(np.zeros((4, 0, 2, 16), F32)), "key: expected pages of 1 to"),
    "key of five dimensions": (lambda: folio_kv.Pages(np.zeros((1, 1, 1, 1, 8), F32)), "key: expected 4 dimensions"),
    "key of bool": (lambda: folio_kv.Pages(np.zeros((1, 1, 1, 8), bool)), "key: expected f32, .* got bool"),
    "key without contiguous rows": (lambda: folio_kv.Pages(np.zeros((1, 1, 1, 16), F32)[..., ::2]), "key: expected a contiguous last dimension"),
    "an unknown order": (lambda: folio_kv.Pages(np.zeros((1, 1, 1, 8), F32), order="DHN"), 'order: expected "NHD"'),
    "scales of another shape": (lambda: folio_kv.Pages(np.zeros((4, 16, 2, 8), np.int8), key_scales=np.zeros((4, 15, 2, 1), F32)), "key_scales: dimension 1 has 15 elements, expected 1 or 16"),
    "scales of no value": (lambda: folio_kv.Pages(np.zeros((4, 16, 2, 8), np.int8), value_scales=1.0), "value_scales: given without value"),
    "values of other pages": (lambda: folio_kv.Pages(np.zeros((4, 16, 2, 8), F32), np.zeros((3, 16, 2, 8), F32)), "value: expected as many pages as key, 4, got 3"),
    "ragged values of other rows": (lambda: folio_kv.Pages.ragged(np.zeros((4, 2, 8), F32), np.zeros((3, 2, 8), F32)), "value: expected as many pages as key, 4, got 3"),
    "a wrong declared dtype": (lambda: folio_kv.Pages(np.zeros((4, 16, 2, 8), np.int8), dtype="bf16"), "dtype: bf16 has 16 bits, the elements of key have 8"),
}  # fmt: skip

REFUSED_NUMBERS = {
    "offsets that fall": (lambda: step(query_offsets=[0, 2, 1], context_lengths=[1, 1], table=[[0], [1]]), "query_offsets: expected to ascend from 0"),
    "offsets from 1": (lambda: step(query_offsets=[1, 2]), "query_offsets: expected to ascend from 0"),
    "no offsets": (lambda: step(query_offsets=[], context_lengths=[]), "query_offsets: expected"),
    "lengths of another count": (lambda: step(context_lengths=[1, 2]), "context_lengths: expected 1 elements"),
    "a negative length": (lambda: step(context_lengths=[-1]), r"context_lengths\[0\] is -1"),
    "a length beyond 32 bits": (lambda: step(context_lengths=[2**31]), r"context_lengths\[0\] is 2147483648, expected a 32-bit"),
    "a length of text": (lambda: step(context_lengths=["20"]), r"context_lengths\[0\] is '20'"),
    "lengths of float": (lambda: step(context_lengths=np.array([20.0])), "context_lengths: expected int32, int64 or uint32, got float64"),
    "fewer keys than new tokens": (lambda: step(query_offsets=[0, 3], context_lengths=[2]).append(pages(), rows(3), rows(3)), "context"),
    "a table with too few columns": (lambda: step(context_lengths=[33]).attend(KIND, pages(), rows(1, 8)), "table: expected 3 entries for the 33 keys of sequence 0 in pages of 16, got 2"),
    "a table with too few rows": (lambda: step(table=np.zeros((0, 2), np.int32)), "table: expected 1 rows"),
    "a table of float": (lambda: step(table=np.zeros((1, 2), F32)), "table: expected int32, uint32 or int64, got f32"),
    "rows that begin outside": (lambda: step(table=[1, 2], row_starts=[3]), r"row_starts\[0\] is 3, expected 0 to 2"),
    "rows that end outside": (lambda: step(table=[1, 2], row_starts=[1]).attend(KIND, pages(), rows(1, 8)), "table: expected 2 entries"),
    "visible of one array": (lambda: step(visible=[1]), r"visible: expected a tuple \(begin, end\)"),
    "visible of another count": (lambda: step(visible=([0, 0], [1, 1])), r"visible\[0\]: expected 1 elements"),
    "a tree of int32": (lambda: step(tree=np.zeros((1, 1), np.int32)), "tree: expected contiguous uint64"),
    "no query heads": (lambda: folio_kv.Kind(0), "q_heads: expected at least 1, got 0"),
    "heads that do not divide": (lambda: step().attend(folio_kv.Kind(3), pages(), rows(1, 3)), "q_heads"),
    "a window of 0": (lambda: folio_kv.Kind(8, window=0), "window: expected at least 1"),
    "a window of -2": (lambda: folio_kv.Kind(8, window=(-2, 0)), "window: expected sides of at least -1"),
    "a window of text": (lambda: folio_kv.Kind(8, window="7"), "window: expected a number of keys"),
    "a chunk of 0": (lambda: folio_kv.Kind(8, chunk=0), "chunk: expected at least 1"),
    "sink tokens below 0": (lambda: folio_kv.Kind(8, sink_tokens=-1), "sink_tokens: expected at least 0"),
    "a scale of 0": (lambda: folio_kv.Kind(8, scale=0.0), "scale: expected a number other than 0"),
    "a NaN softcap": (lambda: step().attend(folio_kv.Kind(8, softcap=float("nan")), pages(), rows(1, 8)), "softcap"),
    "an unknown reproducibility": (lambda: folio_kv.Kind(8, reproducible="always"), "reproducible: expected"),
    "no layers": (lambda: folio_kv.KVCache(0, 1, kv_heads=1, head_size=8), "num_layers"),
    "negative pages": (lambda: folio_kv.KVCache(1, -1, kv_heads=1, head_size=8), "num_pages"),
    "sizes whose product overflows": (lambda: folio_kv.KVCache(MOST, 2**32 - 2, MOST - 1, kv_heads=MOST, head_size=MOST), "bits|memory|expected"),
    "more than memory": (lambda: folio_kv.KVCache(1, 2**32 - 2, 4096, kv_heads=64, head_size=64), "more than memory can hold"),
    "pages without bound": (lambda: folio_kv.KVCache(1, 1, MOST, kv_heads=1, head_size=8), "page_size"),
    "an unknown dtype": (lambda: folio_kv.KVCache(1, 1, kv_heads=1, head_size=8, dtype="int3"), "dtype: expected f32, .*, got int3"),
    "values in a latent cache": (lambda: folio_kv.KVCache(1, 1, kv_heads=1, head_size=8, latent=True, v_head_size=8), "latent"),
    "a granularity without scales": (lambda: folio_kv.KVCache(1, 1, kv_heads=1, head_size=8, granularity=4), "granularity"),
    "negative threads": (lambda: folio_kv.set_num_threads(-1), "threads is -1"),
    "limits of 0": (lambda: folio_kv.Attention(KIND, pages(), batch=0, tokens=1, context=1), "batch"),
    "an unknown kernel": (lambda: folio_kv.Attention(KIND, pages(), batch=1, tokens=1, context=1, kernel="best"), "best"),
    "no parts": (lambda: folio_kv.merge([], []), "lses: expected one for each"),
    "an lse of more rows": (lambda: folio_kv.merge([rows(), rows(1)], [np.zeros((1, 2), F32), np.zeros((3, 2), F32)]), r"lses\[1\]: expected 1 rows as outs\[1\], got f32\[3, 2\]"),
    "parts that disagree": (lambda: folio_kv.merge([rows(), rows(2)], [np.zeros((1, 2), F32), np.zeros((2, 2), F32)]), "parts|shape|extent|out"),
    "parts of another shape than out": (lambda: folio_kv.merge([rows()], [np.zeros((1, 2), F32)], out=rows(0)), "out: expected the shape of outs"),
    "a copy of a page outside": (lambda: folio_kv.copy_pages([pages()], [pages()], [(0, 8, 1)]), "page"),
    "a copy of two numbers": (lambda: folio_kv.copy_pages([pages()], [pages()], [(0, 1)]), r"copies\[0\]: expected 3 numbers, got 2"),
    "a copy of a negative page": (lambda: folio_kv.copy_pages([pages()], [pages()], [(-1, 1, 1)]), r"copies\[0\]: -1 is out of range"),
    "a copy of a negative slot": (lambda: folio_kv.copy_slots([pages()], [pages()], [(-1, 1)]), "slot"),
    "a copy from no pages": (lambda: folio_kv.copy_pages(["layer"], [pages()], []), r"source\[0\]: expected Pages"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_ARRAYS)
def test_an_array_that_does_not_fit_is_named(name):
    call, message = REFUSED_ARRAYS[name]
    with pytest.raises(folio_kv.Error, match=message) as refusal:
        call()
    assert refusal.value.code in ("invalid_argument", "unsupported")


@pytest.mark.parametrize("name", REFUSED_NUMBERS)
def test_a_number_out_of_range_is_named(name):
    call, message = REFUSED_NUMBERS[name]
    with pytest.raises(folio_kv.Error, match=message):
        call()


def test_errors_are_value_errors_with_a_code():
    assert issubclass(folio_kv.Error, ValueError)
    assert issubclass(folio_kv.Unsupported, folio_kv.Error)
    assert issubclass(folio_kv.OutOfPages, folio_kv.Error)


def test_what_no_kernel_does_is_unsupported_with_its_reason():
    wide = pages(head_size=1024)
    with pytest.raises(folio_kv.Unsupported, match="head") as refusal:
        step().attend(KIND, wide, np.zeros((1, 8, 1024), F32))
    assert refusal.value.code == "unsupported"
    assert folio_kv.why_not(KIND, wide) is not None
    assert folio_kv.why_not(KIND, pages()) is None


def test_nothing_is_written_where_a_call_is_refused():
    layer = pages()
    np.from_dlpack(layer.key)[:] = 7
    with pytest.raises(folio_kv.Error):
        folio_kv.append(None, layer, rows(2), rows(2), slots=[0, 8 * 16])
    assert (np.from_dlpack(layer.key) == 7).all()


def test_planes_of_read_only_arrays_are_read_only():
    view = np.from_dlpack(read_only_pages().key)
    assert not view.flags.writeable and np.from_dlpack(pages().key).flags.writeable


def test_keys_are_not_written_where_the_attention_behind_is_refused():
    layer = pages()
    np.from_dlpack(layer.key)[:] = 7
    for q in (rows(1, 4), np.zeros((1, 8, 24), F32)):
        with pytest.raises(folio_kv.Error, match="q"):
            step()(KIND, layer, q, rows(), rows())
    assert (np.from_dlpack(layer.key) == 7).all()


def test_a_message_that_is_cut_in_the_middle_of_a_letter_is_still_text():
    for length in (2000, 2001):
        with pytest.raises(folio_kv.Error, match="reproducible"):
            folio_kv.Kind(8, reproducible="é".rjust(length % 2 + 1) * length)


def test_a_refused_rope_lets_its_table_go():
    table = np.zeros((4, 8), F32)
    before = sys.getrefcount(table)
    for _ in range(3):
        with pytest.raises(folio_kv.Error):
            folio_kv.Rope(table, positions=["first"])
    gc.collect()
    assert sys.getrefcount(table) == before


def test_padding_behind_rotated_rows_is_zero():
    once = np.full((64, 8, 64), np.nan, F32)
    del once  # numpy hands out its memory again
    out = step().rotate(np.ones((64, 8, 64), F32), q_norm=np.ones(64, F32))
    assert out[0].any() and not out[1:].any()


def test_a_layer_outside_the_cache_is_an_index_error():
    cache = folio_kv.KVCache(2, 1, kv_heads=1, head_size=8)
    assert cache[-1].head_size == 8 and len(list(cache)) == 2
    for layer in (2, -3):
        with pytest.raises(IndexError):
            cache[layer]
