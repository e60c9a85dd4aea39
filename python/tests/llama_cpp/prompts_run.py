# SPDX-License-Identifier: Apache-2.0
"""prompts_run.py JSON: one process of llama-cpp-python for test_prompts*.py, perhaps with a cache.

JSON: "models" ([path, options of `Llama`], side by side; among those options "variables" of the
environment while it is loaded), "cache", "bytes", "dtype" (of `enable`), "is_cold" (no prompt goes
on behind another one), and "do", a list of steps, each of which writes a line of JSON:

    ["generate", TOKENS, COUNT, MODEL]   greedy tokens of one of the models, the first unless given,
                                         and the logits that they are of
    ["shift", COUNT]                     drops the first COUNT tokens of the context, moves the others
    ["hole", FIRST, LAST]                drops the cells of tokens in the midst
    ["complete", TEXT, COUNT, LOGPROBS]  a completion, with those of the prompt where LOGPROBS is true
    ["back", COUNT, TOKENS]              goes on with TOKENS behind the first COUNT of the context
    ["abandon", TOKENS, NEXT, COUNT]     begins with TOKENS and gives up while NEXT is evaluated, by
                                         another thread; "read" says whether the context was read then
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from typing import Any
from unittest import mock

import numpy as np

import folio_llama_cpp
from folio_llama_cpp import store


def generate(model: Any, tokens: list[int], count: int) -> dict[str, Any]:
    found: list[int] = []
    logits: list[list[float]] = []
    for token in model.generate(tokens, temp=0.0):
        row = np.ctypeslib.as_array(model._ctx.get_logits_ith(-1), shape=(model.n_vocab(),))
        found.append(token)
        logits.append(row.tolist())
        if len(found) == count:
            break
    return {"tokens": found, "logits": logits}


def shift(model: Any, count: int) -> dict[str, Any]:
    """As programs do whose context is full: tokens and cells both move to the left."""
    model._ctx.kv_cache_seq_rm(0, 0, count)
    model._ctx.kv_cache_seq_shift(0, count, -1, -count)
    kept = model.input_ids[count : model.n_tokens].copy()
    model.n_tokens -= count
    model.input_ids[: model.n_tokens] = kept
    return {"held": kept.tolist()}


def back(model: Any, count: int, tokens: list[int]) -> dict[str, Any]:
    model.n_tokens = count
    model.eval(tokens)
    row = np.ctypeslib.as_array(model._ctx.get_logits_ith(-1), shape=(model.n_vocab(),))
    return {"tokens": [int(row.argmax())], "logits": [row.tolist()]}


def abandon(model: Any, tokens: list[int], following: list[int], count: int) -> dict[str, Any]:
    """As a server does when the next request interrupts one: its generator goes a little later."""
    given_up = model.generate(tokens, temp=0.0)
    next(given_up)
    prompts = getattr(model, "_folio_prompts", None)
    decode, began, ended = model._ctx.decode, threading.Event(), threading.Event()
    read: list[bool] = []

    def slow_decode(batch: Any) -> None:
        began.set()
        ended.wait(60)
        decode(batch)

    if prompts is not None:
        state = prompts._context._state
        prompts._context._state = lambda *of: read.append(prompts.is_evaluating) or state(*of)
    model._ctx.decode = slow_decode
    made: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: made.append(generate(model, following, count)))
    thread.start()
    began.wait(60)
    given_up.close()
    ended.set()
    thread.join()
    model._ctx.decode = decode
    return {**made[0], "read": any(read)}


def hole(model: Any, first: int, last: int) -> dict[str, Any]:
    model._ctx.kv_cache_seq_rm(0, first, last)
    return {}


def complete(model: Any, text: str, count: int, has_logprobs: bool) -> dict[str, Any]:
    more = {"echo": True, "logprobs": 1} if has_logprobs else {}
    made = model.create_completion(text, max_tokens=count, temperature=0.0, **more)["choices"][0]
    return {"text": made["text"], "of_tokens": (made["logprobs"] or {}).get("token_logprobs")}


def load(path: str, variables: dict[str, str] | None = None, **options: Any) -> Any:
    from llama_cpp import Llama

    with mock.patch.dict(os.environ, variables or {}):
        usual = {"n_ctx": 2048, "n_threads": 1, "n_threads_batch": 1, "verbose": False}
        return Llama(path, **usual | options)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    run = json.loads(sys.argv[1])
    store.ASK_WAIT_MS = 10_000  # what is found is what is looked at, not how soon
    if run.get("is_whole"):
        forget_layouts()
    folio_llama_cpp.enable(cache=run.get("cache"), bytes=run.get("bytes"), dtype=run.get("dtype"))
    models = [load(path, **options) for path, options in run["models"]]
    for step, *arguments in run["do"]:
        model = models[arguments.pop() if step == "generate" and len(arguments) == 3 else 0]
        if run.get("is_cold"):
            model.reset()
        made = STEPS[step](model, *arguments)
        made["figures"] = folio_llama_cpp.prompt_figures(model)
        print(json.dumps(made, default=float), flush=True)


STEPS = {
    **{"generate": generate, "hole": hole, "shift": shift, "back": back, "complete": complete},
    "abandon": abandon,
}


def forget_layouts() -> None:
    """As in a llama.cpp whose states nobody here knows."""
    from folio_llama_cpp import probe, states

    def unknown(*_: Any) -> None:
        raise states.Unknown("the test knows none")

    probe.form_of = unknown  # type: ignore[assignment]


if __name__ == "__main__":
    main()
