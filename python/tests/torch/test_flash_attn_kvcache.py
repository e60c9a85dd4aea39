# SPDX-License-Identifier: Apache-2.0
"""flash_attn_with_kvcache: the cache is updated in place, then read; against the reference."""

import math

import pytest
import torch
from torch_reference import assert_close, assert_lse_close, attention, paged, random, rotate

from folio_kv import Error, Unsupported
from folio_kv.flash_attn import call, flash_attn_with_kvcache

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
HEADS, KV_HEADS, DIM, ROOM = 4, 2, 64, 40
LENGTHS = [0, 1, 16, 31]


class Dense:
    """A dense cache [batch_cache, ROOM, ..] whose tokens behind each length are NaN."""

    def __init__(self, dtype=torch.float32, lengths=LENGTHS, batch_cache=4, head_major=False):
        shape = (batch_cache, KV_HEADS, ROOM, DIM)
        self.key, self.value = (random(shape, dtype, seed).transpose(1, 2) for seed in (1, 2))
        if not head_major:
            self.key, self.value = self.key.contiguous(), self.value.contiguous()
        for b, length in enumerate(lengths):
            self.key[b, length:] = self.value[b, length:] = math.nan
        self.lengths = torch.tensor(lengths, dtype=torch.int32)

    def new(self, tokens: int, seed: int = 7):
        batch = self.lengths.numel()
        q = random((batch, tokens, HEADS, DIM), self.key.dtype, seed)
        k = random((batch, tokens, KV_HEADS, DIM), self.key.dtype, seed + 1)
        v = random((batch, tokens, KV_HEADS, DIM), self.key.dtype, seed + 2)
        return q, k, v


