# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's page functions and state merges on folio."""

import math

import pytest
import torch
from torch_reference import assert_close, attention, random

import folio_kv.flashinfer as flashinfer
from folio_kv import Error

LN_2 = math.log(2.0)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_batch_indices_and_positions_are_those_of_the_last_tokens() -> None:
    tokens, lengths = ints(0, 1, 3, 6, 10), ints(5, 5, 5, 5)
    batch, positions = flashinfer.get_batch_indices_positions(tokens, lengths, 10)
    assert batch.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert positions.tolist() == [4, 3, 4, 2, 3, 4, 1, 2, 3, 4]


def test_rows_behind_the_last_sequence_are_padding() -> None:
    batch, positions = flashinfer.get_batch_indices_positions(ints(0, 2), ints(9), 4)
    assert batch.tolist() == [0, 0, -1, -1] and positions.tolist()[:2] == [7, 8]


def test_sequence_lengths_are_full_pages_and_the_last() -> None:
    lengths = flashinfer.get_seq_lens(ints(0, 3, 4, 6, 8), ints(13, 8, 9, 6), 16)
    assert lengths.tolist() == [45, 8, 25, 22]


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_append_writes_each_token_to_its_place_and_nothing_else(layout, fused, dtype) -> None:
    lengths, new, page_size = [45, 8, 25, 22], [45, 1, 9, 22], 16
    indptr, last = ints(0, 3, 4, 6, 8), ints(13, 8, 9, 6)
    indices = torch.randperm(11, generator=torch.Generator().manual_seed(1))[:8].to(torch.int32)
    shape = (11, 2, page_size, 3, 64) if layout == "NHD" else (11, 2, 3, page_size, 64)
    cache = torch.full(shape, math.nan, dtype=dtype)
    k, v = random((sum(new), 3, 64), dtype, 1), random((sum(new), 3, 64), dtype, 2)
    tokens = torch.tensor([0, *new]).cumsum(0).to(torch.int32)
    batch, positions = flashinfer.get_batch_indices_positions(
        tokens, flashinfer.get_seq_lens(indptr, last, page_size), sum(new)
    )
    held = cache if fused else (cache[:, 0], cache[:, 1])
    flashinfer.append_paged_kv_cache(k, v, batch, positions, held, indices, indptr, last, layout)
    nhd = cache if layout == "NHD" else cache.transpose(2, 3)
    for t in range(sum(new)):
        b, position = int(batch[t]), int(positions[t])
        assert position >= lengths[b] - new[b]
        page = int(indices[int(indptr[b]) + position // page_size])
        assert torch.equal(nhd[page, 0, position % page_size], k[t])
        assert torch.equal(nhd[page, 1, position % page_size], v[t])
    assert int((~torch.isnan(cache)).sum()) == 2 * k.numel()


def test_padding_tokens_are_skipped() -> None:
    cache = torch.zeros(2, 2, 4, 1, 8)
    k = torch.ones(3, 1, 8)
    flashinfer.append_paged_kv_cache(
        k, k, ints(-1, 0, -1), ints(0, 1, 0), cache, ints(1), ints(0, 1), ints(4)
    )
    assert cache.sum() == 16 and cache[1, :, 1].sum() == 16


def test_rows_are_converted_to_the_caches_dtype() -> None:
    cache = torch.zeros(1, 2, 4, 1, 8, dtype=torch.float8_e4m3fn)
    k = torch.full((1, 1, 8), 1.5, dtype=torch.bfloat16)
    flashinfer.append_paged_kv_cache(k, k, ints(0), ints(2), cache, ints(0), ints(0, 1), ints(3))
    assert cache[0, 0, 2].float().tolist() == [[1.5] * 8]


def test_a_position_behind_the_sequences_pages_is_named() -> None:
    cache, k = torch.zeros(2, 2, 4, 1, 8), torch.ones(1, 1, 8)
    table = cache, ints(1), ints(0, 1), ints(4)
    with pytest.raises(Error, match="positions.*4 of sequence 0"):
        flashinfer.append_paged_kv_cache(k, k, ints(0), ints(4), *table)
    with pytest.raises(Error, match="batch_indices"):
        flashinfer.append_paged_kv_cache(k, k, ints(1), ints(0), *table)
    assert cache.sum() == 0


def test_latent_rows_go_to_both_parts_of_one_tensor() -> None:
    cache = torch.zeros(2, 4, 24)
    ckv, kpe = random((2, 16), torch.float32, 1), random((2, 8), torch.float32, 2)
    flashinfer.append_paged_mla_kv_cache(
        ckv, kpe, ints(0, 0), ints(3, 4), cache[..., :16], cache[..., 16:], ints(1, 0), ints(0, 2),
        ints(1),
    )  # fmt: skip
    assert torch.equal(cache[1, 3], torch.cat([ckv[0], kpe[0]]))
    assert torch.equal(cache[0, 0], torch.cat([ckv[1], kpe[1]]))
    assert torch.count_nonzero(cache) == 48


def states(parts: int, dtype=torch.float32):
    """Attention over each of `parts` slices of the keys (lse in base 2), and over all of them."""
    q = random((5, 4, 64), dtype, 1)
    k, v = random((30 * parts, 2, 64), dtype, 2), random((30 * parts, 2, 64), dtype, 3)
    whole, lse = attention(q, k, v)
    pieces = [attention(q, a, b) for a, b in zip(k.chunk(parts), v.chunk(parts))]
    return (
        [out.to(dtype) for out, _ in pieces],
        [(s / LN_2).float() for _, s in pieces],
        whole,
        lse / LN_2,
        v,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_two_merged_states_are_attention_over_both(dtype) -> None:
    v, s, want, want_s, values = states(2, dtype)
    out, lse = flashinfer.merge_state(v[0], s[0], v[1], s[1])
    assert out.dtype == dtype and lse.dtype == torch.float32
    assert_close(out, want, values)
    assert torch.allclose(lse.double(), want_s, atol=1e-4)


def test_many_merged_states_are_attention_over_all() -> None:
    v, s, want, want_s, values = states(7)
    out, lse = flashinfer.merge_states(torch.stack(v, 1), torch.stack(s, 1))
    assert_close(out, want, values)
    assert torch.allclose(lse.double(), want_s, atol=1e-4)


def test_a_state_without_keys_is_neutral_and_not_read() -> None:
    v, s, _, _, _ = states(1)
    nothing = torch.full_like(v[0], math.nan), torch.full_like(s[0], -math.inf)
    for pair in ((v[0], s[0], *nothing), (*nothing, v[0], s[0])):
        out, lse = flashinfer.merge_state(*pair)
        assert torch.allclose(out, v[0]) and torch.allclose(lse, s[0])
    out, lse = flashinfer.merge_state(*nothing, *nothing)
    assert torch.count_nonzero(out) == 0 and bool(torch.isneginf(lse).all())


def test_states_of_no_tokens_are_merged() -> None:
    """Memory of an empty tensor of torch is at null."""
    v, s = torch.zeros(0, 3, 4, 32), torch.zeros(0, 3, 4)
    for result in (
        flashinfer.merge_states(v, s),
        flashinfer.merge_state(v[:, 0], s[:, 0], v[:, 1], s[:, 1]),
        torch.ops.folio_kv.merge([v[:, 0], v[:, 1]], [torch.zeros(0, 4)] * 2),
    ):
        assert [tuple(x.shape) for x in result] == [(0, 4, 32), (0, 4)]


def test_a_merge_in_place_leaves_masked_tokens_alone() -> None:
    v, s, want, want_s, values = states(2)
    out, lse, mask = v[0].clone(), s[0].clone(), torch.tensor([True, False, True, True, False])
    flashinfer.merge_state_in_place(out, lse, v[1], s[1], mask)
    assert_close(out[mask], want[mask], values)
    assert torch.allclose(lse[mask].double(), want_s[mask], atol=1e-4)
    assert torch.equal(out[~mask], v[0][~mask]) and torch.equal(lse[~mask], s[0][~mask])


def test_a_shared_prefix_and_own_keys_merge_to_the_whole() -> None:
    k, v = random((50, 2, 64), torch.float32, 2), random((50, 2, 64), torch.float32, 3)
    q = random((4, 64), torch.float32, 1)
    parts = [
        flashinfer.single_decode_with_kv_cache(q, k[own], v[own], return_lse=True)
        for own in (slice(0, 33), slice(33, 50))
    ]
    (out_a, lse_a), (out_b, lse_b) = (tuple(x.unsqueeze(0) for x in part) for part in parts)
    out, lse = flashinfer.merge_state(out_a, lse_a, out_b, lse_b)
    want, want_lse = flashinfer.single_decode_with_kv_cache(q, k, v, return_lse=True)
    assert torch.allclose(out[0], want, atol=1e-5) and torch.allclose(lse[0], want_lse, atol=1e-5)


def test_states_of_other_shapes_are_named() -> None:
    v, s, _, _, _ = states(2)
    with pytest.raises(Error, match="s_b"):
        flashinfer.merge_state(v[0], s[0], v[1], s[1][:, :2])
    with pytest.raises(Error, match="v_other"):
        flashinfer.merge_state_in_place(v[0], s[0], v[1][:3], s[1])
    with pytest.raises(Error, match="mask"):
        flashinfer.merge_state_in_place(v[0], s[0], v[1], s[1], torch.ones(3))
