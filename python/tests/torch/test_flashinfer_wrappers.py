# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's wrappers for mixed batches, latents and shared prefixes, its older names, and masks
as bits: against the reference.
"""

import math

import numpy as np
import pytest
import torch
from flashinfer_cases import LENGTHS, LN_2, check, of_layout, offsets, sequences
from torch_reference import assert_close, assert_lse_close, attention, paged, random

import folio_kv.flashinfer as flashinfer
from folio_kv import Error, Unsupported

F32 = torch.float32
DTYPES = [torch.float32, torch.bfloat16]
NEW = [1, 3, 16, 1, 9, 33]  # of LENGTHS' tokens
SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0])


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def mixed(dtype=F32, layout="NHD", fused=False, causal=True, run=None, **plan):
    keys, values = sequences(dtype)
    cache = paged(keys, values, 16)
    indptr, indices, _ = cache.csr()
    q = random((sum(NEW), 4, 64), dtype, 5)
    wrapper = flashinfer.BatchAttention(layout)
    sizes = {"num_qo_heads": 4, "num_kv_heads": 2, "head_dim_qk": 64, "head_dim_vo": 64}
    wrapper.plan(
        offsets(NEW), indptr, indices, ints(LENGTHS), **sizes, page_size=16, causal=causal,
        q_data_type=dtype, kv_data_type=dtype, **plan,
    )  # fmt: skip
    out, lse = wrapper.run(q, of_layout(cache, layout, fused), **(run or {}))
    return out, lse, q, NEW, keys, values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_prefills_and_decodes_in_one_batch(dtype, layout, fused, causal) -> None:
    check(*mixed(dtype, layout, fused, causal), causal=causal)


def test_a_mixed_batch_takes_sinks_scales_and_a_cap() -> None:
    check(*mixed(run={"sinks": SINKS}), causal=True, sinks=SINKS)
    check(*mixed(sm_scale=0.2, run={"k_scale": 1.5}), causal=True, scale=0.3)
    check(*mixed(logits_soft_cap=3.0, run={"logits_soft_cap": 3.0}), causal=True, softcap=3.0)
    out, lse, *rest = mixed(run={"v_scale": 0.25})
    check(out * 4, lse, *rest, causal=True)


@pytest.mark.parametrize("length", [-1, 3 * 16 + 1, 2**31 - 1])
def test_lengths_that_the_pages_do_not_hold_are_refused(length) -> None:
    wrapper = flashinfer.BatchAttention()
    with pytest.raises(Error, match="BatchAttention.plan: kv_len_arr: expected lengths up to"):
        wrapper.plan(ints([0, 1]), ints([0, 3]), ints([0, 1, 2]), ints([length]), 4, 2, 64, 64, 16)


def sink_wrapper(**options):
    given = {"q_data_type": F32, "kv_data_type": F32, "head_dim_qk": 64, "head_dim_vo": 64}
    return flashinfer.BatchAttentionWithAttentionSinkWrapper(None, "NHD", **(given | options))


def sink_plan(wrapper, cache, **options):
    given = {"causal": True, "q_data_type": "float32"}
    wrapper.plan(offsets(NEW), *cache.csr(), 4, 2, 64, 16, **(given | options))


def test_the_wrapper_with_sinks_takes_them_and_the_scale_by_place() -> None:
    keys, values = sequences()
    cache = paged(keys, values, 16)
    q = random((sum(NEW), 4, 64), F32, 5)
    wrapper = sink_wrapper(window_left=0)
    sink_plan(wrapper, cache, window_left=13)
    for args, options in (
        ((SINKS,), {}),
        ((SINKS, 0.3), {"scale": 0.3}),
    ):
        out, lse = wrapper.run(q, (cache.key, cache.value), *args, return_lse=True)
        check(out, lse, q, NEW, keys, values, causal=True, window=(13, -1), sinks=SINKS, **options)


@pytest.mark.parametrize(
    ("constructor", "plan", "name"),
    [
        ({}, {"window_left": 5}, "window_left"),
        ({"window_left": 5}, {}, "window_left"),
        ({"head_dim_vo": 128}, {}, "head_dim_vo"),
        ({"kv_data_type": torch.bfloat16}, {}, "kv_data_type"),
        ({"pos_encoding_mode": "ALIBI"}, {}, "pos_encoding_mode"),
    ],
)
def test_a_plan_for_another_kernel_is_refused(constructor, plan, name) -> None:
    cache = paged(*sequences(), 16)
    wrapper = sink_wrapper(**constructor)
    with pytest.raises(Error, match=f"SinkWrapper.plan: {name}: expected the constructor's"):
        sink_plan(wrapper, cache, **plan)
    with pytest.raises(Error, match="plan: expected to be called before run"):
        wrapper.run(random((sum(NEW), 4, 64), F32, 5), (cache.key, cache.value))


def latents(joined: bool, dtype=F32, page_size=16, causal=True, run=None, heads=16):
    """Rows [ckv 64 | kpe 32] of one head, absorbed queries."""
    rows = [random((n, 1, 96), dtype, 10 + b) for b, n in enumerate(LENGTHS)]
    cache = paged(rows, rows, page_size)
    ckv, kpe = cache.key[:, :, 0, :64], cache.key[:, :, 0, 64:]
    if not joined:
        ckv, kpe = ckv.clone(), kpe.clone()
    q = random((sum(NEW), heads, 96), dtype, 5)
    indptr, indices, _ = cache.csr()
    wrapper = flashinfer.BatchMLAPagedAttentionWrapper(None)
    wrapper.plan(
        offsets(NEW), indptr, indices, ints(LENGTHS), heads, 64, 32, page_size, causal, 0.1, dtype,
        dtype,
    )  # fmt: skip
    out, lse = wrapper.run(q[..., :64], q[..., 64:], ckv, kpe, return_lse=True, **(run or {}))
    return out, lse, q, NEW, rows, [row[..., :64] for row in rows]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("page_size", [1, 16])
def test_absorbed_queries_over_latents(dtype, joined, causal, page_size) -> None:
    check(*latents(joined, dtype, page_size, causal), causal=causal, scale=0.1)


def test_the_lse_over_latents_in_base_e() -> None:
    out, lse, *rest = latents(True, run={"return_lse_base_on_e": True})
    check(out, lse / LN_2, *rest, causal=True, scale=0.1)


def test_out_and_lse_over_latents_are_written_where_they_are_given() -> None:
    out, lse = torch.empty(sum(NEW), 16, 64), torch.empty(sum(NEW), 16)
    result = latents(False, run={"out": out, "lse": lse})
    assert result[0] is out and result[1] is lse
    check(*result, causal=True, scale=0.1)


def levels(widths: list[list[int]], lengths: list[list[int]], new: list[int], causal: bool):
    """A tree of prefixes: on level l, widths[l][i] neighbouring requests share lengths[l][i]
    tokens. Returns what the wrapper gives, and each request's own keys and values.
    """
    flat = [n for level in lengths for n in level]
    keys, values = sequences(lengths=flat)
    cache = paged(keys, values, 16)
    first, tables, own = 0, [], [[] for _ in new]
    ends = np.cumsum([0, *new])
    for level, counts in zip(lengths, widths):
        rows = slice(first, first + len(level))
        indptr, indices, last = part_of(cache, rows)
        requests = np.cumsum([0, *counts])
        tables.append((ints([int(ends[r]) for r in requests]), indptr, indices, last))
        for i, (a, b) in enumerate(zip(requests, requests[1:])):
            for request in range(a, b):
                own[request].append(first + i)
        first += len(level)
    q = random((sum(new), 4, 64), F32, 5)
    wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(len(lengths), None)
    wrapper.plan(*(list(of) for of in zip(*tables)), 4, 2, 64, 16, causal=causal, q_data_type=F32)
    out = wrapper.run(q, (cache.key, cache.value))
    joined = [torch.cat([of[i] for i in parts]) for of in (keys, values) for parts in own]
    return out, None, q, new, joined[: len(new)], joined[len(new) :]


def part_of(cache, rows: slice):
    indptr, indices, last = cache.csr()
    indptr = indptr[rows.start : rows.stop + 1]
    return indptr - indptr[0], indices[int(indptr[0]) : int(indptr[-1])], last[rows]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("widths", "lengths"),
    [
        ([[4], [1, 1, 1, 1]], [[100], [17, 9, 16, 40]]),
        ([[4], [2, 2], [1, 1, 1, 1]], [[33], [16, 70], [17, 9, 16, 40]]),
        ([[1, 1, 1, 1]], [[17, 9, 16, 40]]),
        ([[3, 1], [1, 1, 1, 1]], [[48, 0], [17, 9, 16, 40]]),
    ],
)
def test_levels_of_shared_prefixes_are_one_attention(widths, lengths, causal) -> None:
    check(*levels(widths, lengths, [1, 5, 16, 2], causal), causal=causal)


def test_levels_refuse_what_counts_across_them() -> None:
    wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(1, None)
    table = [[ints([0, 1])], [ints([0, 1])], [ints([0])], [ints([3])]]
    for options, name in (
        ({"window_left": 3}, "window_left"),
        ({"pos_encoding_mode": "ALIBI"}, "pos"),
    ):
        with pytest.raises(Unsupported, match=name):
            wrapper.plan(*table, 4, 2, 64, 16, **options)
    with pytest.raises(Error, match="num_levels: expected 1 or more, got 0"):
        flashinfer.MultiLevelCascadeAttentionWrapper(0, None)


def test_a_plan_that_one_level_refuses_leaves_none() -> None:
    wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(2, None)
    table = [[ints([0, 1])] * 2, [ints([0, 1])] * 2, [ints([0])] * 2, [ints([3])] * 2]
    wrapper.plan(*table, 4, 2, 64, 16, q_data_type=F32)
    with pytest.raises(Error, match="paged_kv_last_page_len"):
        wrapper.plan(*table[:3], [ints([3]), ints([17])], 4, 2, 64, 16, q_data_type=F32)
    q, cache = random((1, 4, 64), F32, 5), random((1, 2, 16, 2, 64), F32, 6)
    with pytest.raises(Error, match="plan: expected to be called before run"):
        wrapper.run(q, cache)


def test_sinks_and_scale_of_a_run_are_of_that_run_alone() -> None:
    keys, values = sequences()
    cache = paged(keys, values, 16)
    types = {"q_data_type": F32, "kv_data_type": F32}
    wrapper = flashinfer.BatchAttentionWithAttentionSinkWrapper(
        None, head_dim_qk=64, head_dim_vo=64, **types
    )
    wrapper.plan(offsets(NEW), *cache.csr(), 4, 2, 64, 16, causal=True, **types)
    q, pair = random((sum(NEW), 4, 64), F32, 5), (cache.key, cache.value)
    before = wrapper.run(q, pair)
    assert not torch.equal(wrapper.run(q, pair, SINKS, 0.3), before)
    assert torch.equal(wrapper.run(q, pair), before)
    with pytest.raises(Error, match="sinks: expected once"):
        wrapper.run(q, pair, SINKS, sinks=SINKS)


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 100])
def test_bits_are_numpys(n, bitorder) -> None:
    x = torch.rand(n, generator=torch.Generator().manual_seed(n)) > 0.5
    expected = np.packbits(x.numpy(), bitorder=bitorder)
    assert flashinfer.packbits(x, bitorder).numpy().tolist() == expected.tolist()
    cut = ints([0, n // 3, n // 3, n])
    packed, ends = flashinfer.segment_packbits(x, cut, bitorder)
    parts = [np.packbits(part.numpy(), bitorder=bitorder) for part in x.split(cut.diff().tolist())]
    assert packed.numpy().tolist() == np.concatenate(parts).tolist()
    assert (
        ends.tolist() == [0, *np.cumsum([len(part) for part in parts])]
        and ends.dtype == torch.int32
    )


def test_segments_of_bits_are_a_packed_custom_mask() -> None:
    keys, values = sequences()
    cache = paged(keys, values, 16)
    sizes = [new * n for new, n in zip(NEW, LENGTHS)]
    mask = torch.rand(sum(sizes), generator=torch.Generator().manual_seed(1)) > 0.3
    packed, _ = flashinfer.segment_packbits(mask, offsets(sizes), "little")
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(None)
    wrapper.plan(
        offsets(NEW), *cache.csr(), 4, 2, 64, 16, packed_custom_mask=packed, q_data_type="float32"
    )
    q = random((sum(NEW), 4, 64), F32, 5)
    masks = [m.view(new, n) for m, new, n in zip(mask.split(sizes), NEW, LENGTHS)]
    check(wrapper.run(q, (cache.key, cache.value)), None, q, NEW, keys, values, masks=masks)


def test_forward_says_anew_what_attention_is() -> None:
    keys, values = sequences()
    cache = paged(keys, values, 16)
    pair = cache.key, cache.value
    q = random((sum(NEW), 4, 64), F32, 5)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(None)
    wrapper.plan(offsets(NEW), *cache.csr(), 4, 2, 64, 16, causal=True, q_data_type="float32")
    out, lse = wrapper.forward_return_lse(q, pair, causal=False, sm_scale=0.05, window_left=13)
    check(out, lse, q, NEW, keys, values, scale=0.05, window=(13, -1))
    out = wrapper.forward(q, pair, causal=True, logits_soft_cap=3.0)
    check(out, None, q, NEW, keys, values, causal=True, softcap=3.0)

    decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None)
    decode.plan(*cache.csr(), 4, 2, 64, 16, q_data_type="float32", sm_scale=7.0)
    out, lse = decode.forward_return_lse(q[:6], pair, sm_scale=0.3)
    check(out, lse, q[:6], [1] * 6, keys, values, scale=0.3)

    ragged = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(None)
    ragged.plan(offsets(NEW), offsets(LENGTHS), 4, 2, 64, q_data_type="float32")
    out, lse = ragged.forward_return_lse(q, torch.cat(keys), torch.cat(values), causal=True)
    check(out, lse, q, NEW, keys, values, causal=True)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.int8])
def test_scales_of_quantised_rows_are_used_where_rows_are_ragged(dtype) -> None:
    keys, values = sequences(lengths=[40])
    wide = 100.0 if dtype == torch.int8 else 8.0
    k, v = ((x[0] * wide / x[0].abs().max()).to(dtype) for x in (keys, values))
    q = random((5, 4, 64), F32, 5)
    want = attention(q, k.float() * 0.02, v.float() * 0.5, causal=True)
    got = flashinfer.single_prefill_with_kv_cache(
        q, k, v, causal=True, return_lse=True, k_scale=0.02, v_scale=torch.tensor(0.5)
    )
    assert_close(got[0], want[0], v.float() * 0.5)
    assert_lse_close(got[1] * LN_2, want[1], F32)
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(None)
    wrapper.plan(
        ints([0, 5]), ints([0, 40]), 4, 2, 64, causal=True, q_data_type=F32, kv_data_type=dtype
    )
    out = wrapper.run(q, k, v, k_scale=0.02, v_scale=0.5)
    assert torch.equal(out, got[0])


def test_merging_no_states_gives_no_keys() -> None:
    out, lse = flashinfer.merge_states(torch.zeros(3, 0, 4, 64), torch.zeros(3, 0, 4))
    assert out.shape == (3, 4, 64) and not out.any() and bool(torch.isneginf(lse).all())


def test_plus_infinity_is_a_state_without_keys() -> None:
    v, s = random((3, 4, 64), F32, 1), random((3, 4), F32, 2)
    nothing, empty = torch.full_like(v, math.nan), torch.full_like(s, math.inf)
    for merged in (
        flashinfer.merge_state(v, s, nothing, empty),
        flashinfer.merge_state(nothing, empty, v, s),
        flashinfer.merge_states(torch.stack([v, nothing], 1), torch.stack([s, empty], 1)),
    ):
        torch.testing.assert_close(merged[0], v)
        torch.testing.assert_close(merged[1], s)
    out, lse = flashinfer.merge_state(nothing, empty, nothing, empty)
    assert not out.any() and bool(torch.isneginf(lse).all())
