# SPDX-License-Identifier: Apache-2.0
"""What folio leans on in SGLang's HiCache, whose classes change between releases."""

from __future__ import annotations

from folio_kv._engine import Engine, members, names, parameters

__all__ = ["ENGINE"]

_STORAGE = "sglang.srt.mem_cache.hicache_storage"
_HOST = "sglang.srt.mem_cache.pool_host.base"

ENGINE = Engine(
    "SGLang",
    oldest=(0, 5),
    newest=(0, 5),
    capabilities={
        "HiCache": (
            names(_STORAGE, "HiCacheStorage PoolHitPolicy PoolName PoolTransferResult"),
            members(
                _STORAGE,
                "HiCacheStorageConfig",
                "tp_rank tp_size pp_rank pp_size attn_cp_rank attn_cp_size is_mla_model model_name "
                "enable_storage_metrics is_storage_writer dp_rank dcp_size extra_config",
            ),
            members(_STORAGE, "HiCacheStorageExtraInfo", "prefix_keys"),
            members(_STORAGE, "PoolTransfer", "name host_indices keys hit_policy"),
            members(_STORAGE, "PoolHitPolicy", "ALL_PAGES TRAILING_PAGES"),
            members(_STORAGE, "PoolName", "KV MAMBA"),
            parameters(
                _STORAGE,
                "PoolTransferResult",
                "kv_hit_pages extra_pool_hit_pages restorable_prefix_pages",
            ),
            parameters(
                _STORAGE, "HiCacheStorage.batch_exists_v2", "keys pool_transfers extra_info"
            ),
            parameters(_STORAGE, "HiCacheStorage.batch_get_v2", "transfers extra_info"),
            parameters(_STORAGE, "HiCacheStorage.batch_set_v2", "transfers extra_info"),
            parameters(_STORAGE, "HiCacheStorage.batch_get_v1", "keys host_indices extra_info"),
            parameters(_STORAGE, "HiCacheStorage.batch_set_v1", "keys host_indices extra_info"),
            parameters(_STORAGE, "HiCacheStorage.batch_exists", "keys extra_info"),
            parameters(
                _STORAGE, "HiCacheStorage.register_mem_host_pool_v2", "host_pool host_pool_name"
            ),
            members(
                _HOST,
                "HostKVCache",
                "page_size size_per_token layout dtype shared_allocation_domain dcp_size "
                "get_data_page get_dummy_flat_data_page set_from_flat_data_page",
            ),
            members(
                "sglang.srt.mem_cache.pool_host.mha", "MHATokenToKVPoolHost", "get_page_buffer_meta"
            ),
            members(
                "sglang.srt.mem_cache.pool_host.mla", "MLATokenToKVPoolHost", "get_page_buffer_meta"
            ),
            names("sglang.srt.mem_cache.pool_host.page_interleave", "PageInterleaveHostPool"),
            names("sglang.srt.mem_cache.memory_pool_host", "LogicalHostPool"),
            names("sglang.srt.runtime_context", "get_server_args"),
        ),
    },
)
