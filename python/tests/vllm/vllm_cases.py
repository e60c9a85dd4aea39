# SPDX-License-Identifier: Apache-2.0
"""The cases of the engine's tests: which model runs which scenarios, under which options.

`QUICK` names one case of each kind, `CASES` holds all.
"""

from __future__ import annotations

from typing import Any

_ALL = ["mixed", "chunked", "prefix", "preempt"]
_SOME = ["mixed", "chunked"]


def _case(model: str, scenarios: list[str], **options: Any) -> dict[str, Any]:
    return dict(model=model, scenarios=scenarios, options=options)


# Greedy tokens must be those of the stock engine.
EXACT: dict[str, dict[str, Any]] = {
    "llama": _case("llama", _ALL),
    "gpt_oss": _case("gpt_oss", _SOME),
    "gemma2": _case("gemma2", _SOME),
    "mistral": _case("mistral", _SOME),
    "bloom": _case("bloom", _SOME),
    # with AMX, vLLM would take AMX_MLA, which has no float32
    "deepseek": _case("deepseek", _SOME, attention_backend="CPU_MLA"),
    "qwen3": _case("qwen3", _ALL),
    "gemma3": _case("gemma3", _ALL),
    "gemma3_in_one_group": _case("gemma3", _SOME, disable_hybrid_kv_cache_manager=True),
    "gpt_oss_all": _case("gpt_oss", ["prefix", "preempt"]),
    "gemma2_all": _case("gemma2", ["prefix", "preempt"]),
    "mistral_all": _case("mistral", ["prefix"]),  # windows give blocks back: nothing to preempt
    "bloom_all": _case("bloom", ["prefix", "preempt"]),
    "llama_in_blocks_of_128": _case("llama", _SOME, block_size=128, num_gpu_blocks_override=20),
    "llama_compiled": _case("llama", ["mixed"], enforce_eager=False),
    "llama_speculating": _case(
        "llama",
        ["repetitive"],
        speculative_config=dict(method="ngram", num_speculative_tokens=3, prompt_lookup_max=3),
    ),
}

# Log-probabilities must be as near to those of the stock engine in float32.
ROUNDED: dict[str, dict[str, Any]] = {
    "llama_bf16": _case("llama", ["scored"], dtype="bfloat16"),
    "llama_f16": _case("llama", ["scored"], dtype="float16"),
    "gpt_oss_bf16": _case("gpt_oss", ["scored"], dtype="bfloat16"),
    "gemma2_bf16": _case("gemma2", ["scored"], dtype="bfloat16"),
    "bloom_bf16": _case("bloom", ["scored"], dtype="bfloat16"),
    "llama_fp8": _case("llama", ["scored"], kv_cache_dtype="fp8"),
    "llama_fp8_e5m2": _case("llama", ["scored"], kv_cache_dtype="fp8_e5m2"),
    "llama_fp8_heads": _case("llama_fp8_heads", ["scored"]),
    "gpt_oss_fp8": _case("gpt_oss", ["scored"], kv_cache_dtype="fp8"),
}

# Layers that stay vLLM's: numbers must be the stock engine's bit by bit.
UNSERVED: dict[str, dict[str, Any]] = {
    "bert": _case(
        "bert",
        ["embedded"],
        runner="pooling",
        enable_prefix_caching=False,
        max_num_batched_tokens=512,
    ),
}


def _scaled(model: str, cache_dtype: str) -> dict[str, dict[str, Any]]:
    """In chunks and with shared prefixes, and each prompt in one step of its own blocks."""
    name = f"{model}_{cache_dtype}"
    whole = dict(max_num_batched_tokens=512, enable_prefix_caching=False)
    prompts = ["chunked", "prefix"]
    return {
        name: _case(model, ["mixed", "scored", *prompts], kv_cache_dtype=cache_dtype),
        f"{name}_whole": _case(model, prompts, kv_cache_dtype=cache_dtype, **whole),
    }


# Caches that the stock engine would write beyond their end: folio alone runs these.
SCALED: dict[str, dict[str, Any]] = {
    **_scaled("llama", "int4_per_token_head"),
    **_scaled("llama", "int8_per_token_head"),
    **_scaled("llama", "fp8_per_token_head"),
    **_scaled("llama", "nvfp4"),
    **_scaled("llama_deep", "turboquant_k8v4"),
    **_scaled("gpt_oss", "int4_per_token_head"),
    **_scaled("gemma3", "nvfp4"),
}

# What these leave behind in a process (compiled code, kernels of numba) breaks the stock engine
# that would start next in it.
_LAST = ("llama_compiled", "llama_speculating")

CASES = {**EXACT, **ROUNDED, **UNSERVED, **SCALED}
QUICK = (
    "llama",
    "gpt_oss",
    "gemma2",
    "mistral",
    "bloom",
    "deepseek",
    "llama_bf16",
    "llama_fp8",
    "llama_fp8_heads",
    "bert",
    "llama_int4_per_token_head",
    "llama_int4_per_token_head_whole",
)


def reference_of(name: str) -> str:
    """The name of the float32 run of the stock engine to which a case is compared that rounds."""
    return f"{CASES[name]['model'].removesuffix('_fp8_heads')}_reference"


def plan_of(names: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the stock engine runs, and what it runs with folio, for the tests of these cases.

    The stock engine also runs the float32 cases that those of `ROUNDED` and `SCALED` are compared
    to.
    """
    twins = [f"{name}_whole" for name in names if f"{name}_whole" in SCALED]
    ordered = sorted(dict.fromkeys([*names, *twins]), key=_LAST.__contains__)
    folio = {name: CASES[name] for name in ordered}
    rounding = [name for name in ordered if name in ROUNDED or name in SCALED]
    wanted = sorted({reference_of(name) for name in rounding})
    stock = {name: _case(name.removesuffix("_reference"), ["scored"]) for name in wanted}
    both = {name: case for name, case in folio.items() if name not in SCALED}
    return {**stock, **both}, folio
