# SPDX-License-Identifier: Apache-2.0
"""vLLM restarted: how soon the first token of a prompt comes that was served before.

    python -m folio_kv.bench.restart [--layers N] [--tokens N] [--rounds N] [--model DIR]
                                     [--redis URL] [--lmcache] [--json FILE]

Without --model: layers of Llama-3-8B's shape in bfloat16, with vLLM's dummy weights. A first engine
serves the prompt and stores it. Then engines of fresh processes take turns: stock vLLM, which
computes the prompt; vLLM with FolioConnector over the same directory; with --redis, over that
server alone, which another process has filled; with --lmcache, with LMCache's connector and server,
whose second level is a directory, both restarted. Then each serves fresh prompts, of which no store
has anything. Processes differ by some per cent (where their memory lies), more than a store costs:
so the time is told, too, that the engine's thread was in FolioConnector's calls. Medians. The page
cache may hold the files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .in_vllm import environment
from .lmcache_server import LMCacheServer, connector, let_vllm_start
from .machine import machine

LLAMA_3_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
}
FRESH_TOKENS, FRESH_OUTPUT, FRESH_PROMPTS = 512, 64, 4
LMCACHE_STORES_S = 10  # it stores behind, and drops at its end what it has not


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="folio_kv.bench.restart", description=__doc__)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=8200)  # no block ends there
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="")
    parser.add_argument("--redis", default="")
    parser.add_argument("--lmcache", action="store_true")
    parser.add_argument("--json", default="")
    return parser


def _engine(case: dict[str, Any]) -> Any:
    from vllm import LLM

    options: dict[str, Any] = dict(
        dtype="auto",
        enforce_eager=True,
        max_model_len=case["tokens"] + 512,
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        enable_prefix_caching=True,
        skip_tokenizer_init=not case["model"],
        seed=0,
    )
    if not case["model"]:
        options["load_format"] = "dummy"
    if case["lmcache_port"]:
        let_vllm_start()
        options["kv_transfer_config"] = connector(case["lmcache_port"])
    elif case["extra"]:
        options["kv_transfer_config"] = {
            "kv_connector": "FolioConnector",
            "kv_connector_module_path": "folio_kv.vllm.connector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": case["extra"],
        }
    return LLM(case["model"] or case["folder"], **options)


def _prompt(seed: int, tokens: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(10, 30000) for _ in range(tokens)]


class Stopwatch:
    """Of the calls of a class, outermost ones."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_inside = False

    def watch(self, of: type) -> None:
        """All that it defines but what is private."""
        for name, call in list(vars(of).items()):
            if not name.startswith("_") and callable(call):
                setattr(of, name, self._timed(call))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            if self._is_inside:
                return call(*arguments, **named)
            self._is_inside, begin = True, time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self._is_inside = False
                self.seconds += time.perf_counter() - begin

        return timed


def _served(llm: Any, seeds: Sequence[int], tokens: int, output: int) -> dict[str, Any]:
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0, max_tokens=output, ignore_eos=True, detokenize=False)
    prompts: list[Any] = [{"prompt_token_ids": _prompt(seed, tokens)} for seed in seeds]
    begin = time.perf_counter()
    outputs = llm.generate(prompts, parameters, use_tqdm=False)
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "cached": sum(o.num_cached_tokens or 0 for o in outputs)}


def work(case: dict[str, Any], answers: int) -> None:
    """One engine, in a process of its own: serves what each line of its input asks for."""
    calls = Stopwatch()
    if case["extra"]:
        from folio_kv.vllm.connector import FolioConnector

        calls.watch(FolioConnector)
    llm = _engine(case)
    _served(llm, [1], 64, 2)  # what an engine makes at its first steps
    with os.fdopen(answers, "w") as out:
        for line in sys.stdin:
            calls.seconds = 0.0
            said = _served(llm, **json.loads(line))
            print(json.dumps({**said, "connector": calls.seconds}), file=out, flush=True)
    llm.llm_engine.engine_core.shutdown()


def _lmcache(folder: Path) -> LMCacheServer:
    objects = folder / "lmcache"
    objects.mkdir(exist_ok=True)
    adapter = {"type": "fs_native", "base_path": str(objects)}
    return LMCacheServer(adapter, folder / "lmcache.log", ["--l1-size-gb", "4"])


