#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/jax_int4_is_not_ml_dtypes.sh: JAX's int4 is ml_dtypes' type, and its cast is not: one saturates, the other wraps.
# A quantiser written with jax.numpy and run on numpy's arrays (or the other way round) gives the largest numbers the other sign: with a
# scale of the largest magnitude by 8, or by 7.5, that is the number that matters most.
. "$(dirname "$0")/support.sh"
need jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 scipy==1.17.1 ml_dtypes==0.6.0 opt_einsum==3.4.0
expect "one type: yes; 8: jax 7, numpy 7; -9: jax -8, numpy -8; 100: jax 7, numpy 7"
see "one type: yes; 8: jax 7, numpy -8; -9: jax -8, numpy 7; 100: jax 7, numpy 4" <<'PYTHON'
import jax.numpy as jnp
import numpy as np

values = np.array([8, -9, 100], np.float32)
theirs = np.asarray(jnp.asarray(values).astype(jnp.int4))
ours = values.astype(theirs.dtype)
some = "; ".join(f"{x:g}: jax {y}, numpy {z}" for x, y, z in zip(values, theirs, ours))
print(f"one type: {'yes' if jnp.int4 == theirs.dtype == ours.dtype else 'no'}; {some}")
PYTHON
