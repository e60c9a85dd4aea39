# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's wrappers on folio: what FlashInfer documents, against the reference."""

import numpy as np
import pytest
import torch
from flashinfer_cases import LENGTHS, LN_2, check, of_layout, offsets, sequences
from torch_reference import Paged, assert_close, assert_lse_close, attention, paged, random

import folio_kv.flashinfer as flashinfer
from folio_kv import Error, Unsupported

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def decode(dtype=torch.float32, layout="NHD", fused=False, heads=4, page_size=16, run=None, **plan):
    keys, values = sequences(dtype)
    cache = paged(keys, values, page_size)
    q = random((len(LENGTHS), heads, 64), dtype, 5)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(0), layout)
    wrapper.plan(*cache.csr(), heads, 2, 64, page_size, q_data_type=dtype, **plan)
    out, lse = wrapper.run(q, of_layout(cache, layout, fused), return_lse=True, **(run or {}))
    return out, lse, q, [1] * len(LENGTHS), keys, values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("page_size", [1, 5, 16])
def test_decode_agrees_with_double_precision(dtype, layout, fused, page_size) -> None:
    check(*decode(dtype, layout, fused, page_size=page_size))


@pytest.mark.parametrize("heads", [2, 4, 10, 14, 32])
def test_decode_takes_any_group_of_heads(heads) -> None:
    check(*decode(heads=heads))


def test_one_plan_serves_many_layers() -> None:
    keys, values = sequences()
    caches = [paged(keys, values, 16), paged(values, keys, 16)]  # the same table, other contents
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None)
    wrapper.plan(*caches[0].csr(), 4, 2, 64, 16, data_type="float32")
    q = random((len(LENGTHS), 4, 64), torch.float32, 5)
    out = [wrapper.run(q, (cache.key, cache.value)) for cache in caches]
    check(out[0], None, q, [1] * 6, keys, values)
    check(out[1], None, q, [1] * 6, values, keys)


def test_a_wrapper_is_planned_again_each_step() -> None:
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None)
    for lengths in ([3, 40], [17], [1, 2, 3, 300]):
        keys, values = sequences(lengths=lengths)
        cache = paged(keys, values, 16)
        wrapper.plan(*cache.csr(), 4, 2, 64, 16, q_data_type=torch.float32)
        q = random((len(lengths), 4, 64), torch.float32, 5)
        out = wrapper.run(q, (cache.key, cache.value))
        check(out, None, q, [1] * len(lengths), keys, values)


def test_the_lse_is_in_base_2() -> None:
    q, k, v = torch.zeros(4, 64), torch.zeros(8, 2, 64), torch.ones(8, 2, 64)
    _, lse = flashinfer.single_decode_with_kv_cache(q, k, v, return_lse=True)
    assert torch.allclose(lse, torch.full((4,), 3.0))


def test_run_return_lse_is_run_with_return_lse() -> None:
    keys, values = sequences(lengths=[9])
    cache = paged(keys, values, 16)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None)
    wrapper.plan(*cache.csr(), 4, 2, 64, 16, q_data_type=torch.float32)
    q = random((1, 4, 64), torch.float32, 5)
    out, lse = wrapper.run_return_lse(q, (cache.key, cache.value))
    check(out, lse, q, [1], keys, values)


def test_out_and_lse_are_written_where_they_are_given() -> None:
    out = torch.empty(len(LENGTHS), 4, 64)
    lse = torch.empty(len(LENGTHS), 4)
    result = decode(run={"out": out, "lse": lse})
    assert result[0].data_ptr() == out.data_ptr() and result[1].data_ptr() == lse.data_ptr()
    check(out, lse, *result[2:])


def test_window_left_keeps_the_keys_that_far_to_the_left() -> None:
    check(*decode(window_left=13), causal=True, window=(13, -1))


def test_logits_soft_cap_bounds_the_logits() -> None:
    check(*decode(logits_soft_cap=3.0), softcap=3.0)


