# SPDX-License-Identifier: Apache-2.0
"""The reference itself, against sums written out one product at a time."""

import math

import pytest
import torch
from torch_reference import attention, paged, random


@pytest.mark.parametrize("new, keys", [(1, 5), (3, 5), (5, 3)])
def test_the_reference_is_the_sum_over_visible_keys(new: int, keys: int) -> None:
    q = random((new, 2, 3), torch.float64, 1)
    k, v = random((keys, 1, 3), torch.float64, 2), random((keys, 1, 2), torch.float64, 3)
    slopes = torch.tensor([0.5, 0.25])
    out, lse = attention(q, k, v, causal=True, window=(2, -1), softcap=2.0, alibi=slopes)
    for i in range(new):
        at = i + keys - new
        for head in range(2):
            logits = {}
            for j in range(keys):
                if j <= at and j >= at - 2:
                    dot = sum(float(q[i, head, d] * k[j, 0, d]) for d in range(3)) / math.sqrt(3)
                    logits[j] = 2 * math.tanh(dot / 2) - float(slopes[head]) * abs(at - j)
            total = sum(math.exp(x) for x in logits.values())
            for d in range(2):
                want = sum(math.exp(x) * float(v[j, 0, d]) for j, x in logits.items())
                assert float(out[i, head, d]) == pytest.approx(want / total if logits else 0.0)
            want = math.log(total) if logits else -math.inf
            assert float(lse[i, head]) == pytest.approx(want)


def test_a_sink_joins_the_denominator_alone() -> None:
    q, k, v = torch.zeros(1, 1, 1), torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    out, lse = attention(q, k, v, sinks=torch.tensor([math.log(3.0)]))
    assert float(out) == pytest.approx(0.5)
    assert float(lse) == pytest.approx(math.log(6.0))


def test_pages_hold_each_key_once_and_nan_elsewhere() -> None:
    keys = [random((m, 2, 4), torch.float32, m) for m in (5, 1, 8)]
    cache = paged(keys, keys, 4)
    assert int((~torch.isnan(cache.key[..., 0, 0])).sum()) == 14
    page, slot = int(cache.table[0, 1]), 0
    assert torch.equal(cache.key[page, slot], keys[0][4])
