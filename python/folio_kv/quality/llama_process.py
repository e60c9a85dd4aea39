# SPDX-License-Identifier: Apache-2.0
"""llama_process.py JSON: a process of llama-cpp-python that decodes a text under several caches.

JSON: "path", "tokens" (those of the text, and the one behind them), "types" ([K, V] each, the
reference first), "scored_each", "decoded", "threads". Writes, a line of JSON each: "progress",
"refused" (a type's index and why), and "outcomes" (figures, null for those refused). It is run as a
file, by an interpreter that need not have folio_kv: numpy and llama-cpp-python alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import llama_cpp
import numpy as np
from scores import (  # type: ignore[import-not-found]  # beside this file
    Tally,
    log_probabilities,
)

PIECE = 512
# Bits of an element with its scales, of a type as ggml counts them.
BITS = {
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "q8_0": 8.5,
    "q5_1": 6,
    "q5_0": 5.5,
    "q4_1": 5,
    "q4_0": 4.5,
}
BITS["iq4_nl"] = 4.5


class Context:
    """A context of the model, with a cache of its types. Errors: ValueError."""

    def __init__(self, model: Any, keys: str, values: str, run: dict[str, Any]):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = len(run["tokens"]) + run["decoded"] + 256
        params.n_batch = params.n_ubatch = PIECE
        params.n_threads = params.n_threads_batch = run["threads"]
        params.type_k = getattr(llama_cpp, f"GGML_TYPE_{keys.upper()}")
        params.type_v = getattr(llama_cpp, f"GGML_TYPE_{values.upper()}")
        # With flash attention llama.cpp reads keys as f16: the reference has none.
        params.flash_attn_type = int(keys != "f32")
        params.swa_full = False
        self.context = llama_cpp.llama_init_from_model(model, params)
        if not self.context:
            raise ValueError(f"llama.cpp makes no context with {keys} and {values}")
        vocab = llama_cpp.llama_model_get_vocab(model)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(vocab)
        self.batch = llama_cpp.llama_batch_init(PIECE, 0, 1)
        self.tally, self.steps = Tally(), []

    def logits(self, tokens: list[int], first: int, kept: list[int]) -> np.ndarray:
        """Of those of `tokens`, which stand from position `first` on."""
        batch, wanted = self.batch, set(kept)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, first + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, i in wanted
        if status := llama_cpp.llama_decode(self.context, batch):
            raise ValueError(f"llama_decode gave {status}")
        rows = (llama_cpp.llama_get_logits_ith(self.context, i) for i in kept)
        return np.stack([np.ctypeslib.as_array(x, (self.vocabulary,)).copy() for x in rows])

    def step(self, token: int, position: int) -> int:
        begin = time.perf_counter()
        following = int(self.logits([token], position, [0]).argmax())
        self.steps.append(time.perf_counter() - begin)
        return following

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = self.tally.figures()
        if self.steps[1:]:  # the first is not timed
            found["tokens_per_second"] = 1 / statistics.median(self.steps[1:])
        return found


def score(contexts: list[Context], run: dict[str, Any]) -> None:
    tokens, each = run["tokens"], run["scored_each"]
    for at in range(0, len(tokens) - 1, PIECE):
        piece = tokens[at : min(at + PIECE, len(tokens) - 1)]
        kept = [i for i in range(len(piece)) if (at + i) % each == 0]
        targets = np.array([tokens[at + i + 1] for i in kept])
        exact = None
        for context in contexts:
            rows = context.logits(piece, at, kept)
            exact = log_probabilities(rows) if exact is None else exact
            context.tally.add(rows, exact, targets)
        say(progress=f"llama.cpp: {at + len(piece)} of {len(tokens) - 1} tokens")


def decode(contexts: list[Context], run: dict[str, Any]) -> None:
    following, first = [run["tokens"][-1]] * len(contexts), len(run["tokens"]) - 1
    for at in range(run["decoded"] + 1 if run["decoded"] else 0):
        following = [x.step(y, first + at) for x, y in zip(contexts, following)]


def elements_per_token(model: Any) -> tuple[int, int]:
    """Of keys and of values in all layers, as the model's file says."""

    def number(name: str, default: int) -> int:
        value = text(model, f"{architecture}.{name}")
        return int(value) if value else default

    architecture = text(model, "general.architecture")
    heads = number("attention.head_count", 1)
    usual = number("embedding_length", 0) // heads
    rows = number("block_count", 0) * number("attention.head_count_kv", heads)
    return rows * number("attention.key_length", usual), rows * number(
        "attention.value_length", usual
    )


def text(model: Any, name: str) -> str:
    """A value of the model's file, "" where there is none."""
    import ctypes

    buffer = ctypes.create_string_buffer(256)
    length = llama_cpp.llama_model_meta_val_str(model, name.encode(), buffer, len(buffer))
    return buffer.value.decode() if length >= 0 else ""


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    run = json.loads(sys.stdin.read())
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, None)
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(run["path"].encode(), params)
    if not model:
        say(refused=f"llama.cpp cannot load {run['path']}")
        return
    contexts: dict[int, Context] = {}
    for index, (keys, values) in enumerate(run["types"]):
        try:
            contexts[index] = Context(model, keys, values, run)
        except ValueError as error:
            say(type=index, refused=str(error))
    score(list(contexts.values()), run)
    decode(list(contexts.values()), run)
    elements = elements_per_token(model)
    outcomes = []
    for index, types in enumerate(run["types"]):
        size = sum(BITS[x] * count / 8 for x, count in zip(types, elements))
        found = contexts[index].figures() | {"bytes_per_token": size} if index in contexts else None
        outcomes.append(found)
    say(outcomes=outcomes)


if __name__ == "__main__":
    main()
