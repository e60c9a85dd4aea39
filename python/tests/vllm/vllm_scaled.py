# SPDX-License-Identifier: Apache-2.0
"""What vLLM's kernels for GPUs read from blocks of quantised caches, in double: by the formulas of
its kernels, and by its own functions where these run on a CPU. Beside it attention over such rows.
"""

from __future__ import annotations

from typing import Any

from vllm_layers import BLOCKS, CONTEXTS, QUERIES, SLOTS, TABLE

NAMES = (
    "int4_per_token_head",
    "int8_per_token_head",
    "fp8_per_token_head",
    "nvfp4",
    "turboquant_k8v4",
)


def _nibbles(data: Any) -> Any:
    """The two elements of each byte, that of the low half first."""
    import torch

    return torch.stack([data & 15, data >> 4], -1).flatten(-2)


def _e2m1(data: Any) -> Any:
    import torch

    codes = _nibbles(data).long()
    sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    return sizes[codes & 7] * (1 - 2 * (codes >> 3))


def _int4(data: Any, words: Any) -> Any:
    """A word is a float32 scale whose last four bits are the zero point."""
    import torch
    from vllm.utils.math_utils import largest_power_of_2_divisor
    from vllm.v1.attention.ops.int4_per_token_head import single_rht

    bits = words.view(torch.int32)
    scale = (bits & ~15).view(torch.float32).double()
    turned = scale * (_nibbles(data).double() - (bits & 15))
    return single_rht(turned, inverse=True) / largest_power_of_2_divisor(turned.shape[-1])


def _per_token_head(name: str, half: Any) -> Any:
    """One side of a slot: a row, and its float32 word."""
    import torch

    data, words = half[..., :-4].contiguous(), half[..., -4:].contiguous().view(torch.float32)
    if name == "int4_per_token_head":
        return _int4(data, words)
    code = torch.int8 if name == "int8_per_token_head" else torch.float8_e4m3fn
    return data.view(code).double() * words.double()


def _k8v4(slots: Any, head_size: int) -> tuple[Any, Any]:
    import torch

    key, data, numbers = slots.split([head_size, head_size // 2, 4], dim=-1)
    scale, minimum = numbers.contiguous().view(torch.float16).double().split(1, dim=-1)
    key = key.contiguous().view(torch.float8_e4m3fn).double()
    return key, _nibbles(data).double() * scale + minimum


def _nvfp4(side: Any, scale: float) -> Any:
    from vllm.utils.torch_utils import nvfp4_split_data_scale

    data, scales = nvfp4_split_data_scale(side)
    return _e2m1(data) * scales.double().repeat_interleave(16, -1) * scale


def rows_in(
    name: str, cache: Any, head_size: int, key_scale: float = 1.0, value_scale: float = 1.0
) -> tuple[Any, Any]:
    """K and V of a layer's cache as [blocks * slots, heads, head_size]."""
    import torch

    cache = cache.view(torch.uint8)
    if name == "nvfp4":
        heads = cache.shape[1] // 2
        both = (
            _nvfp4(side, scale)
            for side, scale in zip(cache.split(heads, dim=1), (key_scale, value_scale), strict=True)
        )
    elif name == "turboquant_k8v4":
        both = _k8v4(cache, head_size)
    else:
        both = (_per_token_head(name, half) for half in cache.chunk(2, dim=-1))
    return tuple(rows.transpose(1, 2).flatten(0, 1) for rows in both)


def attention_over(
    keys: Any,
    values: Any,
    q: Any,
    scale: float,
    *,
    window: int = 0,
    softcap: float = 0.0,
    sinks: Any = None,
    alibi: Any = None,
) -> Any:
    """Attention of the batch of `step_of` over these rows, in double: [tokens, q_heads, dim]."""
    import torch

    out, first = [], 0
    for count, context, blocks in zip(QUERIES, CONTEXTS, TABLE, strict=True):
        at = [blocks[i // SLOTS] * SLOTS + i % SLOTS for i in range(context)]
        group = q.shape[1] // keys.shape[1]
        k, v = (rows[at].repeat_interleave(group, 1) for rows in (keys, values))
        logits = torch.einsum("thd,khd->htk", q[first : first + count].double(), k) * scale
        if softcap:
            logits = softcap * torch.tanh(logits / softcap)
        distance = torch.arange(context - count, context)[:, None] - torch.arange(context)
        if alibi is not None:
            logits = logits - alibi.double()[:, None, None] * distance
        hidden = (distance < 0) | (distance >= (window or context))
        logits = logits.masked_fill(hidden, -torch.inf)
        if sinks is not None:
            column = sinks.double()[:, None, None].expand(-1, count, 1)
            weights = torch.cat([logits, column], -1).softmax(-1)[..., :-1]
        else:
            weights = logits.softmax(-1)
        out.append(torch.einsum("htk,khd->thd", weights, v))
        first += count
    return torch.cat(out)


def zeros_of(layer: Any, config: Any) -> Any:
    """A cache as vLLM allocates it for the layer: zeroed bytes, viewed by its own functions."""
    import torch
    from vllm.v1.kv_cache_interface import compute_layer_kv_cache_shape_bytes
    from vllm.v1.worker.utils import customize_attention_spec

    spec = customize_attention_spec(layer.attn_backend, layer.get_kv_cache_spec(config))
    shape = compute_layer_kv_cache_shape_bytes(spec, BLOCKS, SLOTS)
    return torch.zeros(shape, dtype=torch.uint8).view(spec.dtype)
