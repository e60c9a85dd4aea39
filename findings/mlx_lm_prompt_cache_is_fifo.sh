#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/mlx_lm_prompt_cache_is_fifo.sh: MLX-LM's LRUPromptCache evicts what was put in first, however lately it was used.
# A prompt that every request fetches stays as old as on its first day, and goes before one that nobody has asked for since.
. "$(dirname "$0")/support.sh"
need mlx-lm==0.32.2 mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
skip_init mlx_lm
expect "room for two; put A, put B, fetch A, put C: A and C are there"
see "room for two; put A, put B, fetch A, put C: B and C are there" <<'PYTHON'
import mlx.core as mx

from mlx_lm.models.cache import KVCache, LRUPromptCache

PROMPTS = {"A": [1, 2, 3], "B": [4, 5, 6], "C": [7, 8, 9]}
prompts = LRUPromptCache(max_size=2)


def put(name):
    cache = KVCache()
    zeros = mx.zeros((1, 1, len(PROMPTS[name]), 8))
    cache.update_and_fetch(zeros, zeros)
    prompts.insert_cache("model", PROMPTS[name], [cache])


def is_there(name):
    return prompts.fetch_nearest_cache("model", PROMPTS[name] + [10])[1] == [10]


put("A")
put("B")
assert is_there("A")  # this is the fetch
put("C")
print("room for two; put A, put B, fetch A, put C: " + " and ".join(filter(is_there, PROMPTS)) + " are there")
PYTHON