class Engine:
    """A process with an engine."""

    def __init__(self, folder: Path, case: dict[str, Any]) -> None:
        more = {"OMP_WAIT_POLICY": "passive", "VLLM_CPU_KVCACHE_SPACE": "1"}
        answers, ours = os.pipe()
        module = "folio_kv.bench.restart"
        self._server = _lmcache(folder) if case["lmcache"] else None
        case["lmcache_port"] = self._server.port if self._server else 0
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "--work", json.dumps(case), str(ours)],
            env=environment(folder, **more),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(ours,),
            text=True,
        )
        os.close(ours)
        self._answers = os.fdopen(answers)

    def serve(self, seeds: Sequence[int], tokens: int, output: int) -> dict[str, Any]:
        """Prompts of `tokens` tokens each, `output` more of each: the seconds of all together."""
        assert self._process.stdin is not None
        print(
            json.dumps({"seeds": seeds, "tokens": tokens, "output": output}),
            file=self._process.stdin,
            flush=True,
        )
        line = self._answers.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"an engine failed:\n{self._log.read()[-4000:]}")
        said: dict[str, Any] = json.loads(line)
        return said

    def end(self) -> None:
        """Its stores are written when this returns."""
        assert self._process.stdin is not None
        if self._server is not None:
            time.sleep(LMCACHE_STORES_S)
        self._process.stdin.close()
        self._process.wait()
        self._answers.close()
        self._log.close()
        if self._server is not None:
            self._server.end()


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """All engines, in turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model"
        model.mkdir()
        config = {**LLAMA_3_8B, "num_hidden_layers": arguments.layers}
        (model / "config.json").write_text(json.dumps(config))
        case = {"model": arguments.model, "folder": str(model), "tokens": arguments.tokens}
        stores: dict[str, Any] = {
            "stock": None,
            "disk": {"disk": str(folder / "disk"), "disk_bytes": "8GiB", "max_store_bytes": "4GiB"},
        }
        if arguments.redis:
            stores["redis"] = {"redis": arguments.redis, "max_store_bytes": "4GiB"}
        cases = {name: {**case, "extra": of, "lmcache": False} for name, of in stores.items()}
        if arguments.lmcache:
            cases["lmcache"] = {**case, "extra": None, "lmcache": True}
        for name in list(cases)[1:]:
            _first(folder, cases[name], arguments.tokens)
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
        for turn in range(arguments.rounds):
            for name, case in cases.items():
                said = _turn(folder, case, arguments.tokens, 1000 * (turn + 1))
                print(f"{name}: {said}", flush=True)
                rows[name].append(said)
    return {"machine": machine(), "arguments": vars(arguments), "rows": rows}


def _first(folder: Path, case: dict[str, Any], tokens: int) -> None:
    """What is served once, and stored."""
    engine = Engine(folder, case)
    engine.serve([0], tokens, 1)
    engine.end()


def _turn(folder: Path, case: dict[str, Any], tokens: int, seed: int) -> dict[str, Any]:
    engine = Engine(folder, case)
    said = {"first_token": engine.serve([0], tokens, 1)}
    fresh = list(range(seed, seed + FRESH_PROMPTS))
    said["nothing_to_find"] = engine.serve(fresh, FRESH_TOKENS, FRESH_OUTPUT)
    engine.end()
    return said


def summary(result: dict[str, Any]) -> list[str]:
    """Medians and ratios."""
    rows = result["rows"]

    def seconds(what: str, name: str) -> list[float]:
        return [row[what]["seconds"] for row in rows[name]]

    def ratio(what: str, name: str) -> float:
        return statistics.median(seconds(what, "stock")) / statistics.median(seconds(what, name))

    tokens = FRESH_PROMPTS * (FRESH_TOKENS + FRESH_OUTPUT)
    lines = []
    for name in rows:
        batches = seconds("nothing_to_find", name)
        calls = [row["nothing_to_find"]["connector"] for row in rows[name]]
        lines.append(
            f"{name:7} first token {statistics.median(seconds('first_token', name)):8.3f} s, "
            f"{ratio('first_token', name):6.1f} x sooner; nothing to find: "
            f"{tokens / statistics.median(batches):7.1f} tokens/s, "
            f"{ratio('nothing_to_find', name):.3f} of stock, {sum(calls) / sum(batches):.2%} of "
            "the time in folio's calls"
        )
    return lines


def main() -> None:
    """The command."""
    if sys.argv[1:2] == ["--work"]:
        work(json.loads(sys.argv[2]), int(sys.argv[3]))
        return
    arguments = _parser().parse_args()
    result = compare(arguments)
    print(result["machine"], *summary(result), sep="\n")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
