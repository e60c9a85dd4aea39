# SPDX-License-Identifier: Apache-2.0
"""Runs stock engines on tiny models, one after another, and writes what they said.

    python vllm_worker.py MODELS CASES.json OUT.json

CASES.json is a list of cases; a case has `name`, `model` and optionally `options` (arguments of
`vllm.LLM`) and `scenarios` (functions of this file). OUT.json maps each case to {scenario: [per
request {tokens, logprobs, prompt_logprobs, cached}], "preemptions": n, "served": folio's table of
layers, "blocks": bytes of a block of each layer}. A case that fails is written as {"error": text}; the others go on.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One engine for all scenarios: small steps (chunked prefill beside decoding), few sequences at once
# (mixed batches), a cache that does not hold them all (preemption), blocks shared by prefix.
OPTIONS: dict[str, Any] = dict(
    dtype="float32",
    enforce_eager=True,
    max_model_len=512,
    max_num_seqs=6,
    max_num_batched_tokens=96,
    block_size=32,
    num_gpu_blocks_override=40,
    enable_prefix_caching=True,
    disable_log_stats=False,
    seed=0,
)


def prompts_of(lengths: list[int], seed: int, prefix: int = 0) -> list[list[int]]:
    """Random prompts (ids from 3 up) of these lengths; the first `prefix` ids are common."""
    draw = random.Random(seed)
    common = [draw.randrange(3, 512) for _ in range(prefix)]
    return [common + [draw.randrange(3, 512) for _ in range(n - prefix)] for n in lengths]


def _say(outputs: list[Any]) -> list[dict[str, Any]]:
    said = []
    for output in outputs:
        completion = output.outputs[0]
        chosen = [
            step[t].logprob
            for t, step in zip(completion.token_ids, completion.logprobs, strict=True)
        ]
        request = dict(
            tokens=list(completion.token_ids), logprobs=chosen, cached=output.num_cached_tokens
        )
        if output.prompt_logprobs:
            ids = output.prompt_token_ids
            request["prompt_logprobs"] = [
                step[t].logprob for t, step in zip(ids[1:], output.prompt_logprobs[1:], strict=True)
            ]
        said.append(request)
    return said


def _generate(llm: Any, prompts: list[list[int]], tokens: list[int], **more: Any) -> list[Any]:
    from vllm import SamplingParams

    params = [
        SamplingParams(temperature=0.0, max_tokens=n, ignore_eos=True, logprobs=0, **more)
        for n in tokens
    ]
    requests = [{"prompt_token_ids": prompt} for prompt in prompts]
    return llm.generate(requests, params, use_tqdm=False)


def mixed(llm: Any) -> list[dict[str, Any]]:
    """More requests than sequences at once, of very different lengths: prefill and decoding in one
    batch.
    """
    lengths = [5, 1, 33, 64, 17, 90, 2, 31]
    tokens = [24, 30, 9, 16, 3, 12, 20, 7]
    return _say(_generate(llm, prompts_of(lengths, seed=1), tokens))


def chunked(llm: Any) -> list[dict[str, Any]]:
    """Prompts that take several steps (96 tokens a step), also over the end of a window."""
    return _say(_generate(llm, prompts_of([300, 7, 211, 140], seed=2), [8, 24, 8, 12]))


def prefix(llm: Any) -> list[dict[str, Any]]:
    """Prompts with a common beginning of 130 tokens, asked one after another: later ones find its
    blocks.
    """
    said = []
    for prompt in prompts_of([150, 131, 190, 150], seed=3, prefix=130):
        said += _say(_generate(llm, [prompt], [8]))
    return said


def preempt(llm: Any) -> list[dict[str, Any]]:
    """Requests that together outgrow the cache of 40 blocks: the engine must throw some out and
    compute them again.
    """
    return _say(_generate(llm, prompts_of([200, 190, 180, 170, 160, 150], seed=4), [120] * 6))


def scored(llm: Any) -> list[dict[str, Any]]:
    """Log-probabilities of given prompts: no choice of the engine's own, so numbers compare token
    by token.
    """
    return _say(_generate(llm, prompts_of([40, 150, 270], seed=5), [4] * 3, prompt_logprobs=0))


def repetitive(llm: Any) -> list[dict[str, Any]]:
    """Prompts that repeat a phrase, which a draft by n-grams continues: several tokens a step."""
    return _say(_generate(llm, [p * 6 for p in prompts_of([9, 14, 30], seed=7)], [24] * 3))


def real_text(llm: Any) -> list[dict[str, Any]]:
    """Prompts of tools/real_weights.py, short and of 700 tokens, and the long one again, which the
    cache has.
    """
    folder = Path(llm.llm_engine.vllm_config.model_config.model)
    texts = json.loads((folder.parent / "tokens.json").read_text())
    long = texts.pop("documentation")[:700]
    texts.pop("source")
    said = _say(_generate(llm, [*texts.values(), long], [16] * (len(texts) + 1)))
    return said + _say(_generate(llm, [long], [16]))


def embedded(llm: Any) -> list[dict[str, Any]]:
    """Embeddings of prompts (encoders)."""
    prompts = [{"prompt_token_ids": p} for p in prompts_of([5, 40, 100], seed=6)]
    return [dict(embedding=o.outputs.embedding) for o in llm.embed(prompts, use_tqdm=False)]


SCENARIOS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    f.__name__: f
    for f in (mixed, chunked, prefix, preempt, scored, repetitive, real_text, embedded)
}


def count_of(llm: Any, counter: str) -> int:
    """One of vLLM's metrics."""
    return sum(int(metric.value) for metric in llm.get_metrics() if metric.name == counter)


def _served() -> dict[str, str]:
    """layer -> "folio" or the reason why it is vLLM's; empty where folio is switched off."""
    loaded = sys.modules.get("folio_kv.vllm.report")
    return dict(loaded.served_layers()) if loaded else {}


def _blocks(llm: Any) -> dict[str, int]:
    """layer -> bytes of a block of its cache, without what pads it to those of other layers."""
    layers = llm.llm_engine.vllm_config.compilation_config.static_forward_context
    caches = {n: layer.kv_cache for n, layer in layers.items() if hasattr(layer, "kv_cache")}
    return {n: c[0].numel() * c.element_size() for n, c in caches.items() if c.numel() > 0}


def run_case(case: dict[str, Any], models: Path) -> dict[str, Any]:
    """Starts the engine of one case, runs its scenarios, and takes the engine down again."""
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory

    begin = time.perf_counter()
    llm = LLM(str(models / case["model"]), **{**OPTIONS, **case.get("options", {})})
    try:
        result: dict[str, Any] = {s: SCENARIOS[s](llm) for s in case["scenarios"]}
        result["preemptions"] = count_of(llm, "vllm:num_preemptions")
        result["served"] = _served()
        result["blocks"] = _blocks(llm)
    finally:
        llm.llm_engine.engine_core.shutdown()
        del llm
        gc.collect()
        cleanup_dist_env_and_memory()
    result["seconds"] = round(time.perf_counter() - begin, 2)
    return result


def main(run: Callable[[dict[str, Any], Path], Any]) -> None:
    """A worker's command: `run` gives what stands for a case; its failure is part of the result."""
    models, cases, out = map(Path, sys.argv[1:4])
    results: dict[str, Any] = {}
    for case in json.loads(cases.read_text()):
        try:
            results[case["name"]] = run(case, models)
        except Exception:
            results[case["name"]] = {"error": traceback.format_exc()}
        out.write_text(json.dumps(results))


if __name__ == "__main__":
    main(run_case)