def test_sm_scale_q_scale_and_k_scale_multiply_the_logits() -> None:
    check(*decode(sm_scale=0.2, run={"q_scale": 0.5, "k_scale": 3.0}), scale=0.3)


def test_v_scale_multiplies_the_output() -> None:
    out, lse, q, new, keys, values = decode(run={"v_scale": 0.25})
    check(out * 4, lse, q, new, keys, values)


def test_sinks_join_the_denominator() -> None:
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    check(*decode(run={"sinks": sinks}), sinks=sinks)


@pytest.mark.parametrize("heads", [4, 6])
def test_alibi_lowers_logits_by_distance_and_the_lse_counts_queries_from_zero(heads) -> None:
    slopes = flashinfer.planned.alibi_slopes(heads)
    out, lse, q, new, keys, values = decode(heads=heads, pos_encoding_mode="ALIBI")
    check(out, None, q, new, keys, values, alibi=slopes)
    for b, n in enumerate(LENGTHS):
        k = keys[b].repeat_interleave(heads // 2, 1).double()
        logits = torch.einsum("hd,khd->hk", q[b].double(), k) / 8
        logits += slopes.double().unsqueeze(1) * torch.arange(n)
        assert_lse_close(lse[b] * LN_2, torch.logsumexp(logits, 1), torch.float32)


def test_alibi_slopes_are_powers_of_two_to_minus_8_over_the_heads() -> None:
    assert flashinfer.planned.alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert flashinfer.planned.alibi_slopes(6).tolist()[4:] == [2.0**-1, 2.0**-3]


def test_an_empty_request_gives_zero_and_minus_infinity() -> None:
    keys, values = sequences(lengths=[0, 130])
    cache = paged(keys, values, 16)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None, "NHD")
    wrapper.plan(*cache.csr(), 4, 2, 64, 16, q_data_type="float32")
    q = random((2, 4, 64), torch.float32, 5)
    out, lse = wrapper.run(q, (cache.key, cache.value), return_lse=True)
    assert torch.count_nonzero(out[0]) == 0 and bool(torch.isneginf(lse[0]).all())
    check(out, lse, q, [1, 1], keys, values)


def test_several_queries_of_a_request_are_causal_among_them() -> None:
    lengths = [3, 16, 17, 40]
    keys, values = sequences(lengths=lengths)
    cache = paged(keys, values, 16)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None, use_tensor_cores=True)
    wrapper.plan(*cache.csr(), 4, 2, 64, 16, q_data_type="float32", q_len_per_req=3)
    q = random((12, 4, 64), torch.float32, 5)
    out = wrapper.run(q, (cache.key, cache.value))
    check(out, None, q, [3] * 4, keys, values, causal=True)


def test_block_tables_and_seq_lens_replace_the_csr_table() -> None:
    keys, values = sequences()
    cache = paged(keys, values, 16)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    wrapper.plan(
        *cache.csr(), 4, 2, 64, 16, q_data_type="float32", block_tables=cache.table,
        seq_lens=lengths,
    )  # fmt: skip
    q = random((6, 4, 64), torch.float32, 5)
    check(wrapper.run(q, (cache.key, cache.value)), None, q, [1] * 6, keys, values)


@pytest.mark.parametrize("options", [{"disable_split_kv": True}, {"fixed_split_size": 128}])
def test_results_do_not_depend_on_the_batch_where_that_is_asked_for(options) -> None:
    lengths = [5000, 17, 3000]
    keys, values = sequences(lengths=lengths)
    cache = paged(keys, values, 16)
    q = random((3, 4, 64), torch.float32, 5)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None, use_tensor_cores=True)
    wrapper.plan(*cache.csr(), 4, 2, 64, 16, q_data_type="float32", **options)
    together = wrapper.run(q, (cache.key, cache.value))
    alone = Paged(cache.key, cache.value, cache.table[2:], lengths[2:])
    wrapper.plan(*alone.csr(), 4, 2, 64, 16, q_data_type="float32", **options)
    assert torch.equal(wrapper.run(q[2:], (cache.key, cache.value)), together[2:])


