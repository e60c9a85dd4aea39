# SPDX-License-Identifier: Apache-2.0
"""vLLM's options of a layer as folio's kinds, and folio's answer to whether it serves a layer.

Layers with equal options share one `Kind`, and so one plan per step. Whether a layer can be served
is asked once, when vLLM makes the layer, with empty pages of the layer's geometry; the cache itself
comes later.
"""

from __future__ import annotations

import functools

import torch
from vllm import envs
from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE

import folio_kv

# vLLM's names of cache types that folio reads and writes; the value is folio's type of the bytes,
# None: what the tensor says.
CACHE_DTYPES: dict[str, str | None] = {
    "auto": None,
    "float16": None,
    "bfloat16": None,
    "fp8": "f8_e4m3",
    "fp8_e4m3": "f8_e4m3",
    "fp8_e5m2": "f8_e5m2",
}

# torch's types of q and of the output, as folio names them
_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def check_cache_dtype(cache_dtype: str) -> None:
    """Refuses what vLLM's classes for CPUs would take for fp8, or for the model's type.

    They never ask: vLLM knows more names than these, for GPUs, and the CPU platform selects its
    classes without a look at the cache's type.
    """
    if cache_dtype not in CACHE_DTYPES:
        raise folio_kv.Unsupported(
            f"kv_cache_dtype: expected one of {', '.join(CACHE_DTYPES)}; got {cache_dtype}, which "
            "no attention class for CPUs stores"
        )


def name_of(dtype: torch.dtype) -> str:
    """folio's name of a floating-point type of torch."""
    return _NAMES[dtype]


def reproducible() -> str:
    """How far folio's sums may depend on the batch: `VLLM_BATCH_INVARIANT` asks for not at all."""
    return "query" if envs.VLLM_BATCH_INVARIANT else "plan"


@functools.cache
def kind_of(
    q_heads: int,
    scale: float,
    *,
    softcap: float = 0.0,
    window: int = 0,
    causal: bool = True,
    v_in_key: int | None = None,
    invariance: str = "plan",
) -> folio_kv.Kind:
    """The kind of layer with these options (0: none); one object for equal options."""
    return folio_kv.Kind(
        q_heads,
        scale=scale,
        softcap=softcap or None,
        window=window or None,
        causal=causal,
        v_in_key=v_in_key,
        reproducible=invariance,
    )


def pages_of(
    kv_cache: torch.Tensor,
    cache_dtype: str,
    key_scales: float | torch.Tensor = 1.0,
    value_scales: float | torch.Tensor = 1.0,
) -> folio_kv.Pages:
    """folio's view of a layer's cache: a head's K rows of a block lie in front of its V rows.

    vLLM's block of a head is [slots, 2 * head_size] elements without a gap. As one dense run of K
    and one of V its keys are read front to back, whatever the size of a head, and the rows lie
    where vLLM's own class has them.

    Shapes: kv_cache [blocks, kv_heads, slots, 2 * head_size]; scales a number or [1, kv_heads, 1,
    1].
    """
    blocks, heads, slots, both = kv_cache.shape
    halves = kv_cache.view(blocks, heads, 2 * slots, both // 2)
    dtype = CACHE_DTYPES[cache_dtype]
    scales = {} if dtype is None else dict(key_scales=key_scales, value_scales=value_scales)
    return folio_kv.Pages(
        halves[:, :, :slots], halves[:, :, slots:], order="HND", dtype=dtype, **scales
    )


def why_not_served(
    kind: folio_kv.Kind,
    kv_heads: int,
    head_size: int,
    block_size: int,
    cache_dtype: str,
    q_dtype: torch.dtype,
    *,
    sinks: bool,
    alibi: bool,
) -> str | None:
    """None if folio has a kernel for a layer of this geometry on this machine, else the reason."""
    if q_dtype not in _NAMES:
        return f"the model's type {q_dtype}"
    element = q_dtype if cache_dtype == "auto" else STR_DTYPE_TO_TORCH_DTYPE[cache_dtype]
    empty = torch.empty((1, kv_heads, block_size, 2 * head_size), dtype=element)
    try:
        pages = pages_of(empty, cache_dtype)
    except folio_kv.Error as error:
        return str(error)
    name = name_of(q_dtype)
    return folio_kv.why_not(kind, pages, q_dtype=name, out_dtype=name, sinks=sinks, alibi=alibi)
