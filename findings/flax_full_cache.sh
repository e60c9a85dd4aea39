#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/flax_full_cache.sh: Flax's attention with a cache goes on when the cache is full, each token over the last one.
# Position and count go up, nothing is raised, and the output is a number: the tokens between are simply gone from what it attends to.
. "$(dirname "$0")/support.sh"
need flax==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 scipy==1.17.1 ml_dtypes==0.6.0 opt_einsum==3.4.0 msgpack==1.2.4 \
  absl-py==2.5.1 etils==1.15.0 PyYAML==6.0.4 rich==15.0.0 Pygments==2.21.0 flatbuffers==25.12.19 filelock==4.3.1 typing_extensions==4.16.0
expect "room for 3, tokens 1 2 3 4 5: an error"
see "room for 3, tokens 1 2 3 4 5: counted 5, kept 1 2 5" <<'PYTHON'
import jax
import jax.numpy as jnp
from flax import linen

ROOM, TOKENS = 3, 5
attention = linen.MultiHeadDotProductAttention(num_heads=1, qkv_features=1, decode=True, use_bias=False)
variables = attention.init(jax.random.key(0), jnp.ones((1, ROOM, 1)))
cache, params = variables["cache"], jax.tree.map(jnp.ones_like, variables["params"])  # a key is its token
try:
    for token in range(1, TOKENS + 1):
        _, state = attention.apply({"params": params, "cache": cache}, jnp.full((1, 1, 1), float(token)), mutable=["cache"])
        cache = state["cache"]
    seen = f"counted {cache['cache_index']}, kept {' '.join(f'{key:g}' for key in cache['cached_key'].ravel())}"
except (ValueError, IndexError):
    seen = "an error"
print(f"room for {ROOM}, tokens {' '.join(str(token) for token in range(1, TOKENS + 1))}: {seen}")
PYTHON
