#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/mlx_lm_sinks_in_a_chunk.sh: the tokens that MLX-LM's rotating cache keeps for ever are hidden from most queries of a chunk.
# `max_kv_size` makes such caches. A token that comes alone sees the kept ones; of several that come at once, as in a long prompt, the mask
# counts the kept ones as the oldest of the window: the first query sees two of two, the second one, the others none.
. "$(dirname "$0")/support.sh"
need mlx-lm==0.32.2 mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
skip_init mlx_lm
expect "kept tokens that tokens 9 to 12 see, one by one: 2 2 2 2; as a chunk: 2 2 2 2"
see "kept tokens that tokens 9 to 12 see, one by one: 2 2 2 2; as a chunk: 2 1 0 0" <<'PYTHON'
import mlx.core as mx
import numpy as np

from mlx_lm.models.cache import RotatingKVCache

TOKENS, WINDOW, KEPT = 12, 6, 2


def kept_seen(chunks):
    """For each token, how many of the kept ones have a weight in its output: value i is the unit vector i."""
    cache, weights, begin = RotatingKVCache(max_size=WINDOW, keep=KEPT), [], 0
    for count in chunks:
        zeros = mx.zeros((1, 1, count, TOKENS))
        mask = cache.make_mask(count)
        keys, values = cache.update_and_fetch(zeros, mx.eye(TOKENS)[None, None, begin : begin + count])
        weights.append(np.array(mx.fast.scaled_dot_product_attention(zeros, keys, values, scale=1.0, mask=mask))[0, 0])
        begin += count
    return (np.concatenate(weights)[8:, :KEPT] > 0).sum(axis=1)


single, chunk = kept_seen([1] * TOKENS), kept_seen([1] * 8 + [4])
print(f"kept tokens that tokens 9 to 12 see, one by one: {' '.join(map(str, single))}; as a chunk: {' '.join(map(str, chunk))}")
PYTHON
