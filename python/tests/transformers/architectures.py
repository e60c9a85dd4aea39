# SPDX-License-Identifier: Apache-2.0
"""Tiny random configurations of every causal-LM architecture that the installed transformers can
build.

`names()` lists the architectures, `build(name)` makes a model with random weights: two to four
layers, four query heads and two KV heads of 16 where the architecture lets one choose. Numbers are
set by the attribute names that configurations share (`SIZES`); what an architecture needs besides
stands in `SPECIAL`. Those that are not built say why (`NOT_BUILT`).
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCABULARY = 96
LAYERS = 3

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
    "unpadded_vocab_size": VOCABULARY,
    "hidden_size": 64,
    "d_model": 64,
    "n_embd": 64,
    "dim_model": 64,
    "embedding_size": 64,
    "num_hidden_layers": LAYERS,
    "n_layer": LAYERS,
    "n_layers": LAYERS,
    "num_layers": LAYERS,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "decoder_layers": LAYERS,
    "encoder_layers": 1,
    "head_dim": 16,
    "intermediate_size": 96,
    "ffn_dim": 96,
    "d_ff": 96,
    "n_inner": 96,
    "decoder_ffn_dim": 96,
    "encoder_ffn_dim": 96,
    "dim_ff": 96,
    "dim_head": 16,
    "attention_head_dim": 16,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "shared_intermediate_size": 32,
    "dense_intermediate_size": 64,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "n_experts": 4,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "top_k_experts": 2,
    "experts_per_token": 2,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 512,
    "n_positions": 512,
    "n_ctx": 512,
    "max_sequence_length": 512,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "index_n_heads": 24,  # so that hardly a key has a score of 0: of equal ones torch takes any
    "index_head_dim": 16,
    "index_topk": 8,
    "sliding_window": 8,
    "attention_chunk_size": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.1,
    "use_mamba_kernels": False,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "dropout": 0.0,
}

SIZES_OF_IMAGES: dict[str, Any] = {
    "image_size": 28,
    "patch_size": 14,
    "depth": 1,
    "num_heads": 4,
    "embed_dim": 64,
    "hidden_dim": 64,
    "out_hidden_size": 64,
    "projection_dim": 64,
    "num_global_layers": 1,
}
LATENT = {"head_dim": 8, "num_key_value_heads": 4}
NO_KV_CACHE = "no attention over cached keys and values"
DECODERS = (
    "bart bert bert-generation big_bird bigbird_pegasus blenderbot blenderbot-small camembert "
    "data2vec-text electra ernie marian mbart megatron-bert mvp pegasus plbart prophetnet reformer "
    "rembert roberta roberta-prelayernorm roc_bert roformer trocr whisper xlm "
    "xlm-roberta xlm-roberta-xl xlnet xmod"
).split()
NOT_BUILT: dict[str, str] = {
    "blt": "three models in one, each with a cache of its own",
    "dots3_note": "cannot be made small: its layers' sizes are fixed; dots3_note_text is built",
    "gemma3n": "its image part needs packages that are not installed; gemma3n_text is built",
    "gemma4_assistant": "drafts for another model, whose states it reads",
    "gemma4_unified_assistant": "drafts for another model, whose states it reads",
    "musicgen": "reads audio codebooks",
    "musicgen_melody": "reads audio codebooks",
} | dict.fromkeys(("falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"), NO_KV_CACHE)
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8}
LINEAR = {
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention", "full_attention"],
}
ROTARY = {"rotary_dim": 8}
GEMMA4 = {
    "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    "hidden_size_per_layer_input": 8,
    "head_dim": 16,
    "per_layer_config": {"1": {"head_dim": 32}, "2": {"head_dim": 32}},
    "num_experts": ...,
    "moe_intermediate_size": ...,
    "top_k_experts": ...,
}
SPECIAL: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {
        "layer_types": ["linear_attention", "full_attention", "full_attention"],
        "linear_head_dim": 8,
        "linear_num_heads": 2,
        "num_expert_group": 1,
        "num_experts_per_token": 2,
        "topk_group": 1,
        "num_nextn_predict_layers": 0,
    },
    "bamba": MAMBA | {"attn_layer_indices": [1, 2]},
    "codegen": ROTARY,
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {
            "hidden_size": 64,
            "ffn_hidden_size": 64,
            "moe_num_experts": 4,
            "moe_top_k": 2,
        },
        "num_key_value_heads": ...,
    },
    "dory": {"n_input_layers": 1, "n_recurrent_layers": 1, "n_output_layers": 1},
    "falcon": {"head_dim": ...},
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 8,
        "laurel_rank": 8,
        "activation_sparsity_pattern": [0.0] * 4,
        "intermediate_size": [96] * 4,
    },
    "dots3_note_text": {
        "layer_types": ["indexed_attention", "sliding_attention", "indexed_attention"],
        "head_dim": 24,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "shared_experts_intermediate_size": 32,
        "per_layer_config": {
            "1": {"num_attention_heads": 2, "num_key_value_heads": 2, "kv_lora_rank": 16}
        },
    },
    "gemma4_text": GEMMA4,
    "gemma4_unified_text": GEMMA4,
    "gpt_neo": {
        "attention_types": [[["global", "local", "global"], 1]],
        "num_heads": 4,
        "window_size": 8,
    },
    "gptj": ROTARY,
    "granitemoehybrid": MAMBA
    | {"layer_types": ["linear_attention", "full_attention", "full_attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 8},
    "kimi_linear": {
        "linear_head_dim": 8,
        "linear_num_heads": 4,
        "layer_types": ["linear_attention", "full_attention", "full_attention"],
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "full_attention"]},
    "qwen3_5_moe_text": LINEAR,
    "qwen3_5_text": LINEAR,
    "qwen3_next": LINEAR,
    "qwen4_exp_text": LINEAR
    | {
        "layer_types": ["linear_attention", "indexed_attention", "indexed_attention"],
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 8,
        "indexer_compress_ratio": 1,
        "ple_embed_dim": 8,
        "ngram_vocab_size_base": 50,
        "hc_lowrank": 8,
    },
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "hybrid"] * 2,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "hybrid_layer_ids": [1, 2],
        "mamba_headdim": 16,
        "n_mamba_heads": 8,
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "num_key_value_heads": 4,
        "num_query_groups": 4,
        "kv_channels": 16,
        "adapter_rank": 8,
        "num_mem_blocks": 1,
    },
    "xmod": {"default_language": "en_XX", "languages": ("en_XX",)},
    "prophetnet": {"num_decoder_layers": LAYERS, "num_encoder_layers": 1, "num_hidden_layers": ...},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "lsh", "local"]},
    "roc_bert": {
        "shape_vocab_size": 8,
        "pronunciation_vocab_size": 8,
        "shape_embed_dim": 8,
        "pronunciation_embed_dim": 8,
    },
    "xlnet": {"max_position_embeddings": ...},
    "zaya": {
        "num_experts_per_tok": 1,
        "layer_types": ["hybrid"] * LAYERS,
        "router_hidden_size": 16,
        "sliding_window": ...,
    },
}


def names() -> list[str]:
    """Every architecture that transformers registers for causal LM."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def _sizes(kind: Any, name: str, also: dict[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a configuration: what it knows of `SIZES` and `also`, and specials."""
    known = kind().to_dict().keys() | kind.attribute_map.keys()
    sizes = {key: value for key, value in (SIZES | (also or {})).items() if key in known}
    if "kv_lora_rank" in known:
        sizes |= {key: value for key, value in LATENT.items() if key in known}
    if name in DECODERS:
        sizes |= {"is_decoder": True, "is_encoder_decoder": False}
    for key, value in SPECIAL.get(name, {}).items():
        if value is ...:
            sizes.pop(key, None)
        else:
            sizes[key] = value
    return sizes


def configuration(name: str) -> Any:
    """The tiny configuration of an architecture, and of the parts that it is composed of."""
    kind = CONFIG_MAPPING[name]
    sizes = _sizes(kind, name)
    default = kind()
    for part, declared in kind.sub_configs.items():
        if part in sizes:
            continue
        found = getattr(default, part, None)
        part_kind = declared if found is None else type(found)
        is_text = "vision" not in part and "audio" not in part
        sizes[part] = _sizes(part_kind, part_kind.model_type, None if is_text else SIZES_OF_IMAGES)
    return kind(**sizes)


def build(
    name: str, implementation: str = "eager", dtype: torch.dtype = torch.float32, seed: int = 0
) -> Any:
    """A model with random weights, large enough that attention matters for its logits."""
    config = configuration(name)
    config._attn_implementation = implementation
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    return model
