# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights for the engine's tests, one for each kind of attention.

    python vllm_models.py DIRECTORY NAME...

writes each model as transformers would save it, with a tokenizer of 512 words (`t0` .. `t511`). The
weights are large enough that attention is peaked and greedy tokens depend on the whole context;
everything is drawn from a fixed seed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

SEED = 11
VOCABULARY = 512
WINDOW = 64

_DECODER: dict[str, Any] = dict(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=32,
    vocab_size=VOCABULARY,
    max_position_embeddings=2048,
    tie_word_embeddings=False,
    bos_token_id=0,
    eos_token_id=1,
    pad_token_id=None,
    initializer_range=0.15,
)
_ALTERNATE = ["sliding_attention", "full_attention"] * 2
_GEMMA: dict[str, Any] = dict(
    _DECODER, tie_word_embeddings=True, sliding_window=WINDOW, query_pre_attn_scalar=32
)
_MLA: dict[str, Any] = dict(
    _DECODER,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=64,
    q_lora_rank=None,
    kv_lora_rank=512,
    qk_nope_head_dim=64,
    qk_rope_head_dim=64,
    v_head_dim=64,
    first_k_dense_replace=2,
    n_routed_experts=4,
    n_shared_experts=1,
    num_experts_per_tok=2,
    moe_intermediate_size=64,
    n_group=1,
    topk_group=1,
)
_BERT: dict[str, Any] = dict(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    vocab_size=VOCABULARY,
    max_position_embeddings=512,
    initializer_range=0.15,
)

# name -> (transformers' model type, fields of its configuration)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", _DECODER),
    "llama_deep": ("llama", dict(_DECODER, num_hidden_layers=6)),
    "qwen3": ("qwen3", dict(_DECODER, head_dim=64)),  # norms of q and k
    "mistral": ("mistral", dict(_DECODER, sliding_window=WINDOW)),  # a window in every layer
    "gemma2": (  # softcap, a window in every second layer
        "gemma2",
        dict(
            _GEMMA,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=30.0,
            layer_types=_ALTERNATE,
        ),
    ),
    "gemma3": (  # a window in three of four layers
        "gemma3_text",
        dict(_GEMMA, layer_types=["sliding_attention"] * 3 + ["full_attention"]),
    ),
    "gpt_oss": (  # sinks, a window in every second layer
        "gpt_oss",
        dict(
            _DECODER,
            sliding_window=WINDOW,
            num_local_experts=4,
            num_experts_per_tok=2,
            layer_types=_ALTERNATE,
        ),
    ),
    "bloom": (  # ALiBi
        "bloom",
        dict(
            hidden_size=128,
            n_layer=4,
            n_head=4,
            vocab_size=VOCABULARY,
            bos_token_id=0,
            eos_token_id=1,
            initializer_range=0.15,
        ),
    ),
    "deepseek": ("deepseek_v2", _MLA),  # latent attention
    "bert": ("bert", _BERT),  # an encoder: no cache
}


def _tokenizer(directory: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"t{i}": i for i in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="t0",
        bos_token="t0",
        eos_token="t1",
        pad_token="t2",
    ).save_pretrained(directory)


def _adjust(model: str, name: str, parameter: Any) -> None:
    """What transformers leaves at nought, and louder blocks where the output is the embedding.

    A model whose head is its embedding would otherwise repeat the last token whatever it read.
    """
    import torch

    if name.endswith("sinks"):
        torch.nn.init.normal_(parameter, 0.5, 1.0)
    if model == "bert" and name.endswith("bias"):
        torch.nn.init.normal_(parameter, 0.0, 0.1)
    if model.startswith("gemma") and name.endswith(
        ("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")
    ):
        parameter.fill_(4.0)
    if model == "bloom" and name.endswith(("dense.weight", "dense_4h_to_h.weight")):
        parameter.mul_(6.0)


def _calibrated(llama: Path, target: Path) -> None:
    """The model `llama` as if a tool had calibrated an fp8 cache: a scale of K and V per head."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(llama, target)
    config = json.loads((target / "config.json").read_text())
    config["quantization_config"] = dict(
        quant_method="compressed-tensors",
        format="dense",
        quantization_status="frozen",
        config_groups={},
        ignore=[],
        kv_cache_scheme=dict(
            num_bits=8, type="float", strategy="attn_head", symmetric=True, dynamic=False
        ),
    )
    (target / "config.json").write_text(json.dumps(config))
    weights = load_file(target / "model.safetensors")
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}.self_attn"
        weights[f"{prefix}.q_scale"] = torch.ones(config["num_attention_heads"], 1, 1)
        weights[f"{prefix}.k_scale"] = torch.tensor([0.03, 0.06]).reshape(2, 1, 1)
        weights[f"{prefix}.v_scale"] = torch.tensor([0.05, 0.025]).reshape(2, 1, 1)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})


def build(name: str, directory: Path) -> Path:
    """Writes the model `name` to `directory`/`name`, unless it is there; returns that folder."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

    target = directory / name
    if (target / "tokenizer.json").exists():
        return target
    if name == "llama_fp8_heads":
        _calibrated(build("llama", directory), target)
        return target
    kind, fields = MODELS[name]
    torch.manual_seed(SEED)
    config = AutoConfig.for_model(kind, **fields)
    loader = AutoModel if name == "bert" else AutoModelForCausalLM
    model = loader.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            _adjust(name, parameter_name, parameter)
    model.save_pretrained(target)
    _tokenizer(target)
    return target


if __name__ == "__main__":
    for wanted in sys.argv[2:] or list(MODELS):
        print(build(wanted, Path(sys.argv[1])))
