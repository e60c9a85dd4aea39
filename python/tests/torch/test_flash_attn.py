# SPDX-License-Identifier: Apache-2.0
"""flash_attn_func and flash_attn_varlen_func: what flash-attn documents, against the reference."""

import math

import pytest
import torch
from torch_reference import assert_close, assert_lse_close, attention, paged, random

from folio_kv import Error, Unsupported
from folio_kv.flash_attn import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
EDGES = [0, 1, 15, 16, 17, 33, 64, 130]  # lengths around the edges of pages of 16


def offsets(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def dense(dtype=torch.float32, batch=2, new=5, keys=21, heads=4, kv_heads=2, dim=64):
    q = random((batch, new, heads, dim), dtype, 1)
    k = random((batch, keys, kv_heads, dim), dtype, 2)
    v = random((batch, keys, kv_heads, dim), dtype, 3)
    return q, k, v


def check_dense(out, lse, q, k, v, **options) -> None:
    alibi = options.pop("alibi", None)
    for b in range(q.shape[0]):
        slopes = alibi[b] if alibi is not None and alibi.dim() == 2 else alibi
        want, want_lse = attention(q[b], k[b], v[b], alibi=slopes, **options)
        assert_close(out[b], want, v)
        if lse is not None:
            assert_lse_close(lse[b].T, want_lse, q.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads, kv_heads, dim", [(4, 4, 64), (8, 2, 128), (3, 1, 80), (12, 2, 96)])
@pytest.mark.parametrize("causal", [False, True])
def test_dense_attention_agrees_with_double_precision(dtype, heads, kv_heads, dim, causal) -> None:
    q, k, v = dense(dtype, heads=heads, kv_heads=kv_heads, dim=dim)
    out, lse, _ = flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
    assert out.dtype == dtype and out.shape == q.shape
    assert lse.shape == (2, heads, 5)
    check_dense(out, lse, q, k, v, causal=causal)


def seen(new: int, keys: int, **options) -> list[list[int]]:
    """Which keys each query weighs, read off an output whose values are one-hot."""
    q, k = torch.zeros(1, new, 1, 16), torch.zeros(1, keys, 1, 16)
    v = torch.eye(16)[:keys].view(1, keys, 1, 16)
    out = flash_attn_func(q, k, v, **options)[0, :, 0]
    return [[int(w > 0) for w in row[:keys]] for row in out]


def test_a_causal_mask_is_aligned_to_the_bottom_right_corner_of_a_wide_matrix() -> None:
    assert seen(2, 5, causal=True) == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_a_causal_mask_is_aligned_to_the_bottom_right_corner_of_a_tall_matrix() -> None:
    assert seen(5, 2, causal=True) == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]


def test_a_window_reaches_left_and_right_inclusively_from_the_aligned_position() -> None:
    assert seen(3, 5, window_size=(1, 1)) == [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]


def test_a_causal_window_has_no_right_side() -> None:
    assert seen(2, 5, causal=True, window_size=(2, 3)) == [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]


def test_a_window_may_be_open_to_the_left() -> None:
    assert seen(2, 5, window_size=(-1, 0)) == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_a_window_may_be_open_to_the_right() -> None:
    assert seen(2, 5, window_size=(0, -1)) == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]


def test_a_query_that_sees_no_key_gives_zero_and_minus_infinity() -> None:
    q, k, v = dense(new=5, keys=2)
    out, lse, _ = flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert torch.count_nonzero(out[:, :3]) == 0
    assert bool(torch.isneginf(lse[:, :, :3]).all()) and bool(torch.isfinite(lse[:, :, 3:]).all())


@pytest.mark.parametrize("window", [(7, 0), (3, 4), (-1, 2), (0, 0), (6, -1)])
@pytest.mark.parametrize("causal", [False, True])
def test_windows_agree_with_double_precision(window, causal) -> None:
    q, k, v = dense(new=30, keys=45)
    out = flash_attn_func(q, k, v, causal=causal, window_size=window)
    check_dense(out, None, q, k, v, causal=causal, window=window)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softcap_bounds_the_logits(dtype) -> None:
    q, k, v = dense(dtype, new=4)
    q = q * 10
    out, lse, _ = flash_attn_func(q, k, v, softcap=5.0, return_attn_probs=True)
    check_dense(out, lse, q, k, v, softcap=5.0)


