# SPDX-License-Identifier: Apache-2.0
"""newer_ggml_run.py MODEL DEVICE: a model in llama-cpp-py-sync, with folio's device or, if DEVICE is
empty, without. Logits of a prompt and steps, for each cache: `CACHE ATTENTION FILE` in each line of
the standard input, which get written as float32 rows.
"""

from __future__ import annotations

import ctypes
import pathlib
import sys

import llama_cpp_py_sync
import numpy as np
from newer_ggml import PROMPT, STEPS

ATTENTION = {"auto": -1, "off": 0, "on": 1}


def rows(model: str, cache: str, attention: str) -> np.ndarray:
    made = llama_cpp_py_sync.Llama(
        model,
        n_ctx=512,
        n_threads=1,
        flash_attn_type=ATTENTION[attention],
        type_k=cache,
        type_v=cache,
        verbose=True,
    )
    draws = np.random.default_rng(3).integers(0, made.n_vocab, PROMPT + STEPS)
    tokens = [int(token) for token in draws]
    steps = [(past, tokens[past : past + 1]) for past in range(PROMPT, PROMPT + STEPS - 1)]
    found = []
    for past, new in [(0, tokens[:PROMPT]), *steps]:
        made._eval_tokens(new, past)
        logits = made._ffi.buffer(made._lib.llama_get_logits_ith(made._ctx, -1), 4 * made.n_vocab)
        found.append(np.frombuffer(logits, np.float32).copy())
    made.close()
    return np.array(found)


def main(model: str, device: str) -> None:
    if device:
        folder = pathlib.Path(llama_cpp_py_sync.__file__).parent
        load = ctypes.CDLL(str(folder / "libggml.so.0")).ggml_backend_load
        load.restype, load.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        assert load(device.encode()), "the device is not loaded"
    for line in sys.stdin:
        cache, attention, path = line.split()
        rows(model, cache, attention).tofile(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
