# SPDX-License-Identifier: Apache-2.0
"""SGLang's host pools, small, on CPU tensors, and pages of random bytes in them."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import torch
from sglang.srt.mem_cache.device_pool_info import (
    KVBufferLayout,
    KVBuffers,
    MambaStateBufferInfo,
    MHABufferInfo,
    MLABufferInfo,
)
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig, HiCacheStorageExtraInfo
from sglang.srt.mem_cache.memory_pool_host import DeepSeekV4PagedHostPool
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost
from sglang.srt.mem_cache.pool_host.mha import (
    AsymmetricMHATokenToKVPoolHost,
    MHATokenToKVPoolHost,
)
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost

MIB = 1 << 20
PAGE, PAGES, LAYERS = 4, 64, 3  # tokens of a page, pages of a pool
CPU = torch.device("cpu")


def _pointers(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.uint64)


def mha(
    layout: str, dtype: torch.dtype = torch.bfloat16, v_dim: int = 8, pages: int = PAGES
) -> Any:
    """Grouped-query attention: 2 heads of 8, V of `v_dim`."""
    k = [torch.zeros(2 * PAGE, 2, 8, dtype=dtype) for _ in range(LAYERS)]
    v = [torch.zeros(2 * PAGE, 2, v_dim, dtype=dtype) for _ in range(LAYERS)]
    buffers = KVBuffers(
        k=tuple(k),
        v=tuple(v),
        k_data_ptrs=_pointers(k),
        v_data_ptrs=_pointers(v),
        layout=KVBufferLayout.NHD,
    )
    info = MHABufferInfo(
        buffers=buffers,
        page_size=PAGE,
        head_num=2,
        head_dim=8,
        v_head_dim=v_dim,
        dtype=dtype,
        device=CPU,
    )
    kind = MHATokenToKVPoolHost if v_dim == 8 else AsymmetricMHATokenToKVPoolHost
    return kind(info, 0, 0, PAGE, layout, **_common(pages))


def mla(layout: str, dtype: torch.dtype = torch.bfloat16) -> Any:
    rows = [torch.zeros(2 * PAGE, 1, 24, dtype=dtype) for _ in range(LAYERS)]
    info = MLABufferInfo(
        buffers=tuple(rows),
        data_ptrs=_pointers(rows),
        layer_indices=tuple(range(LAYERS)),
        device_layer_num=LAYERS,
        page_size=PAGE,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        kv_cache_dim=24,
        dtype=dtype,
        device=CPU,
    )
    return MLATokenToKVPoolHost(info, 0, 0, PAGE, layout, target_layer_num=LAYERS, **_common())


def _common(pages: int = PAGES) -> dict[str, Any]:
    return dict(
        pin_memory=False,
        device_capacity_tokens=2 * PAGE,
        start_layer=0,
        end_layer=LAYERS,
        host_token_capacity=pages * PAGE,
    )


def mamba(has_side_state: bool = False) -> Any:
    """States of a recurrent model, one for a page; with side states they go by copies."""
    info = MambaStateBufferInfo(
        temporal=torch.zeros(2, 4, 3, 5),
        conv=(torch.zeros(2, 4, 6, dtype=torch.bfloat16),),
        extra_checkpoint_buffers=(torch.zeros(4, 7),) if has_side_state else (),
    )
    return MambaPoolHost(
        info, float(PAGES) / 4, 0, device_capacity=4, pin_memory=False, layout="page_first"
    )


def deepseek_v4(layout: str) -> Any:
    """Compressed rows: a page has 40 bytes of each layer."""
    device = [torch.zeros(2, 40, dtype=torch.uint8) for _ in range(LAYERS)]
    return DeepSeekV4PagedHostPool(
        "deepseek_v4_c4", device, 40, PAGES, PAGE, layout, pin_memory=False, page_aligned_only=True
    )


LAYOUTS = {
    "mha": (mha, "layer_first page_first page_first_direct page_head"),
    "mha-asymmetric": (partial(mha, v_dim=4), "page_first page_first_direct"),
    "mla": (mla, "layer_first page_first page_first_direct"),
    "deepseek_v4": (deepseek_v4, "layer_first page_first"),
}
POOLS: dict[str, Any] = {
    f"{kind}-{layout}": partial(make, layout)
    for kind, (make, layouts) in LAYOUTS.items()
    for layout in layouts.split()
}
POOLS |= {"mha-float8": partial(mha, "page_first", torch.float8_e4m3fn)}
POOLS |= {"mamba": mamba, "mamba-side-state": partial(mamba, True)}


def config_of(**given: Any) -> HiCacheStorageConfig:
    """One rank's configuration; `given`: fields, or options of HiCache."""
    fields = dict(
        tp_rank=0,
        tp_size=1,
        pp_rank=0,
        pp_size=1,
        attn_cp_rank=0,
        attn_cp_size=1,
        is_mla_model=False,
        enable_storage_metrics=False,
        is_page_first_layout=False,
        model_name="llama",
    )
    own = {
        key: given.pop(key) for key in list(given) if key in HiCacheStorageConfig.__annotations__
    }
    extra = {
        "backend_name": "folio",
        "module_path": "folio_kv.sglang",
        "class_name": "HiCache",
        "model": "tests",
        **given,
    }
    return HiCacheStorageConfig(**{**fields, **own}, extra_config=extra)


