# SPDX-License-Identifier: Apache-2.0
"""What folio leans on in vLLM, whose attention classes are internal and change between releases.

The back ends and the connector are served or refused each by itself, so that no layer runs half on
classes that folio guesses at.
"""

from __future__ import annotations

from folio_kv._engine import Engine, members, names, parameters, value

__all__ = ["ENGINE"]

_BACKEND = "vllm.v1.attention.backend"
_CPU = "vllm.v1.attention.backends.cpu_attn"
_CPU_MLA = "vllm.v1.attention.backends.mla.cpu_mla"
_MLA = "vllm.model_executor.layers.attention.mla_attention"
_CONNECTOR = "vllm.distributed.kv_transfer.kv_connector.v1.base"
_COORDINATOR = "vllm.v1.core.kv_cache_coordinator"
_SEARCH = "block_hashes max_cache_hit_length"
_BUILD = "common_prefix_len common_attn_metadata fast_build"

_BOTH = (
    names(
        "vllm.v1.attention.backends.registry",
        "register_backend AttentionBackendEnum.CPU_ATTN AttentionBackendEnum.CPU_MLA",
    ),
    names("vllm.config", "get_current_vllm_config"),
    members("vllm.config", "CompilationConfig", "static_forward_context"),
    names("vllm.envs", "VLLM_BATCH_INVARIANT"),
    names("vllm.utils.torch_utils", "STR_DTYPE_TO_TORCH_DTYPE"),
    members(
        _BACKEND, "CommonAttentionMetadata", "query_start_loc seq_lens block_table_tensor causal"
    ),
)
ENGINE = Engine(
    "vLLM",
    oldest=(0, 32),
    newest=(0, 32),
    capabilities={
        "CPU_ATTN": (
            *_BOTH,
            names("vllm.config", "get_layers_from_vllm_config"),
            names("vllm.model_executor.layers.attention", "Attention"),
            names("vllm.utils.torch_utils", "is_quantized_kv_cache"),
            names(_BACKEND, "AttentionMetadataBuilder AttentionType.DECODER"),
            members(
                _BACKEND,
                "CommonAttentionMetadata",
                "slot_mapping num_actual_tokens max_query_len max_seq_len",
            ),
            members(
                _CPU,
                "CPUAttentionMetadata",
                "num_actual_tokens max_query_len query_start_loc max_seq_len seq_lens block_table "
                "slot_mapping scheduler_metadata causal",
            ),
            parameters(
                _CPU,
                "CPUAttentionMetadataBuilder.__init__",
                "kv_cache_spec layer_names vllm_config device",
            ),
            parameters(_CPU, "CPUAttentionMetadataBuilder.build", _BUILD),
            parameters(_CPU, "CPUAttentionBackend.customize_spec", "spec"),
            members(
                "vllm.v1.kv_cache_interface",
                "AttentionSpec",
                "kv_quant_mode num_kv_heads head_size head_size_v num_head_slots "
                "state_content_bytes",
            ),
            parameters(
                _CPU,
                "CPUAttentionBackendImpl.__init__",
                "num_heads head_size scale num_kv_heads alibi_slopes sliding_window kv_cache_dtype "
                "logits_soft_cap attn_type kv_sharing_target_layer_name sinks",
            ),
            parameters(
                _CPU,
                "CPUAttentionBackendImpl.forward",
                "layer query key value kv_cache attn_metadata output output_scale "
                "output_block_scale",
            ),
            parameters(
                _CPU,
                "CPUAttentionBackendImpl.do_kv_cache_update",
                "layer key value kv_cache slot_mapping",
            ),
            members(
                _CPU,
                "CPUAttentionBackendImpl",
                "process_weights_after_loading num_heads head_size scale num_kv_heads alibi_slopes "
                "sliding_window kv_cache_dtype logits_soft_cap attn_type sinks "
                "kv_sharing_target_layer_name",
            ),
            value(
                _CPU,
                "CPUAttentionBackend.supported_kv_cache_layouts",
                lambda layouts: [layout.name for layout in layouts()] == ["LBHNC"],
                "LBHNC alone",
            ),
            value(
                _CPU,
                "CPUAttentionBackend.forward_includes_kv_cache_update",
                lambda is_included: not is_included,
                "false",
            ),
        ),
        "CPU_MLA": (
            *_BOTH,
            names(_CPU_MLA, "CPUMLABackend"),
            parameters(
                _CPU_MLA, "CPUMLAImpl.forward_mqa", "q kv_c_and_k_pe_cache attn_metadata layer"
            ),
            members(
                _CPU_MLA, "CPUMLAImpl", "num_heads scale kv_lora_rank kv_cache_dtype head_size"
            ),
            members(_MLA, "MLACommonMetadata", "decode num_decodes query_start_loc"),
            members(_MLA, "MLACommonDecodeMetadata", "seq_lens block_table"),
            parameters(_MLA, "MLACommonMetadataBuilder.build", _BUILD),
        ),
        "FolioConnector": (
            names(_CONNECTOR, "SupportsHMA KVConnectorTransferResults KVConnectorWorkerMetadata"),
            names(
                f"{_CONNECTOR[: -len('base')]}metrics", "KVConnectorStats KVConnectorPromMetrics"
            ),
            members(
                _CONNECTOR,
                "KVConnectorBase_V1",
                "register_kv_caches bind_kv_cache_manager get_transfer_results wait_for_save "
                "get_block_ids_with_load_errors build_connector_worker_meta has_pending_push_work "
                "has_pending_block_frees get_external_cache_hit_sources reset_cache",
            ),
            members("vllm.config", "KVTransferConfig", "kv_load_failure_policy kv_role"),
            members(
                "vllm.v1.core.block_pool",
                "BlockPool",
                "blocks null_block hash_block_size touch free_blocks get_cached_block",
            ),
            members(
                "vllm.v1.core.kv_cache_manager",
                "KVCacheManager",
                "block_pool coordinator get_block_ids",
            ),
            *(
                parameters(_COORDINATOR, f"{kind}.find_longest_cache_hit", _SEARCH)
                for kind in ("UnitaryKVCacheCoordinator", "HybridKVCacheCoordinator")
            ),
            members(_COORDINATOR, "KVCacheCoordinator", "single_type_managers"),
            members(
                "vllm.v1.kv_cache_interface",
                "KVCacheConfig",
                "num_blocks kv_cache_groups prefix_cacheable_group_ids transfer_group_ids",
            ),
            names(
                "vllm.v1.kv_cache_interface",
                "AttentionSpec UniformTypeKVCacheSpecs group_kernel_blocks",
            ),
        ),
    },
)
