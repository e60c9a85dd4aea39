# SPDX-License-Identifier: Apache-2.0
"""torch's tensors as lists of keys, sinks, biases and bytes of blocks, in its own types."""

import math
import subprocess
import sys

import pytest
import torch

import folio_kv

PAGES, SLOTS, HEADS, DIM = 6, 16, 2, 64


def rows_of(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def expected(q, key, value, lists, sinks=None, bias=None):
    """In double; lists [tokens, n] of slots, -1 for none; bias [heads, tokens, n] of the entries."""
    k, v = (x.double().reshape(-1, HEADS, DIM)[lists.clamp(min=0).long()] for x in (key, value))
    group = q.shape[1] // HEADS
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    logits = torch.einsum("thd,tnhd->thn", q.double(), k) / math.sqrt(DIM)
    if bias is not None:
        logits += bias.double().transpose(0, 1)
    logits.masked_fill_((lists < 0)[:, None], -math.inf)
    if sinks is not None:
        logits = torch.cat([logits, sinks.double().expand(len(q), -1)[..., None]], -1)
    weights = logits.softmax(-1)[..., : lists.shape[1]]
    return torch.einsum("thn,tnhd->thd", weights, v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lists_and_sinks_of_each_query_are_tensors(dtype):
    key, value, q = (
        rows_of(i, *s, HEADS, DIM) for i, s in enumerate([(PAGES, SLOTS)] * 2 + [(3,)])
    )
    q = q.repeat(1, 4, 1)
    lists = torch.tensor([[5, 90, -1, 17], [3, 3, 2, 1], [95, -1, -1, -1]], dtype=torch.int32)
    sinks = rows_of(7, 3, 8).to(dtype)
    step = folio_kv.Step([0, 2, 3], [4, 4], [[0], [1]], selected=lists)
    out = step.attend(folio_kv.Kind(8), folio_kv.Pages(key, value), q, sinks=sinks)
    torch.testing.assert_close(
        out.double(), expected(q, key, value, lists, sinks), atol=3e-6, rtol=0
    )


def test_a_list_without_entries_is_still_a_list():
    key, value, q = (
        rows_of(1, PAGES, SLOTS, HEADS, DIM),
        rows_of(2, PAGES, SLOTS, HEADS, DIM),
        rows_of(3, 1, 8, DIM),
    )
    step = folio_kv.Step([0, 1], [4], [[0]], selected=torch.empty(1, 0, dtype=torch.int32))
    assert not step.attend(folio_kv.Kind(8), folio_kv.Pages(key, value), q).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_mask_of_batch_heads_and_queries_is_a_bias(dtype):
    key, value = rows_of(1, PAGES, SLOTS, HEADS, DIM), rows_of(2, PAGES, SLOTS, HEADS, DIM)
    q, bias = rows_of(3, 4, 8, DIM), rows_of(4, 2, 1, 3, 12).to(dtype)
    step = folio_kv.Step([0, 1, 4], [9, 12], [[2], [4]])
    out = step.attend(folio_kv.Kind(8, causal=False), folio_kv.Pages(key, value), q, bias=bias)
    for sequence, (rows, keys, page) in enumerate([(slice(0, 1), 9, 2), (slice(1, 4), 12, 4)]):
        lists = (torch.arange(keys) + page * SLOTS).expand(rows.stop - rows.start, keys)
        of_rows = bias[sequence, :, : len(lists), :keys]
        one = expected(q[rows], key, value, lists, bias=of_rows)
        torch.testing.assert_close(out[rows].double(), one, atol=3e-6, rtol=0)


def test_bytes_of_blocks_are_a_tensor_of_uint8():
    data = torch.zeros(PAGES, SLOTS, HEADS, 2, 34, dtype=torch.uint8)
    data[..., :2] = torch.tensor([0.5], dtype=torch.float16).view(torch.uint8)
    data[..., 2:] = torch.arange(32, dtype=torch.uint8)
    pages = folio_kv.Pages(*[data.flatten(3)] * 2, dtype="q8_0")
    out = folio_kv.Step([0, 1], [4], [[1]]).attend(folio_kv.Kind(8), pages, torch.ones(1, 8, DIM))
    row = torch.arange(32).repeat(2) * 0.5
    torch.testing.assert_close(out, row.expand(1, 8, DIM), atol=1e-5, rtol=0)


EXECUTOR = """
import torch, folio_kv
pages = folio_kv.KVCache(1, 4, kv_heads=2, head_size=64, dtype="f32")[0]
step = folio_kv.Step([0, 40], [40], [[0, 1, 2]])
rows = torch.ones(40, 2, 64)
assert torch.allclose(step(folio_kv.Kind(2), pages, rows, rows, rows), rows)
assert folio_kv.get_executor().startswith("OpenMP"), folio_kv.get_executor()
folio_kv.set_num_threads(3)
folio_kv.set_executor("thread_pool")
assert (folio_kv.get_executor(), folio_kv.get_num_threads()) == ("thread_pool", 3)
assert torch.allclose(step(folio_kv.Kind(2), pages, rows, rows, rows), rows)
folio_kv.set_executor("auto")
assert folio_kv.get_executor().startswith("OpenMP")
"""


def test_folios_own_threads_can_be_had_beside_torch():
    subprocess.run([sys.executable, "-c", EXECUTOR], check=True, timeout=600)
