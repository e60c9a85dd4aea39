# SPDX-License-Identifier: Apache-2.0
"""vLLM's blocks as pages of tiers, and their names."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from folio_kv import tiers
from folio_kv.errors import Unsupported


def _bytes_of_blocks(cache: Any, spec: Any, num_blocks: int) -> Any:
    """A layer's cache as [blocks, bytes of a block], over the same memory. Raises Unsupported for a
    layout whose blocks are not one run of bytes each.
    """
    import torch
    from vllm.v1.kv_cache_interface import AttentionSpec, group_kernel_blocks

    tensor = cache[0] if isinstance(cache, list | tuple) else cache
    blocks = group_kernel_blocks(tensor, num_blocks)
    size = blocks.element_size()
    page = spec.page_size_bytes
    stride = page
    if isinstance(spec, AttentionSpec):
        stride = blocks.stride(0) * size
        axes = zip(blocks.shape[1:], blocks.stride()[1:], strict=True)
        reach = size * (1 + sum((n - 1) * step for n, step in axes))
        if reach > page:
            raise Unsupported(
                f"FolioConnector: the layout of vLLM's cache: expected {page} bytes of a block "
                f"behind one another, got them within {reach}"
            )
    return torch.tensor([], dtype=torch.uint8).set_(
        blocks.untyped_storage(), blocks.storage_offset() * size, (num_blocks, page), (stride, 1)
    )


def arrays_of_groups(
    kv_cache_config: Any, kv_caches: dict[str, Any]
) -> dict[int, tuple[tiers.PageArrays, list[str]]]:
    """Of each group that can be found by hashes its pages, layer by layer, and their layers."""
    from vllm.v1.kv_cache_interface import UniformTypeKVCacheSpecs

    out = {}
    for group_id in kv_cache_config.prefix_cacheable_group_ids:
        group = kv_cache_config.kv_cache_groups[group_id]
        spec = group.kv_cache_spec
        of_layers = spec.kv_cache_specs if isinstance(spec, UniformTypeKVCacheSpecs) else {}
        views = [
            _bytes_of_blocks(kv_caches[name], of_layers.get(name, spec), kv_cache_config.num_blocks)
            for name in group.layer_names
        ]
        out[group_id] = tiers.PageArrays(views), list(group.layer_names)
    return out


def reach_of(spec: Any) -> int | None:
    """Tokens in front of a hit that a window or chunk needs; None: a hit may need any block."""
    window = getattr(spec, "sliding_window", None)
    reach = getattr(spec, "attention_chunk_size", None) if window is None else window
    return None if reach is None else int(reach)


def allocations(kv_caches: dict[str, Any]) -> list[Any]:
    """The memory in which all layers' blocks lie, each once."""
    import torch

    storages = {}
    for cache in kv_caches.values():
        for tensor in cache if isinstance(cache, list | tuple) else [cache]:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage
    return [torch.tensor([], dtype=torch.uint8).set_(storage) for storage in storages.values()]


class Names:
    """Of blocks: vLLM's hash of tokens, and what else the bytes depend on."""

    def __init__(self, fingerprint: bytes) -> None:
        self._fingerprint = fingerprint

    def renew(self) -> None:
        """Names from now on are others, which no other process knows either: the weights are no
        longer those that the fingerprint stands for.
        """
        self._fingerprint = hashlib.sha256(self._fingerprint + secrets.token_bytes(32)).digest()

    def of(self, block_hash: bytes, group_id: int, adapter: bytes) -> bytes:
        """`adapter`: a digest of its weights, or nothing."""
        parts = (self._fingerprint, group_id.to_bytes(4, "little"), block_hash, adapter)
        return hashlib.sha256(b"folio vllm page1" + b"".join(parts)).digest()
