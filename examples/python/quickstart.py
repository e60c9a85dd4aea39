# SPDX-License-Identifier: Apache-2.0
"""The whole of folio_kv in ten lines: a pool of pages, a cache, one step of attention.

python quickstart.py
"""

import numpy as np

import folio_kv

rng = np.random.default_rng(0)


def rows(heads, tokens=20):
    """What a model's projections would give: [tokens, heads, head_size]."""
    return rng.standard_normal((tokens, heads, 64)).astype(np.float32)


prompt = list(range(20))
q, k, v = rows(8), rows(2), rows(2)

pool = folio_kv.PagePool(num_pages=64, page_size=16)
cache = folio_kv.KVCache(
    num_layers=1, num_pages=64, page_size=16, kv_heads=2, head_size=64, dtype="f32"
)
kind = folio_kv.Kind(q_heads=8)  # causal, scaled by 1 / sqrt(head_size)

sequence = pool.admit(prompt).id  # shares the pages of a known prefix
pool.reserve(sequence, 20)  # takes pages for the rest
step = pool.step([sequence], [20])  # once per step
out = step(kind, cache[0], q, k, v)  # once per layer: writes k and v, then attends
pool.commit(sequence, prompt)  # from now on others can find these tokens

# The formula, for the last token: it sees all keys.
keys, values = (x.repeat(4, axis=1) for x in (k, v))
weights = np.exp(np.einsum("hd,khd->hk", q[-1], keys) / 8)
expected = np.einsum("hk,khd->hd", weights / weights.sum(1, keepdims=True), values)
error = abs(out[-1] - expected).max()
pages = pool.stats()["used_pages"]
print(f"attention over 20 tokens in {pages} pages: largest error {error:.1e}")
print(f"a second prompt of the same tokens finds {pool.peek(prompt)} of them in the cache")
assert error < 1e-5 and pool.peek(prompt) == 16
