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
from folio_kv.vllm.cache_types import CACHE_DTYPES
from folio_kv.vllm.scaled import SCALED, scaled_pages

# torch's types of q and of the output, as folio names them
_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


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
    int8_operands: bool = False,
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
        int8_operands=int8_operands,
    )


def row_elements(cache_dtype: str, head_size: int) -> int:
    """Elements of the last dimension of vLLM's tensor; bytes of SCALED types."""
    scaled = SCALED.get(cache_dtype)
    return 2 * head_size if scaled is None else scaled.content_bytes(head_size)


def pages_of(
    kv_cache: torch.Tensor,
    cache_dtype: str,
    head_size: int,
    key_scales: float | torch.Tensor = 1.0,
    value_scales: float | torch.Tensor = 1.0,
) -> folio_kv.Pages:
    """folio's view of a layer's cache: a head's K rows of a block lie in front of its V rows, but
    for SCALED types, whose places are vLLM's.

    vLLM's block of a head is [slots, 2 * head_size] elements without a gap. As one dense run of K
    and one of V its keys are read front to back, whatever the size of a head, and the rows lie
    where vLLM's own class has them.

    Shapes: kv_cache [blocks, kv_heads, slots, 2 * head_size]; scales a number or [1, kv_heads, 1,
    1].
    """
    if cache_dtype in SCALED:
        return scaled_pages(kv_cache, cache_dtype, head_size, key_scales, value_scales)
    blocks, heads, slots, _ = kv_cache.shape
    halves = kv_cache.view(blocks, heads, 2 * slots, head_size)
    dtype = CACHE_DTYPES[cache_dtype]
    scales = {} if dtype is None else dict(key_scales=key_scales, value_scales=value_scales)
    return folio_kv.Pages(
        halves[:, :, :slots], halves[:, :, slots:], order="HND", dtype=dtype, **scales
    )


def _empty_cache(
    kv_heads: int, head_size: int, block_size: int, cache_dtype: str, q_dtype: torch.dtype
) -> torch.Tensor:
    """A block as vLLM would have it."""
    element = q_dtype if cache_dtype == "auto" else STR_DTYPE_TO_TORCH_DTYPE[cache_dtype]
    slots = kv_heads * (SCALED[cache_dtype].head_slots if cache_dtype in SCALED else 1)
    return torch.empty((1, slots, block_size, row_elements(cache_dtype, head_size)), dtype=element)


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
    try:
        empty = _empty_cache(kv_heads, head_size, block_size, cache_dtype, q_dtype)
        pages = pages_of(empty, cache_dtype, head_size)
    except folio_kv.Error as error:
        return str(error)
    name = name_of(q_dtype)
    return folio_kv.why_not(kind, pages, q_dtype=name, out_dtype=name, sinks=sinks, alibi=alibi)
