#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/jax_no_keys.sh: in JAX's attention a sequence of no keys attends to all of them, those behind its end.
# A query beyond its own length is zero; one whose length of keys is 0 has the mean of the whole buffer, whatever an earlier sequence
# left there, and no NaN to tell.
. "$(dirname "$0")/support.sh"
need jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 scipy==1.17.1 ml_dtypes==0.6.0 opt_einsum==3.4.0
expect "beyond the queries' length: 0; without keys: 0"
see "beyond the queries' length: 0; without keys: 2.5" <<'PYTHON'
import jax
import jax.numpy as jnp

query, keys = jnp.zeros((1, 1, 1, 8)), jnp.ones((1, 4, 1, 8))
left_behind = jnp.arange(1.0, 5.0).reshape(1, 4, 1, 1) * keys


def attend(**lengths):
    lengths = {name: jnp.array([count]) for name, count in lengths.items()}
    return float(jax.nn.dot_product_attention(query, keys, left_behind, **lengths)[0, 0, 0, 0])


beyond = attend(query_seq_lengths=0, key_value_seq_lengths=4)
print(f"beyond the queries' length: {beyond:g}; without keys: {attend(key_value_seq_lengths=0):g}")
PYTHON
