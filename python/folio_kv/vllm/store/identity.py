# SPDX-License-Identifier: Apache-2.0
"""A digest of everything on which the bytes of a block depend beside its tokens."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from folio_kv._identity import model_digest
from folio_kv._options import Options

FORMAT = "folio vllm 1"


def _weights(model: Any, load: Any, options: Options, given: str) -> str:
    """Of the weights of a model; `given` stands for them where they are not to be seen."""
    if str(load.load_format) == "dummy":
        return f"dummy {model.seed}"
    digest = model_digest(model.model, model.revision, load.download_dir)
    if not digest and not given:
        expected = (
            f"a text that stands for the weights of {model.model!r}, which lie at no path here"
        )
        raise options.wrong("model", expected, None)
    return f"{digest} {given}"


def _configuration(model: Any) -> list[str]:
    """Of the model as it was loaded: with what was given instead of what its files say."""
    told = {key: of for key, of in model.hf_config.to_dict().items() if key != "_name_or_path"}
    text = json.dumps(told, default=str, skipkeys=True)
    # Phi-3's kind of rotation is one for contexts beyond the trained length, another up to it.
    return [text, str(model.max_model_len) if "longrope" in text else ""]


def _draft(vllm_config: Any, options: Options, given: str) -> list[Any]:
    """Its layers have blocks beside the model's."""
    speculative = vllm_config.speculative_config
    draft = getattr(speculative, "draft_model_config", None)
    if draft is None:
        return []
    load = getattr(speculative, "draft_load_config", None) or vllm_config.load_config
    return [str(speculative.method), _weights(draft, load, options, given), _configuration(draft)]


def _layouts(kv_caches: dict[str, Any]) -> dict[str, Any]:
    """Of each layer how a block lies in memory."""
    out = {}
    for name, cache in kv_caches.items():
        tensors = cache if isinstance(cache, list | tuple) else [cache]
        out[name] = [[str(t.dtype), list(t.shape[1:]), list(t.stride())] for t in tensors]
    return out


def _attention(vllm_config: Any) -> dict[str, str]:
    """Who writes the blocks of each layer: back ends place rows in ways of their own."""
    layers = vllm_config.compilation_config.static_forward_context
    out = {}
    for name, layer in layers.items():
        kind = type(getattr(layer, "impl", layer))
        out[name] = f"{kind.__module__}.{kind.__qualname__} {getattr(layer, 'isa', '')}"
    return out


def _processor() -> str:
    """vLLM packs keys for the instructions that it finds."""
    import torch

    flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    return f"{torch.backends.cpu.get_cpu_capability()} {'amx_tile' in flags}"


def fingerprint(
    vllm_config: Any, kv_cache_config: Any, kv_caches: dict[str, Any], options: Options, given: str
) -> bytes:
    """32 bytes; pages that were stored under others are not served."""
    import vllm

    model, cache, parallel = (
        vllm_config.model_config,
        vllm_config.cache_config,
        vllm_config.parallel_config,
    )
    facts = {
        "format": FORMAT,
        "vllm": vllm.__version__,
        "weights": _weights(model, vllm_config.load_config, options, given),
        "configuration": _configuration(model),
        "draft": _draft(vllm_config, options, given),
        "dtype": str(model.dtype),
        "quantization": [str(model.quantization), str(model.quantization_config)],
        "cache_dtype": cache.cache_dtype,
        "hash": cache.prefix_caching_hash_algo,
        "groups": [
            [group.layer_names, repr(group.kv_cache_spec)]
            for group in kv_cache_config.kv_cache_groups
        ],
        "layouts": _layouts(kv_caches),
        "attention": _attention(vllm_config),
        "processor": _processor(),
        "parallel": [parallel.world_size, parallel.rank],
        "reproducible": os.environ.get("VLLM_BATCH_INVARIANT", ""),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()
