#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clients/llama_cpp/bench/prompts.py: what a prompt cache gives after a restart, and what it costs.

usage: tools/engines.py run llama_cpp clients/llama_cpp/bench/prompts.py [OPTION ...]

The model is Gemma 3 270M (tools/real_weights.py) or that of --model; folio's device computes
attention everywhere.

restart: a conversation of --tokens tokens is held, its process ends, and in a new one the next turn
comes: milliseconds until its first token, with the directory and without, each in fresh processes,
by turns. cost: a model with a directory and one without in one process answer the same new prompts
by turns; the one with the directory is charged the time until all of it is stored. Beside the time
that passes it shows the processor time of all threads, which says more where others are at work:
with --threads 1, as several wait for each other by turning.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TURN, ANSWER = 40, 32  # tokens of the next turn, of an answer
COST_PROMPT, COST_ANSWER = 512, 128


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("--model", help="a GGUF file")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--turns", type=int, default=5, help="of each kind")
    parser.add_argument("--requests", type=int, default=12, help="of each model, for the cost")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--type", type=int, default=1, help="ggml's number of the cache's type")
    parser.add_argument("--skip", default="", help='"restart" or "cost"')
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = options()
    if args.worker:
        print(json.dumps(WORKERS[args.worker.split(":")[0]](args, args.worker)), flush=True)
        return
    args.model = args.model or real_weights()
    with tempfile.TemporaryDirectory() as folder:
        environment = packages(pathlib.Path(folder))
        if args.skip != "restart":
            show_restart(args, environment, folder)
        if args.skip != "cost":
            show_cost(run(args, environment, f"cost:{folder}/cost"))


def real_weights() -> str:
    tool = [sys.executable, ROOT / "tools/real_weights.py"]
    made = subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=True)
    return f"{made.stdout.strip()}/q4_k_m.gguf"


def packages(folder: pathlib.Path) -> dict[str, str]:
    """The environment in which llama_cpp and folio_llama_cpp are found."""

    def tool(*action: str) -> pathlib.Path:
        command = [sys.executable, ROOT / "tools/llama_cpp.py", *action]
        made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return pathlib.Path(made.stdout.split()[-1])

    built = tool("make", "ggml-folio")
    package = folder / "folio_llama_cpp"
    package.symlink_to(HERE.parent / "python/folio_llama_cpp")
    paths = [str(folder), str(tool("sources").parents[1]), os.environ.get("PYTHONPATH", "")]
    found = {"PYTHONPATH": os.pathsep.join(paths), "LLAMA_CPP_LIB_PATH": str(built / "llama")}
    return {**os.environ, **found, "FOLIO_DEVICE": str(built / "libggml-folio.so")}


def run(args: argparse.Namespace, environment: dict[str, str], worker: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", worker, "--model", args.model]
    for name in ("tokens", "requests", "threads", "type"):
        command += [f"--{name}", str(getattr(args, name))]
    made = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(made.stdout.splitlines()[-1]))


def show_restart(args: argparse.Namespace, environment: dict[str, str], folder: str) -> None:
    run(args, environment, f"hold:{folder}/prompts")
    found: dict[str, list[float]] = {"with": [], "without": []}
    for _ in range(args.turns):
        found["without"].append(run(args, environment, "take_up:")["ms"])
        after = run(args, environment, f"take_up:{folder}/prompts")
        found["with"].append(after["ms"])
        print(f"  without {found['without'][-1]:.0f} ms, with {after['ms']:.0f} ms", flush=True)
    with_, without = (statistics.median(found[name]) for name in ("with", "without"))
    held = sum(file.stat().st_size for file in pathlib.Path(folder, "prompts").iterdir())
    print(
        f"restart, {after['prompt']} tokens, {after['restored']} of them restored: {with_:.0f} ms"
    )
    print(
        f"  without the directory {without:.0f} ms: {without / with_:.1f} × (files: {held} bytes)"
    )


