# SPDX-License-Identifier: Apache-2.0
"""Runs engines with a connector, one after another, and writes what they said.

    python vllm_store_worker.py MODELS CASES.json OUT.json

A case has `name`, `model`, `transfer` (kv_transfer_config, or null: no connector) and `rounds`:
"ask": prompts together, "turns": one after another, each the one before and more, "reset": forgets
what memory has, "settle": waits until nothing is being stored, "touch PATH": tells the test, "lost
PATH": writes how many blocks were to be loaded and did not come, "wait PATH": until the test has made
that file, "sleep SECONDS", "kill PID": a process, in the midst of what comes next.
OUT.json maps each case to its rounds' answers [[tokens, cached tokens], ...], or to {"error": text}.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from vllm_worker import OPTIONS, count_of, main, prompts_of

PATIENCE_SECONDS = 300
KILL_SECONDS = 0.2  # behind "kill"


def _answers(llm: Any, prompts: list[list[int]], more: dict[str, Any]) -> list[list[Any]]:
    from vllm import SamplingParams

    parameters = SamplingParams(**{**dict(temperature=0, max_tokens=12, ignore_eos=True), **more})
    requests = [{"prompt_token_ids": prompt} for prompt in prompts]
    outputs = llm.generate(requests, parameters, use_tqdm=False)
    return [[list(o.outputs[0].token_ids), o.num_cached_tokens] for o in outputs]


def ask(llm: Any, more: dict[str, Any]) -> list[list[Any]]:
    """Prompts that begin alike, together."""
    return _answers(llm, prompts_of([150, 190, 330, 150, 135], seed=21, prefix=130), more)


def turns(llm: Any, more: dict[str, Any]) -> list[list[Any]]:
    """A conversation: each prompt is the one before, its answer and a few tokens more."""
    said: list[list[Any]] = []
    prompt = prompts_of([100], seed=22)[0]
    for turn in range(3):
        said += _answers(llm, [prompt], more)
        prompt = prompt + said[-1][0] + prompts_of([60], seed=23 + turn)[0]
    return said


def _wait(path: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not Path(path).exists():
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.01)


def _settle(llm: Any) -> None:
    """Empty steps until the scheduler holds no block for a store."""
    core = llm.llm_engine.engine_core.engine_core
    end = time.monotonic() + PATIENCE_SECONDS
    while core.scheduler.connector.has_pending_push_work():
        if time.monotonic() > end:
            raise TimeoutError("stores do not end")
        core.step()


def _round(llm: Any, said: str, more: dict[str, Any]) -> Any:
    word, _, of = said.partition(" ")
    if word == "reset":
        assert llm.reset_prefix_cache()
    elif word == "settle":
        _settle(llm)
    elif word == "touch":
        Path(of).touch()
    elif word == "lost":
        Path(of).write_text(str(count_of(llm, "vllm:folio_lost_pages")))
    elif word == "wait":
        _wait(of)
    elif word == "sleep":
        time.sleep(float(of))
    elif word == "kill":
        threading.Timer(KILL_SECONDS, os.kill, (int(of), signal.SIGKILL)).start()
    else:
        return {"ask": ask, "turns": turns}[word](llm, more)
    return None


def run_case(case: dict[str, Any], models: Path) -> list[Any]:
    """Starts the engine of one case, and takes it down again."""
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory

    options = {**OPTIONS, "num_gpu_blocks_override": 64, **case.get("options", {})}
    if case["transfer"] is not None:
        options["kv_transfer_config"] = case["transfer"]
    llm = LLM(str(models / case["model"]), **options)
    try:
        return [_round(llm, said, case.get("sampling", {})) for said in case["rounds"]]
    finally:
        llm.llm_engine.engine_core.shutdown()
        del llm
        gc.collect()
        cleanup_dist_env_and_memory()


if __name__ == "__main__":
    main(run_case)