@pytest.mark.parametrize(
    "options, asked",
    [({}, "plan"), ({"disable_split_kv": True}, "sequence"), ({"fixed_split_size": 4}, "sequence")],
)
def test_the_kernels_are_asked_for_that(options, asked, monkeypatch) -> None:
    kinds, kind = [], flashinfer.planned.kind
    capture = lambda *a, **k: kinds.append(k) or kind(*a, **k)  # noqa: E731
    monkeypatch.setattr(flashinfer.planned, "kind", capture)
    decode(**options)
    prefill(**options)
    assert [k["reproducible"] for k in kinds] == [asked] * 2


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_an_fp8_cache_is_read_with_its_scales(dtype) -> None:
    keys, values = sequences()
    k_scale, v_scale = 0.02, 0.05
    cache = paged(keys, values, 16)
    key = (cache.key / k_scale).nan_to_num(0).to(dtype)
    value = (cache.value / v_scale).nan_to_num(0).to(dtype)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None)
    wrapper.plan(
        *cache.csr(), 4, 2, 64, 16, q_data_type=torch.bfloat16, kv_data_type=dtype,
        o_data_type=torch.float32,
    )  # fmt: skip
    q = random((6, 4, 64), torch.bfloat16, 5)
    out = wrapper.run(q, (key, value), k_scale=k_scale, v_scale=v_scale)
    back = Paged(key.float() * k_scale, value.float() * v_scale, cache.table, LENGTHS)
    keys, values = unpaged(back)
    for b in range(6):
        want, _ = attention(q[b : b + 1], keys[b], values[b])
        assert_close(out[b : b + 1].to(torch.bfloat16), want, torch.cat(values))


