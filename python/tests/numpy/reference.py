# SPDX-License-Identifier: Apache-2.0
"""Attention in double precision, written for reading, and batches of skewed, permuted pages."""

import math

import numpy as np


def is_visible(kind: dict, position: int, key: int) -> bool:
    """Whether the query at `position` sees the key at position `key`, by the mask of `kind`."""
    if kind.get("causal", True) and key > position:
        return False
    window = kind.get("window")
    if window and key <= position - window and key >= kind.get("sink_tokens", 0):
        return False
    chunk = kind.get("chunk")
    return not chunk or key // chunk == position // chunk


def attention(q, k, v, position, kind, sink=None, slope=None, bias=None, positions=None):
    """One head of one query over k and v [keys, dim]: (output, lse), zeros and -inf without keys.

    positions: of the keys, for the slope; None: their indices.
    """
    logits = np.full(len(k), -math.inf)
    for j in range(len(k)):
        if not is_visible(kind, position, j):
            continue
        s = float(k[j].astype(float) @ q.astype(float)) * kind.get("scale", len(q) ** -0.5)
        cap = kind.get("softcap")
        s = cap * math.tanh(s / cap) if cap else s
        at = j if positions is None else int(positions[j])
        s -= slope * abs(position - at) if slope else 0.0
        logits[j] = s + (float(bias[j]) if bias is not None else 0.0)
    everything = logits if sink is None else np.append(logits, sink)
    top = everything.max(initial=-math.inf)
    if top == -math.inf:
        return np.zeros(v.shape[1]), -math.inf
    total = np.exp(everything - top).sum()
    weights = np.exp(logits - top) / total
    return weights @ np.nan_to_num(v.astype(float)), top + math.log(total)


def bias_row(bias, sequence, head, token, row):
    """The biases of one query: of its row in the batch or, per sequence, of its new token."""
    if bias is None:
        return None
    if bias.ndim == 3:
        return bias[head % len(bias), row]
    of_sequence = bias[sequence % len(bias)]
    return of_sequence[head % len(of_sequence), token]


class Case:
    """Sequences with cached and new tokens, in permuted pages whose dead slots are NaN.

    lengths: keys of each sequence, new tokens included; new: new tokens of each. Arrays are float32:
    k, v per sequence [keys, heads, dim]; q [tokens, q_heads, k_dim].
    """

    def __init__(self, seed, lengths, new, q_heads=8, kv_heads=2, k_dim=64, v_dim=64, page_size=16):
        rng = np.random.default_rng(seed)
        draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
        self.lengths, self.new, self.page_size = list(lengths), list(new), page_size
        self.k = [draw(n, kv_heads, k_dim) for n in lengths]
        self.v = [draw(n, kv_heads, v_dim) for n in lengths]
        self.q = draw(sum(new), q_heads, k_dim)
        self.offsets = np.concatenate([[0], np.cumsum(new)]).astype(np.int32)
        pages = [-(-n // page_size) for n in lengths]
        self.num_pages = sum(pages) + 3
        ids = iter(rng.permutation(self.num_pages))
        self.table = np.full((len(pages), max(pages) + 1), -1, np.int32)
        for b, count in enumerate(pages):
            self.table[b, :count] = [next(ids) for _ in range(count)]

    def fresh(self, rows):
        """The new tokens' rows of `self.k` or `self.v`, ragged."""
        return np.concatenate([x[len(x) - n :] for x, n in zip(rows, self.new)])

    def cached(self, rows):
        """The cached tokens' rows, ragged."""
        return np.concatenate([x[: len(x) - n] for x, n in zip(rows, self.new)])

    def cached_batch(self, folio_kv):
        """A batch whose new tokens are the cached ones: to write them."""
        before = [n - m for n, m in zip(self.lengths, self.new)]
        return folio_kv.Batch(np.concatenate([[0], np.cumsum(before)]), before, self.table)

    def expected(self, kind=None, sinks=None, alibi=None, bias=None, positions=None):
        """(out [tokens, q_heads, v_dim], lse [tokens, q_heads]) in double.

        sinks: [q_heads] or [tokens, q_heads]; bias: 3 dimensions, or 4 with sequences (or 1) first;
        positions: for alibi, [batch, keys].
        """
        kind = kind or {}
        tokens, q_heads, _ = self.q.shape
        group = q_heads // self.k[0].shape[1]
        out = np.zeros((tokens, q_heads, self.v[0].shape[2]))
        lse = np.zeros((tokens, q_heads))
        for b, (k, v) in enumerate(zip(self.k, self.v)):
            for t in range(self.new[b]):
                row = self.offsets[b] + t
                for h in range(q_heads):
                    out[row, h], lse[row, h] = attention(
                        self.q[row, h], k[:, h // group], v[:, h // group],
                        len(k) - self.new[b] + t, kind,
                        None if sinks is None else sinks[h] if np.ndim(sinks) == 1 else sinks[row, h],
                        None if alibi is None else alibi[h],
                        bias_row(bias, b, h, t, row),
                        None if positions is None else positions[b],
                    )  # fmt: skip
        return out, lse
