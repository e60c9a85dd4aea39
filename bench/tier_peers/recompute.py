#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a prompt takes to compute that a tier could load: the decoder layers of Llama-3-8B on this machine's processors.

usage: tools/engines.py run transformers bench/tier_peers/recompute.py [--tokens N] [--layers N] [--threads N]

transformers' own layer, torch's bf16 products and attention, random weights: speed does not depend on their values. One layer's weights
serve all layers, so that 1 GiB of memory is enough; each product reads 100 MB and more, far beyond any cache, either way. Without embedding
and head, which a prompt needs once. Prints seconds for each layer and for all.
"""
import argparse
import time

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding


def main() -> None:
    parser = argparse.ArgumentParser(description="Times the prefill of Llama-3-8B's layers.")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    config = LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                         rope_theta=500000.0, attn_implementation="sdpa")
    layer = LlamaDecoderLayer(config, layer_idx=0).to(torch.bfloat16).eval()
    hidden = torch.randn(1, given.tokens, config.hidden_size, dtype=torch.bfloat16)
    positions = torch.arange(given.tokens)[None]
    rotation = LlamaRotaryEmbedding(config)(hidden, positions)
    seconds = []
    with torch.inference_mode():
        for _ in range(given.layers):
            began = time.perf_counter()
            out = layer(hidden, position_ids=positions, position_embeddings=rotation)
            hidden = out[0] if isinstance(out, tuple) else out
            seconds.append(time.perf_counter() - began)
    print(f"torch {torch.__version__}, {given.threads} threads, {given.tokens} tokens: {given.layers} layers in {sum(seconds):.1f} s, "
          f"{min(seconds):.2f} .. {max(seconds):.2f} s each")


if __name__ == "__main__":
    main()