def test_softmax_scale_replaces_the_root_of_the_head_size() -> None:
    q, k, v = dense()
    check_dense(flash_attn_func(q, k, v, softmax_scale=0.3), None, q, k, v, scale=0.3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("per_sequence", [False, True])
def test_alibi_lowers_logits_by_distance(causal, per_sequence) -> None:
    q, k, v = dense(new=9, keys=20)
    slopes = random((2, 4) if per_sequence else (4,), torch.float32, 5).abs()
    out, lse, _ = flash_attn_func(
        q, k, v, causal=causal, alibi_slopes=slopes, return_attn_probs=True
    )
    check_dense(out, lse, q, k, v, causal=causal, alibi=slopes)


def test_sink_logits_join_the_denominator() -> None:
    q, k, v = dense()
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    check_dense(flash_attn_func(q, k, v, s_aux=sinks), None, q, k, v, sinks=sinks)


def test_strides_of_q_k_and_v_are_free() -> None:
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in dense())
    assert not k.is_contiguous()
    check_dense(flash_attn_func(q, k, v, causal=True), None, q, k, v, causal=True)


def test_values_may_have_a_head_dimension_of_their_own() -> None:
    q, k, _ = dense(dim=64)
    v = random((2, 21, 2, 32), torch.float32, 9)
    out = flash_attn_func(q, k, v)
    assert out.shape == (2, 5, 4, 32)
    check_dense(out, None, q, k, v)


def test_the_probabilities_place_is_empty_without_dropout() -> None:
    assert flash_attn_func(*dense(), return_attn_probs=True)[2].numel() == 0


def test_packed_qkv_is_its_three_parts() -> None:
    qkv = random((2, 9, 3, 4, 64), torch.float32, 4)
    want = flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], causal=True)
    assert torch.equal(flash_attn_qkvpacked_func(qkv, causal=True), want)


def test_packed_kv_is_its_two_parts() -> None:
    q, k, v = dense()
    assert torch.equal(
        flash_attn_kvpacked_func(q, torch.stack([k, v], 2)), flash_attn_func(q, k, v)
    )


def varlen(new: list[int], keys: list[int], dtype=torch.float32, heads=4, kv_heads=2, dim=64):
    q = random((sum(new), heads, dim), dtype, 1)
    k = random((sum(keys), kv_heads, dim), dtype, 2)
    v = random((sum(keys), kv_heads, dim), dtype, 3)
    return q, k, v


def check_varlen(out, lse, q, k, v, new, keys, **options) -> None:
    parts = zip(q.split(new), k.split(keys), v.split(keys), out.split(new))
    for b, (q_b, k_b, v_b, out_b) in enumerate(parts):
        want, want_lse = attention(q_b, k_b, v_b, **options)
        assert_close(out_b, want, v)
        if lse is not None:
            first = sum(new[:b])
            assert_lse_close(lse[:, first : first + new[b]].T, want_lse, q.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_see_their_own_keys(dtype, causal) -> None:
    new = [3, 0, 1, 16, 17, 2, 64, 1]
    q, k, v = varlen(new, EDGES, dtype)
    out, lse, _ = flash_attn_varlen_func(
        q, k, v, offsets(new), offsets(EDGES), 64, 130, causal=causal, return_attn_probs=True
    )
    assert lse.shape == (4, sum(new))
    check_varlen(out, lse, q, k, v, new, EDGES, causal=causal)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("page_size", [1, 16, 256])
def test_block_tables_of_permuted_pages_with_unassigned_entries_are_read_in_place(
    dtype, page_size
) -> None:
    new = [3, 0, 1, 16, 17, 2, 64, 1]
    q, k, v = varlen(new, EDGES, dtype)
    cache = paged(list(k.split(EDGES)), list(v.split(EDGES)), page_size)
    out, lse, _ = flash_attn_varlen_func(
        q,
        cache.key,
        cache.value,
        offsets(new),
        offsets(EDGES),
        64,
        130,
        causal=True,
        return_attn_probs=True,
        block_table=cache.table,
    )
    check_varlen(out, lse, q, k, v, new, EDGES, causal=True)


def test_packed_sequences_take_slopes_of_their_own() -> None:
    new, keys = [2, 5], [9, 5]
    q, k, v = varlen(new, keys)
    slopes = torch.tensor([[0.1, 0.2, 0.3, 0.4], [1.0, 0.5, 0.25, 0.125]])
    out = flash_attn_varlen_func(
        q, k, v, offsets(new), offsets(keys), 5, 9, causal=True, alibi_slopes=slopes
    )
    for b, (q_b, k_b, v_b) in enumerate(zip(q.split(new), k.split(keys), v.split(keys))):
        want, _ = attention(q_b, k_b, v_b, causal=True, alibi=slopes[b])
        assert_close(out.split(new)[b], want, v)


def test_packed_varlen_variants_are_their_parts() -> None:
    lengths = offsets([3, 6])
    qkv = random((9, 3, 4, 64), torch.float32, 4)
    q, k, v = qkv.unbind(1)
    want = flash_attn_varlen_func(q, k, v, lengths, lengths, 6, 6, causal=True)
    assert torch.equal(flash_attn_varlen_qkvpacked_func(qkv, lengths, 6, causal=True), want)
    kv = torch.stack([k, v], 1)
    got = flash_attn_varlen_kvpacked_func(q, kv, lengths, lengths, 6, 6, causal=True)
    assert torch.equal(got, want)


def test_dropout_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="dropout_p=0.1"):
        flash_attn_func(*dense(), dropout_p=0.1)
    with pytest.raises(Unsupported, match="dropout_p=0.1"):
        one = offsets([1])
        flash_attn_varlen_func(*varlen([1], [1]), one, one, 1, 1, dropout_p=0.1)


