#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# findings/mlx_lm_snapshot_of_before.sh: MLX-LM 0.32 reads a prompt cache that 0.31 has saved as none at all, or fails on its form.
# The files name no version. Of one layer and no metadata the later release makes an empty list without a word, and the prompt is lost; of
# two layers it says what it could not unpack, not that the file is an older one.
. "$(dirname "$0")/support.sh"
need mlx-lm==0.32.2 mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
older mlx-lm==0.31.3
skip_init mlx_lm
expect "read again: 1 and 2 layers; saved by the release before: 1 and 2"
see "read again: 1 and 2 layers; saved by the release before: 0 and ValueError" <<'PYTHON'
import os
import subprocess
import sys

from mlx_lm.models.cache import load_prompt_cache

SAVE = """
import sys
import mlx.core as mx
from mlx_lm.models.cache import KVCache, save_prompt_cache

layers = [KVCache() for _ in range(int(sys.argv[1]))]
for layer in layers:
    layer.update_and_fetch(mx.ones((1, 1, 3, 8)), mx.ones((1, 1, 3, 8)))
save_prompt_cache(sys.argv[2], layers)
"""


def layers_read(count, folders):
    path = f"{count}.safetensors"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(folders))
    subprocess.run([sys.executable, "-c", SAVE, str(count), path], env=environment, check=True)
    try:
        return len(load_prompt_cache(path))
    except ValueError as error:
        return type(error).__name__


packages = os.environ["PYTHONPATH"]
same = [layers_read(count, [packages]) for count in (1, 2)]
before = [layers_read(count, [os.environ["OLDER"], packages]) for count in (1, 2)]
print(f"read again: {same[0]} and {same[1]} layers; saved by the release before: {before[0]} and {before[1]}")
PYTHON