def show_cost(found: dict[str, Any]) -> None:
    for kind in ("wall", "cpu"):
        with_, without = (found[kind][name] for name in ("with", "without"))
        pairs = statistics.median(a / b for a, b in zip(with_, without, strict=True))
        rates = [statistics.median(each) for each in (without, with_)]
        print(f"cost, {kind} time: {rates[0]:.1f} tokens/s without, {rates[1]:.1f} with: ", end="")
        print(f"{100 * (1 - rates[1] / rates[0]):.1f} % ({100 * (1 - pairs):.1f} % of pairs)")
    print(f"  medians of {len(with_)}; {found['figures']}")


# -- in processes of their own


def load(args: argparse.Namespace, cache: str = "") -> Any:
    import folio_llama_cpp

    folio_llama_cpp.library = lambda: pathlib.Path(os.environ["FOLIO_DEVICE"])
    folio_llama_cpp.enable(**({"cache": cache} if cache else {}))
    from llama_cpp import Llama

    context = args.tokens + 1024
    types = {"type_k": args.type, "type_v": args.type}
    return Llama(
        args.model,
        n_ctx=context,
        n_threads=args.threads,
        n_threads_batch=args.threads,
        verbose=False,
        **types,
    )


def prompt(model: Any, count: int, seed: int) -> list[int]:
    draw = random.Random(seed)
    words = model.n_vocab()
    return [draw.randrange(min(1000, words // 2), min(30000, words)) for _ in range(count)]


def answer(model: Any, tokens: list[int], count: int) -> float:
    """Seconds until `count` tokens are there."""
    started = time.perf_counter()
    for found, _ in enumerate(model.generate(tokens, temp=0.0), 1):
        if found == count:
            break
    return time.perf_counter() - started


def hold(args: argparse.Namespace, worker: str) -> dict[str, Any]:
    model = load(args, worker.partition(":")[2])
    answer(model, prompt(model, args.tokens, 1), ANSWER)
    model.close()
    return {}


def take_up(args: argparse.Namespace, worker: str) -> dict[str, Any]:
    """The next turn: the answer's tokens are drawn, as a client may have changed them."""
    import folio_llama_cpp

    model = load(args, worker.partition(":")[2])
    answer(model, prompt(model, 70, 2), 2)  # weights are in memory
    tokens = prompt(model, args.tokens, 1) + prompt(model, TURN, 3)
    before = folio_llama_cpp.prompt_figures(model).get("restored_tokens", 0)
    seconds = answer(model, tokens, 1)
    after = folio_llama_cpp.prompt_figures(model).get("restored_tokens", 0)
    return {"ms": 1000 * seconds, "prompt": len(tokens), "restored": int(after - before)}


def cost(args: argparse.Namespace, worker: str) -> dict[str, Any]:
    import folio_llama_cpp

    models = {"without": load(args), "with": load(args, worker.partition(":")[2])}
    store = models["with"]._folio_prompts._store
    clocks = {"wall": time.perf_counter, "cpu": time.process_time}
    rates: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in models} for kind in clocks
    }
    for turn in range(args.requests + 1):
        names = list(models) if turn % 2 else list(models)[::-1]
        for name in names:
            tokens = prompt(models[name], COST_PROMPT, 100 + turn)
            started = {kind: clock() for kind, clock in clocks.items()}
            answer(models[name], tokens, COST_ANSWER)
            while not store.collect():
                time.sleep(0.0005)
            for kind, clock in clocks.items() if turn else ():  # the first one warms
                seconds = clock() - started[kind]
                rates[kind][name].append((COST_PROMPT + COST_ANSWER) / seconds)
    return {**rates, "figures": folio_llama_cpp.prompt_figures(models["with"])}


WORKERS = {"hold": hold, "take_up": take_up, "cost": cost}

if __name__ == "__main__":
    main()