def test_a_gradient_is_refused() -> None:
    q, k, v = dense()
    with pytest.raises(Unsupported, match="gradient"):
        flash_attn_func(q.requires_grad_(), k, v)
    with torch.no_grad():
        flash_attn_func(q, k, v)


@pytest.mark.parametrize(
    "change, named",
    [
        ({"window_size": (-2, 0)}, "window_size"),
        ({"softcap": -1.0}, "softcap"),
        ({"alibi_slopes": torch.zeros(3)}, r"alibi_slopes.*\[4\].*\[3\]"),
        ({"alibi_slopes": torch.zeros(3, 4)}, "alibi_slopes"),
        ({"k": torch.zeros(3, 21, 2, 64)}, "k:.*got"),
        ({"v": torch.zeros(2, 20, 2, 64)}, "v:.*got"),
        ({"q": torch.zeros(5, 4, 64)}, "q:.*batch, seqlen_q"),
        ({"q": torch.zeros(2, 5, 4, 64, device="meta")}, "q=tensor.*CPU"),
        ({"q": [1.0]}, "q: expected a torch.Tensor"),
    ],
)
def test_a_wrong_argument_is_named(change, named) -> None:
    with pytest.raises(Error, match=named):
        flash_attn_func(**dict(zip("qkv", dense())) | change)


@pytest.mark.parametrize(
    "change, named",
    [
        ({"max_seqlen_q": 2}, "max_seqlen_q: expected the longest sequence, 3"),
        ({"max_seqlen_k": 8}, "max_seqlen_k"),
        ({"cu_seqlens_q": offsets([3, 2])}, "cu_seqlens_q"),
        ({"cu_seqlens_k": offsets([9, 9])}, "cu_seqlens_k"),
        ({"cu_seqlens_k": offsets([4, 4, 4])}, "cu_seqlens_k"),
        ({"cu_seqlens_q": torch.tensor([0, 4, 3])}, "cu_seqlens_q.*ascend"),
        ({"cu_seqlens_q": torch.tensor([0.0, 3.0])}, "cu_seqlens_q.*int32"),
        ({"block_table": torch.zeros(2, 1, dtype=torch.int32)}, "k:.*num_blocks"),
    ],
)
def test_a_wrong_argument_of_packed_sequences_is_named(change, named) -> None:
    arguments = dict(zip("qkv", varlen([3, 1], [9, 3])))
    arguments |= {"cu_seqlens_q": offsets([3, 1]), "cu_seqlens_k": offsets([9, 3])}
    arguments |= {"max_seqlen_q": 3, "max_seqlen_k": 9}
    with pytest.raises(Error, match=named):
        flash_attn_varlen_func(**arguments | change)


def test_an_empty_batch_gives_an_empty_output() -> None:
    q, k, v = (torch.zeros(0, 4, 2, 64) for _ in range(3))
    assert flash_attn_func(q, k, v).shape == (0, 4, 2, 64)


def test_one_key_with_logits_far_below_zero_is_the_value() -> None:
    q, k = torch.full((1, 1, 4, 64), 64.0), torch.full((1, 1, 4, 64), -64.0)
    v = random((1, 1, 4, 64), torch.float32, 1)
    out, lse, _ = flash_attn_func(q, k, v, return_attn_probs=True)
    assert torch.equal(out, v)
    assert float(lse[0, 0, 0]) == pytest.approx(-64 * 64 * 64 / math.sqrt(64), rel=1e-5)
