# SPDX-License-Identifier: Apache-2.0
"""vLLM with FOLIO_VLLM=0 and 1: a process each, timed step by step.

As a program (`python -m folio_kv.bench.in_vllm CASES.json OUT.json`) it is one such process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .machine import processors
from .model import prompts, write
from .timing import Row

_NEW = 17  # tokens generated; the first belongs to the prefill
SHAPES = [(1024, 1), (1024, 8), (8192, 1), (32768, 1)]  # (context, batch)


def run(longest: int, head_size: int, interpreter: str | None = None) -> Iterator[Row]:
    """Tokens a second of prefill and of decoding. `interpreter`: a Python that has vLLM."""
    shapes = [shape for shape in SHAPES if shape[0] <= longest]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        write(path / "model", head_size, max(context for context, _ in shapes) + _NEW)
        cases = {"model": str(path / "model"), "shapes": shapes}
        (path / "cases.json").write_text(json.dumps(cases))
        rates: dict[str, list] = {"folio": [], "vllm": []}
        for name in rates:
            _process(path, name == "folio", interpreter or sys.executable)
            rates[name].append(json.loads((path / "rates.json").read_text()))
    for shape, (context, batch) in enumerate(shapes):
        for what in "prefill", "decode":
            values = {
                name: statistics.mean(process[shape][what] for process in processes)
                for name, processes in rates.items()
            }
            yield Row("vllm", f"{what}, {batch} of {context:,}", "tokens/s", values)


def _process(folder: Path, with_folio: bool, interpreter: str) -> None:
    """One engine, which writes rates.json; its output is shown if it fails."""
    more = {"FOLIO_VLLM": str(int(with_folio)), "VLLM_CPU_KVCACHE_SPACE": "4"}
    command = [interpreter, "-m", __name__, folder / "cases.json", folder / "rates.json"]
    process = subprocess.run(
        command,
        env=environment(folder, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if process.returncode != 0:
        raise RuntimeError(f"vLLM, {with_folio=}, failed:\n{process.stdout[-4000:]}")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Of a process with vLLM, on all processors."""
    return {
        **os.environ,
        "PYTHONPATH": str(_path(folder)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(processors()),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        **more,
    }


def _path(folder: Path) -> Path:
    """Where another interpreter finds this folio_kv, and its entry point, and nothing else."""
    described = folder / "path" / "folio_kv_of_the_bench-0.dist-info"
    if described.exists():
        return described.parent
    described.mkdir(parents=True)
    (described.parent / "folio_kv").symlink_to(Path(__file__).parents[1])
    (described / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: folio_kv_of_the_bench\nVersion: 0\n"
    )
    (described / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nfolio = folio_kv.vllm:register\n"
    )
    return described.parent


def is_there(interpreter: str | None) -> bool:
    """Whether `interpreter`, or this one, can import vLLM."""
    if interpreter is None:
        return importlib.util.find_spec("vllm") is not None
    found = subprocess.run([interpreter, "-c", "import vllm"], capture_output=True)
    return found.returncode == 0


def _measure(model: str, shapes: list[tuple[int, int]]) -> list[dict[str, float]]:
    """Per shape, tokens a second until each request has a token, and of a median step after."""
    from vllm import LLM, SamplingParams

    longest = max(context for context, _ in shapes) + _NEW
    llm = LLM(
        model, load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", enforce_eager=True,
        max_model_len=longest, max_num_seqs=8, max_num_batched_tokens=2048, block_size=128,
        enable_prefix_caching=False, seed=0,
    )  # fmt: skip
    engine = llm.llm_engine

    def one(context: int, batch: int, round_: int) -> tuple[float, float]:
        params = SamplingParams(temperature=0.0, max_tokens=_NEW, ignore_eos=True, detokenize=False)
        for i, tokens in enumerate(prompts(batch, context, seed=round_)):
            name = f"{context}-{batch}-{round_}-{i}"
            engine.add_request(name, {"prompt_token_ids": tokens}, params)
        steps, begun, first = [], set(), 0.0
        begin = time.perf_counter()
        while engine.has_unfinished_requests():
            before = time.perf_counter()
            outputs = engine.step()
            after = time.perf_counter()
            if len(begun) == batch:
                steps.append(after - before)
            begun |= {o.request_id for o in outputs if o.outputs and o.outputs[0].token_ids}
            if len(begun) == batch and not first:
                first = after - begin
        return batch * context / first, batch / statistics.median(steps)

    one(64, 1, 99)
    rates = []
    for context, batch in shapes:
        rounds = [one(context, batch, r) for r in range(1 if context > 1024 else 3)]
        prefill, decode = (statistics.median(rate) for rate in zip(*rounds))
        rates.append({"prefill": prefill, "decode": decode})
    return rates


def main(arguments: list[str]) -> None:
    cases = json.loads(Path(arguments[0]).read_text())
    Path(arguments[1]).write_text(json.dumps(_measure(cases["model"], cases["shapes"])))


if __name__ == "__main__":
    main(sys.argv[1:])
