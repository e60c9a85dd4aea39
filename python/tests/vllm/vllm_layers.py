# SPDX-License-Identifier: Apache-2.0
"""A mixed batch for one layer of vLLM, run without an engine."""

from __future__ import annotations

from typing import Any

BLOCKS, SLOTS, KV_HEADS, Q_HEADS, HEAD = 7, 32, 2, 8, 32
QUERIES, CONTEXTS = [1, 40, 5], [33, 40, 70]
TABLE = [[5, 2, -1], [1, 4, -1], [3, 0, 6]]


def step_of(
    config: Any, layers: list[Any], causal: Any = True, requests: tuple[int, ...] = (0, 1, 2)
) -> Any:
    """What the builder makes of a batch: a decoding request, a prompt, the last chunk of one."""
    import torch
    from vllm.v1.attention.backend import CommonAttentionMetadata

    from folio_kv.vllm.builder import FolioBuilder

    spec = layers[0].get_kv_cache_spec(config)
    names = [layer.layer_name for layer in layers]
    builder = FolioBuilder(spec, names, config, torch.device("cpu"))
    queries, contexts, table = ([of[r] for r in requests] for of in (QUERIES, CONTEXTS, TABLE))
    offsets = torch.tensor([0, *queries]).cumsum(0, dtype=torch.int32)
    slots = [
        blocks[position // SLOTS] * SLOTS + position % SLOTS
        for count, context, blocks in zip(queries, contexts, table, strict=True)
        for position in range(context - count, context)
    ]
    common = CommonAttentionMetadata(
        query_start_loc=offsets,
        query_start_loc_cpu=offsets,
        seq_lens=torch.tensor(contexts, dtype=torch.int32),
        num_reqs=len(queries),
        num_actual_tokens=sum(queries),
        max_query_len=max(queries),
        max_seq_len=max(contexts),
        block_table_tensor=torch.tensor(table, dtype=torch.int32),
        slot_mapping=torch.tensor(slots),
        causal=causal,
    )
    return builder.build(0, common)


def rows_of(seed: int, padding: int = 0) -> tuple[Any, Any, Any]:
    """Random q, k, v of the batch as slices of fused rows, as a model hands them over."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    heads = Q_HEADS + 2 * KV_HEADS
    fused = torch.randn(sum(QUERIES) + padding, heads, HEAD, generator=generator)
    return fused.split([Q_HEADS, KV_HEADS, KV_HEADS], dim=1)


def run(layer: Any, metadata: Any, q: Any, k: Any, v: Any) -> Any:
    """The layer's output for these rows."""
    import torch

    out = torch.full_like(q, torch.nan, memory_format=torch.contiguous_format)
    return layer.impl.forward(layer, q, k, v, layer.kv_cache, metadata, out)


def slots_of(layer: Any) -> tuple[Any, Any]:
    """K and V of the layer's cache as [blocks * slots, heads, dim]: dense runs, K's before V's."""
    runs = layer.kv_cache.view(BLOCKS, KV_HEADS, 2, SLOTS, HEAD)
    return tuple(
        runs[:, :, i].transpose(1, 2).reshape(BLOCKS * SLOTS, KV_HEADS, HEAD) for i in (0, 1)
    )