def check(out, lse, q, keys, values, **options) -> None:
    """out [batch, new, ..] against each sequence's own keys."""
    for b in range(q.shape[0]):
        want, want_lse = attention(q[b], keys[b], values[b], **options)
        assert_close(out[b], want, values[b])
        if lse is not None:
            assert_lse_close(lse[b].T, want_lse, q.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("head_major", [False, True])
def test_new_tokens_are_written_behind_each_length_and_seen(dtype, tokens, head_major) -> None:
    cache = Dense(dtype, head_major=head_major)
    before_key = cache.key.clone()
    q, k, v = cache.new(tokens)
    out, lse = flash_attn_with_kvcache(
        q, cache.key, cache.value, k, v, cache_seqlens=cache.lengths, causal=True,
        return_softmax_lse=True,
    )  # fmt: skip
    assert lse.shape == (4, HEADS, tokens)
    for b, length in enumerate(LENGTHS):
        assert torch.equal(cache.key[b, length : length + tokens], k[b])
        assert torch.equal(cache.value[b, length : length + tokens], v[b])
        assert torch.equal(cache.key[b, :length], before_key[b, :length])
        assert bool(torch.isnan(cache.key[b, length + tokens :]).all())
    ends = [length + tokens for length in LENGTHS]
    keys = [cache.key[b, :end] for b, end in enumerate(ends)]
    values = [cache.value[b, :end] for b, end in enumerate(ends)]
    check(out, lse, q, keys, values, causal=True)


def test_without_new_tokens_the_cache_is_read_up_to_each_length() -> None:
    cache = Dense(lengths=[5, 16, 17, 40])
    q, _, _ = cache.new(2)
    out = flash_attn_with_kvcache(q, cache.key, cache.value, cache_seqlens=cache.lengths)
    keys = [cache.key[b, :n] for b, n in enumerate([5, 16, 17, 40])]
    check(out, None, q, keys, [cache.value[b, :n] for b, n in enumerate([5, 16, 17, 40])])


def test_without_lengths_the_cache_is_full() -> None:
    cache = Dense(lengths=[ROOM] * 4)
    q, _, _ = cache.new(1)
    check(flash_attn_with_kvcache(q, cache.key, cache.value), None, q, cache.key, cache.value)


def test_one_length_serves_all_sequences() -> None:
    cache = Dense(lengths=[9] * 4)
    q, _, _ = cache.new(1)
    out = flash_attn_with_kvcache(q, cache.key, cache.value, cache_seqlens=9)
    check(out, None, q, cache.key[:, :9], cache.value[:, :9])


def test_cache_batch_idx_picks_the_sequences_of_a_larger_cache() -> None:
    cache = Dense(lengths=[9] * 6, batch_cache=6)
    q, k, v = (x[:3] for x in cache.new(1))
    picked = torch.tensor([4, 0, 5], dtype=torch.int32)
    out = flash_attn_with_kvcache(
        q, cache.key, cache.value, k, v, cache_seqlens=9, cache_batch_idx=picked, causal=True
    )
    assert torch.equal(cache.key[picked.long(), 9:10], k)
    assert bool(torch.isnan(cache.key[1, 9:]).all())
    check(out, None, q, cache.key[picked.long(), :10], cache.value[picked.long(), :10])


@pytest.mark.parametrize("head_major", [False, True])
def test_cache_leftpad_is_where_each_sequence_begins(head_major) -> None:
    lengths, pads = [9, 16, 30, 12], [0, 3, 17, 12]
    cache = Dense(lengths=lengths, head_major=head_major)
    for b, pad in enumerate(pads):
        cache.key[b, :pad] = cache.value[b, :pad] = math.nan
    q, k, v = cache.new(2)
    out = flash_attn_with_kvcache(
        q, cache.key, cache.value, k, v, cache_seqlens=cache.lengths,
        cache_leftpad=torch.tensor(pads, dtype=torch.int32), causal=True,
    )  # fmt: skip
    spans = [slice(pad, length + 2) for pad, length in zip(pads, lengths)]
    keys = [cache.key[b, span] for b, span in enumerate(spans)]
    for b, length in enumerate(lengths):
        assert torch.equal(cache.key[b, length : length + 2], k[b])
    values = [cache.value[b, span] for b, span in enumerate(spans)]
    check(out, None, q, keys, values, causal=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("page_size", [1, 16, 256])
def test_a_block_table_is_written_and_read_in_place(dtype, page_size) -> None:
    keys = [random((n, KV_HEADS, DIM), dtype, n) for n in LENGTHS]
    values = [random((n, KV_HEADS, DIM), dtype, n + 50) for n in LENGTHS]
    cache = paged(keys, values, page_size, room=3)
    poisoned = int(torch.isnan(cache.key[..., 0, 0]).sum())
    q, k, v = Dense(dtype).new(3)
    out, lse = flash_attn_with_kvcache(
        q, cache.key, cache.value, k, v, cache_seqlens=torch.tensor(LENGTHS, dtype=torch.int32),
        block_table=cache.table, causal=True, return_softmax_lse=True,
    )  # fmt: skip
    assert int(torch.isnan(cache.key[..., 0, 0]).sum()) == poisoned - 4 * 3
    keys = [torch.cat([old, k[b]]) for b, old in enumerate(keys)]
    values = [torch.cat([old, v[b]]) for b, old in enumerate(values)]
    check(out, lse, q, keys, values, causal=True)


def table(rows: int, half: int, dtype=torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.rand((rows, half), generator=torch.Generator().manual_seed(3)) * 6
    return angles.cos().to(dtype), angles.sin().to(dtype)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("half", [8, DIM // 2])
@pytest.mark.parametrize("causal, window", [(True, (-1, -1)), (False, (-1, -1)), (False, (9, 1))])
def test_rotation_turns_new_keys_and_queries_at_their_positions(
    interleaved, half, causal, window
) -> None:
    cache = Dense()
    old_key = cache.key.clone()
    cos, sin = table(60, half)
    q, k, v = cache.new(3)
    out = flash_attn_with_kvcache(
        q, cache.key, cache.value, k, v, cos, sin, cache.lengths, causal=causal,
        window_size=window, rotary_interleaved=interleaved,
    )  # fmt: skip
    advances = causal or window != (-1, -1)
    for b, length in enumerate(LENGTHS):
        positions = [length, length + 1, length + 2]
        turned = rotate(k[b], cos, sin, positions, interleaved)
        assert torch.allclose(cache.key[b, length : length + 3].double(), turned, atol=1e-5)
        turned_q = rotate(q[b], cos, sin, positions if advances else [length] * 3, interleaved)
        keys = torch.cat([old_key[b, :length].double(), turned])
        want, _ = attention(
            turned_q, keys, cache.value[b, : length + 3], causal=causal, window=window
        )
        assert_close(out[b], want, v)


def test_rotation_counts_from_the_left_pad() -> None:
    cache, pad = Dense(lengths=[8] * 4), 5
    cos, sin = table(60, DIM // 2)
    q, k, v = cache.new(1)
    flash_attn_with_kvcache(
        q, cache.key, cache.value, k, v, cos, sin, 8, causal=True,
        cache_leftpad=torch.full((4,), pad, dtype=torch.int32),
    )  # fmt: skip
    turned = rotate(k[2], cos, sin, [3], interleaved=True)
    assert torch.allclose(cache.key[2, 8:9].double(), turned, atol=1e-5)


def test_rotation_tables_may_be_of_another_dtype() -> None:
    cache = Dense(torch.bfloat16)
    cos, sin = table(60, DIM // 2, torch.bfloat16)
    q, k, v = cache.new(1)
    flash_attn_with_kvcache(q, cache.key, cache.value, k, v, cos, sin, cache.lengths, causal=True)
    turned = rotate(k[1], cos, sin, [1], interleaved=True)
    assert torch.equal(cache.key[1, 1:2], turned.to(torch.bfloat16))


def test_fewer_queries_than_new_keys_stand_at_the_last_of_them() -> None:
    cache = Dense(lengths=[6] * 4)
    _, k, v = cache.new(4)
    q = random((4, 2, HEADS, DIM), torch.float32, 11)
    out = flash_attn_with_kvcache(q, cache.key, cache.value, k, v, cache_seqlens=6, causal=True)
    check(out, None, q, cache.key[:, :10], cache.value[:, :10], causal=True)


def test_a_longer_step_after_a_shorter_one_is_its_own() -> None:
    cache = Dense()
    for tokens in (1, 2, 1):
        q, k, v = cache.new(tokens, seed=20 + tokens)
        out = flash_attn_with_kvcache(
            q, cache.key, cache.value, k, v, cache_seqlens=cache.lengths, causal=True
        )
        cache.lengths = cache.lengths + tokens
        keys = [cache.key[b, :n] for b, n in enumerate(cache.lengths.tolist())]
        values = [cache.value[b, :n] for b, n in enumerate(cache.lengths.tolist())]
        check(out, None, q, keys, values, causal=True)


def test_one_split_gives_a_sequence_the_same_bits_alone_and_in_a_batch() -> None:
    generator = torch.Generator().manual_seed(1)
    key, value = (torch.randn(3, 5000, 2, 64, generator=generator) for _ in range(2))
    q = torch.randn(3, 1, 4, 64, generator=generator)
    lengths = torch.tensor([5000, 17, 3000], dtype=torch.int32)
    together = flash_attn_with_kvcache(q, key, value, cache_seqlens=lengths, num_splits=1)
    alone = flash_attn_with_kvcache(
        q[2:], key[2:], value[2:], cache_seqlens=lengths[2:], num_splits=1
    )
    assert torch.equal(together[2:], alone)


@pytest.mark.parametrize("num_splits, asked", [(0, "plan"), (1, "sequence")])
def test_one_split_asks_the_kernels_for_that(num_splits, asked, monkeypatch) -> None:
    kinds, kind = [], call.kind
    monkeypatch.setattr(call, "kind", lambda *a, **k: kinds.append(k) or kind(*a, **k))
    cache = Dense(lengths=[4] * 4)
    q, _, _ = cache.new(1)
    flash_attn_with_kvcache(q, cache.key, cache.value, cache_seqlens=4, num_splits=num_splits)
    assert kinds[0]["reproducible"] == asked


REFUSED = {
    "num_splits": {"num_splits": 4},
    "cache_batch_idx": {
        "cache_batch_idx": torch.zeros(4, dtype=torch.int32),
        "block_table": torch.zeros(4, 1, dtype=torch.int32),
    },
    "cache_leftpad": {
        "cache_leftpad": torch.zeros(4, dtype=torch.int32),
        "block_table": torch.zeros(4, 1, dtype=torch.int32),
    },
}


@pytest.mark.parametrize("parameter", REFUSED)
def test_what_folio_lacks_is_refused_by_name(parameter) -> None:
    cache = Dense(lengths=[4] * 4)
    q, _, _ = cache.new(1)
    with pytest.raises(Unsupported, match=f"{parameter}="):
        flash_attn_with_kvcache(q, cache.key, cache.value, cache_seqlens=4, **REFUSED[parameter])


@pytest.mark.parametrize(
    "change, named",
    [
        ({"cache_seqlens": None}, "cache_seqlens"),
        ({"cache_seqlens": -1}, "cache_seqlens"),
        ({"cache_seqlens": torch.zeros(3, dtype=torch.int32)}, "cache_seqlens"),
        ({"cache_seqlens": ROOM}, f"k_cache: expected room for {ROOM + 1}"),
        ({"v": None}, "v: expected k and v together"),
        ({"rotary_cos": torch.zeros(50, 8)}, "rotary_sin"),
        ({"rotary_cos": torch.zeros(4, 8), "rotary_sin": torch.zeros(4, 8)}, "rotary_cos.*5 rows"),
        ({"rotary_cos": torch.zeros(50, 8), "rotary_sin": torch.zeros(50, 9)}, "rotary_sin"),
        ({"cache_batch_idx": torch.tensor([0, 1, 2, 4])}, "cache_batch_idx"),
        ({"cache_leftpad": torch.full((4,), -1)}, "cache_leftpad"),
        ({"cache_leftpad": torch.full((4,), 9)}, "cache_seqlens"),
        ({"k_cache": torch.zeros(3, ROOM, KV_HEADS, DIM)}, "v_cache"),
        ({"block_table": torch.zeros(3, 1, dtype=torch.int32)}, "block_table"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_written(change, named) -> None:
    cache = Dense(lengths=[4] * 4)
    q, k, v = cache.new(1)
    arguments = {"q": q, "k_cache": cache.key, "v_cache": cache.value, "k": k, "v": v}
    with pytest.raises(Error, match=named):
        flash_attn_with_kvcache(**arguments | {"cache_seqlens": 4} | change)
    assert bool(torch.isnan(cache.key[:, 4:]).all())


def test_rotation_without_new_keys_has_no_meaning() -> None:
    cache = Dense(lengths=[4] * 4)
    q, _, _ = cache.new(1)
    with pytest.raises(Error, match="rotary_cos: expected k and v"):
        flash_attn_with_kvcache(
            q, cache.key, cache.value, None, None, *table(9, 8), cache_seqlens=4
        )