def unpaged(cache: Paged) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    places = [
        [(int(cache.table[b, t // cache.page_size]), t % cache.page_size) for t in range(n)]
        for b, n in enumerate(cache.lengths)
    ]
    keys = [torch.stack([cache.key[at] for at in row]) for row in places]
    return keys, [torch.stack([cache.value[at] for at in row]) for row in places]


NEW = [1, 4, 0, 17, 64, 40]  # the last has more queries than keys


def prefill(dtype=torch.float32, layout="NHD", run=None, v_dim=None, **plan):
    keys, values = sequences(dtype, v_dim=v_dim)
    cache = paged(keys, values, 16)
    q = random((sum(NEW), 4, 64), dtype, 5)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(torch.empty(0), layout)
    wrapper.plan(
        offsets(NEW), *cache.csr(), 4, 2, 64, 16, head_dim_vo=v_dim, q_data_type=dtype, **plan
    )
    out, lse = wrapper.run(q, of_layout(cache, layout, False), return_lse=True, **(run or {}))
    return out, lse, q, NEW, keys, values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("causal", [False, True])
def test_prefill_agrees_with_double_precision(dtype, layout, causal) -> None:
    check(*prefill(dtype, layout, causal=causal), causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_prefill_windows_are_aligned_to_the_last_key(causal) -> None:
    check(*prefill(causal=causal, window_left=9), causal=causal, window=(9, -1))


def test_values_may_have_a_head_dimension_of_their_own() -> None:
    check(*prefill(causal=True, v_dim=32), causal=True)


def masks() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(8)
    return [torch.rand(n, m, generator=generator) < 0.4 for n, m in zip(NEW, LENGTHS)]


def test_a_custom_mask_replaces_the_causal_one() -> None:
    flat = torch.cat([mask.flatten() for mask in masks()])
    check(*prefill(custom_mask=flat, causal=True), masks=masks())


def test_a_packed_mask_has_the_lowest_bit_first_and_begins_a_byte_per_sequence() -> None:
    packed = np.concatenate([np.packbits(m.numpy().ravel(), bitorder="little") for m in masks()])
    check(*prefill(packed_custom_mask=torch.from_numpy(packed)), masks=masks())


def test_a_custom_mask_that_is_causal_gives_the_causal_result() -> None:
    causal = [torch.ones(n, m).tril(m - n).bool() for n, m in zip(NEW, LENGTHS)]
    flat = torch.cat([mask.flatten() for mask in causal])
    masked, wanted = prefill(custom_mask=flat), prefill(causal=True)
    assert torch.allclose(masked[0], wanted[0], atol=1e-5)


def test_prefill_alibi_is_causal_and_its_lse_counts_queries_from_zero() -> None:
    out, lse, q, new, keys, values = prefill(causal=True, pos_encoding_mode="ALIBI")
    slopes = flashinfer.planned.alibi_slopes(4)
    check(out, None, q, new, keys, values, causal=True, alibi=slopes)
    token, b = sum(NEW[:3]) + 5, 3  # query 5 of 17 over 17 keys: FlashInfer's distance is its own
    logits = torch.einsum("hd,khd->hk", q[token].double(), keys[b].repeat_interleave(2, 1).double())
    logits = (logits / 8 + slopes.double().unsqueeze(1) * (torch.arange(17) - 5))[:, :6]
    assert_lse_close(lse[token] * LN_2, torch.logsumexp(logits, 1), torch.float32)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("causal", [False, True])
def test_ragged_keys_are_read_in_place(layout, causal) -> None:
    keys, values = sequences()
    k, v, q = torch.cat(keys), torch.cat(values), random((sum(NEW), 4, 64), torch.float32, 5)
    if layout == "HND":
        k, v = k.transpose(0, 1).contiguous(), v.transpose(0, 1).contiguous()
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(None, layout)
    wrapper.plan(offsets(NEW), offsets(LENGTHS), 4, 2, 64, causal=causal, q_data_type="float32")
    out, lse = wrapper.run_return_lse(q, k, v)
    check(out, lse, q, NEW, keys, values, causal=causal)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_single_prefill_is_one_sequence(layout) -> None:
    keys, values = sequences(lengths=[40])
    k, v = (x[0] if layout == "NHD" else x[0].transpose(0, 1) for x in (keys, values))
    q = random((9, 4, 64), torch.float32, 5)
    out, lse = flashinfer.single_prefill_with_kv_cache(
        q, k, v, causal=True, kv_layout=layout, return_lse=True
    )
    check(out, lse, q, [9], keys, values, causal=True)
    mask = torch.ones(9, 40).tril(31).bool()
    masked = flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask, kv_layout=layout)
    assert torch.allclose(masked, out, atol=1e-5)


PLAN_REFUSED = {
    "pos_encoding_mode": {"pos_encoding_mode": "ROPE_LLAMA"},
    "prefix_len_ptr": {"prefix_len_ptr": torch.zeros(1)},
    "token_pos_in_items_ptr": {"token_pos_in_items_ptr": torch.zeros(1)},
    "token_pos_in_items_len": {"token_pos_in_items_len": 3},
    "max_item_len_ptr": {"max_item_len_ptr": torch.zeros(1)},
    "q_data_type": {"q_data_type": torch.float8_e4m3fn},
    "o_data_type": {"o_data_type": torch.float8_e4m3fn},
}


@pytest.mark.parametrize("parameter", PLAN_REFUSED)
def test_what_folio_lacks_is_refused_by_name_when_planned(parameter) -> None:
    keys, values = sequences(lengths=[4])
    tables = (torch.tensor([0, 1], dtype=torch.int32), *paged(keys, values, 16).csr())
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(None)
    with pytest.raises(Unsupported, match=f"{parameter}="):
        wrapper.plan(*tables, 4, 2, 64, 16, **{"q_data_type": "float32"} | PLAN_REFUSED[parameter])


@pytest.mark.parametrize("options", [{"causal": False}, {"causal": True, "logits_soft_cap": 30.0}])
def test_alibi_is_refused_where_its_meaning_differs(options) -> None:
    with pytest.raises(Unsupported, match="pos_encoding_mode='ALIBI'"):
        prefill(pos_encoding_mode="ALIBI", **options)


@pytest.mark.parametrize(
    "parameter, value",
    [
        ("kv_cache_sf", (torch.zeros(1), torch.zeros(1))),
        ("skip_softmax_threshold_scale_factor", 0.5),
        ("k_scale", torch.ones(2)),
    ],
)
def test_what_folio_lacks_is_refused_by_name_when_run(parameter, value) -> None:
    with pytest.raises(Unsupported, match=f"{parameter}="):
        decode(run={parameter: value})


def test_decode_has_no_right_window() -> None:
    with pytest.raises(Unsupported, match="window_right=3"):
        decode(window_right=3)


@pytest.mark.parametrize("name", ["BatchDecode", "BatchPrefill"])
@pytest.mark.parametrize(
    "parameter, value",
    [("use_cuda_graph", True), ("backend", "trtllm-gen"), ("jit_args", ["name"])],
)
def test_what_a_wrapper_cannot_be_is_refused_by_name(name, parameter, value) -> None:
    with pytest.raises(Unsupported, match=f"{parameter}="):
        getattr(flashinfer, f"{name}WithPagedKVCacheWrapper")(None, **{parameter: value})


@pytest.mark.parametrize(
    "change, named",
    [
        ({"last_page_len": torch.tensor([17], dtype=torch.int32)}, "last_page_len.*page_size=16"),
        ({"last_page_len": torch.tensor([0], dtype=torch.int32)}, "last_page_len"),
        ({"indptr": torch.tensor([0, 3], dtype=torch.int32)}, "indices: expected 3 pages"),
        ({"indptr": torch.tensor([1, 2], dtype=torch.int32)}, "indptr.*ascend from 0"),
        ({"num_qo_heads": 5}, "num_qo_heads.*num_kv_heads=2"),
        ({"seq_lens": torch.tensor([33])}, "seq_lens"),
        ({"block_tables": torch.zeros(2, 1, dtype=torch.int32)}, "block_tables"),
        ({"q_data_type": "int4"}, "q_data_type"),
        ({"logits_soft_cap": -1.0}, "logits_soft_cap"),
        ({"pos_encoding_mode": "NOPE"}, "pos_encoding_mode"),
        ({"q_len_per_req": 30}, "q_len_per_req"),
    ],
)
def test_a_wrong_plan_is_named(change, named) -> None:
    keys, values = sequences(lengths=[20])
    indptr, indices, last = paged(keys, values, 16).csr()
    plan = {"indptr": indptr, "indices": indices, "last_page_len": last, "num_qo_heads": 4}
    plan |= {"num_kv_heads": 2, "head_dim": 64, "page_size": 16, "q_data_type": "float32"}
    with pytest.raises(Error, match=named):
        flashinfer.BatchDecodeWithPagedKVCacheWrapper(None).plan(**plan | change)


def test_run_must_match_its_plan() -> None:
    keys, values = sequences(lengths=[20])
    cache = paged(keys, values, 16)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None)
    q, kv = random((1, 4, 64), torch.float32, 5), (cache.key, cache.value)
    with pytest.raises(Error, match="plan"):
        wrapper.run(q, kv)
    wrapper.plan(*cache.csr(), 4, 2, 64, 16)
    with pytest.raises(Error, match="q_data_type=torch.float16"):
        wrapper.run(q, kv)
    wrapper.plan(*cache.csr(), 4, 1, 64, 16, q_data_type="float32")
    with pytest.raises(Error, match="num_kv_heads=1"):
        wrapper.run(q, kv)
    wrapper.plan(*cache.csr(), 4, 2, 64, 8, q_data_type="float32")
    with pytest.raises(Error, match="page_size=8"):
        wrapper.run(q, kv)
    wrapper.plan(*cache.csr(), 4, 2, 64, 16, q_data_type="float32")
    with pytest.raises(Error, match="window_left"):
        wrapper.run(q, kv, window_left=3)
    with pytest.raises(Error, match=r"q: expected \[1, 4, 64\]"):
        wrapper.run(q[:, :2], kv)