def open_backend(pool: Any = None, **given: Any) -> Any:
    """A back end made by SGLang's factory, with `pool` registered as its controller does it."""
    from sglang.srt.mem_cache.storage import StorageBackendFactory

    backend = StorageBackendFactory.create_backend("dynamic", config_of(**given), pool)
    if pool is not None:
        backend.register_mem_pool_host(pool)
        backend.on_host_pools_registered()
    return backend


def keys_of(count: int, prompt: str = "a") -> list[str]:
    """Names of the pages of a prompt: a chain of SHA-256, as SGLang's."""
    keys, last = [], b""
    for page in range(count):
        last = hashlib.sha256(last + f"{prompt}{page}".encode()).digest()
        keys.append(last.hex())
    return keys


def slots_of(pool: Any, pages: list[int]) -> torch.Tensor:
    """Slots of the tokens of these pages."""
    size = pool.page_size
    return torch.cat([torch.arange(page * size, (page + 1) * size) for page in pages])


def storages_of(pool: Any) -> list[torch.Tensor]:
    """All bytes of a pool, in place."""
    found: dict[int, torch.Tensor] = {}
    named = ("kv_buffer", "k_buffer", "v_buffer", "temporal_buffer", "conv_buffer")
    for name in (*named, "slot_state_buffers"):
        of = getattr(pool, name, None)
        for tensor in of if isinstance(of, (list, tuple)) else [of]:
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                storage = tensor.untyped_storage()
                whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                found[storage.data_ptr()] = whole
    return list(found.values())


def fill(pool: Any, seed: int) -> list[torch.Tensor]:
    """Random bytes everywhere; returns a copy of them."""
    generator = torch.Generator().manual_seed(seed)
    for whole in storages_of(pool):
        whole.copy_(torch.randint(0, 256, whole.shape, dtype=torch.uint8, generator=generator))
    return [whole.clone() for whole in storages_of(pool)]


def page_bytes(pool: Any, page: int) -> bytes:
    """The bytes of a page as SGLang itself copies them, or at the addresses that it gives."""
    import ctypes

    try:
        copy = pool.get_data_page(page * pool.page_size)
        return copy.contiguous().view(torch.uint8).numpy().tobytes()
    except NotImplementedError:
        meta = pool.get_page_buffer_meta(slots_of(pool, [page]))
        return b"".join(ctypes.string_at(at, size) for at, size in zip(*meta))


def set_pages(backend: Any, pool: Any, keys: list[str], pages: list[int]) -> list[bool]:
    return backend.batch_set_v1(keys, slots_of(pool, pages), HiCacheStorageExtraInfo())


def get_pages(backend: Any, pool: Any, keys: list[str], pages: list[int]) -> list[bool]:
    return backend.batch_get_v1(keys, slots_of(pool, pages), HiCacheStorageExtraInfo())
