# SPDX-License-Identifier: Apache-2.0
"""Models with random weights as GGUF files, for llama.cpp: one per kind of attention that it makes.

    write(path, name)      name: one of MODELS; the file's weights are the same on every machine

Weights are float32 but the bench model's, so that between two runs of a model only attention and its
cache differ. Queries and keys are scaled so that a softmax is far from flat: what a token sees
decides its logits (test_models.py checks it).
"""

from __future__ import annotations

import dataclasses
import pathlib

import gguf
import numpy as np

# Factor of queries and of keys: scores of a standard deviation of about PEAK ** 2. With more layers
# less, as each makes the differences of the one before it larger.
PEAK = 2.0
PEAK_OF_MANY_LAYERS = 1.4


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a model; `arch` is llama.cpp's name of its architecture."""

    arch: str
    layers: int = 2
    vocabulary: int = 256
    width: int = 256
    feed_forward: int = 256
    q_heads: int = 8
    kv_heads: int = 2
    head: int = 64
    window: int = 0
    half: bool = False  # matrices of float16
    outlier: float = 1.0  # factor of some channels of keys, by which those of queries are divided


MODELS = {
    "llama": Shape("llama", head=128),
    "qwen3": Shape("qwen3", head=128),
    "gemma2": Shape("gemma2", head=256, q_heads=4, window=128),
    "gemma3": Shape("gemma3", layers=6, head=128, q_heads=4, kv_heads=1, window=96),
    "gpt-oss": Shape("gpt-oss", head=64, window=128),
    "refact": Shape("refact", kv_heads=8),
    "deepseek2": Shape("deepseek2", kv_heads=1),
    "lfm2": Shape("lfm2", layers=4, q_heads=4),
    "outliers": Shape("qwen3", head=128, outlier=8.0),
    "bench": Shape("llama", 8, 1024, 1024, 1024, 32, 8, 128, half=True),
}
# Those of which every scenario is run; the others are for one test, or for measuring.
WHOLE = [name for name in MODELS if name not in ("outliers", "bench")]
# Two pairs of channels that a rotary embedding turns into each other; one channel in each 32.
OUTLIERS = [5, 37, 5 + 64, 37 + 64]
# Of deepseek2: what the heads share, the part of it that is rotated, and sizes of one head.
LATENT, ROTATED, PLAIN, VALUE, Q_LATENT = 512, 64, 128, 128, 192
EXPERTS = 4
SPECIAL = ["<unk>", "<s>", "</s>"]
SHORT_CONVOLUTION = 3


class Writer:
    """Random tensors of a model, in the order they are asked for."""

    def __init__(self, path: pathlib.Path, shape: Shape) -> None:
        self.shape = shape
        self.file = gguf.GGUFWriter(str(path), shape.arch)
        self.random = np.random.default_rng(13)

    def normal(self, *size: int) -> np.ndarray:
        return self.random.standard_normal(size, dtype=np.float32)

    def add(self, name: str, values: np.ndarray) -> None:
        half = self.shape.half and values.ndim > 1
        self.file.add_tensor(name, values.astype(np.float16 if half else np.float32))

    def matrix(self, name: str, *size: int, factor: float = 1.0) -> None:
        """A linear map, [out, in] or [experts, out, in]: unit variance in, factor² out."""
        self.add(f"{name}.weight", factor / np.sqrt(size[-1]) * self.normal(*size))

    def norm(self, name: str, size: int, factor: float = 1.0, outlier: float = 1.0) -> None:
        weight = factor * (1 + 0.1 * self.normal(size))
        if outlier != 1.0:
            weight[OUTLIERS] *= outlier
        self.add(f"{name}.weight", weight)

    def feed_forward(self, block: str) -> None:
        width, inner = self.shape.width, self.shape.feed_forward
        self.norm(f"{block}.ffn_norm", width)
        self.matrix(f"{block}.ffn_gate", inner, width)
        self.matrix(f"{block}.ffn_up", inner, width)
        self.matrix(f"{block}.ffn_down", width, inner)

    def finish(self) -> None:
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()


def write(path: pathlib.Path, name: str, has_text: bool = False) -> None:
    """`has_text`: with a vocabulary of single bytes, for programs that take texts."""
    shape = MODELS[name]
    if has_text:
        shape = dataclasses.replace(shape, vocabulary=len(SPECIAL) + 256)
    writer = Writer(path, shape)
    _sizes(writer)
    if has_text:
        _bytes_as_tokens(writer.file)
    else:
        writer.file.add_tokenizer_model("no_vocab")
    _ends(writer)
    for layer in range(shape.layers):
        _layer(writer, f"blk.{layer}", layer)
    writer.finish()


def _sizes(writer: Writer) -> None:
    file, shape = writer.file, writer.shape
    file.add_context_length(131072)
    file.add_embedding_length(shape.width)
    file.add_block_count(shape.layers)
    file.add_head_count(shape.q_heads)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(shape.vocabulary)
    file.add_file_type(1 if shape.half else 0)
    file.add_feed_forward_length(shape.feed_forward)
    if shape.window:
        file.add_sliding_window(shape.window)
    if shape.arch == "deepseek2":
        _sizes_deepseek2(file, shape)
        return
    if shape.arch == "lfm2":
        counts = [0 if _is_convolution(layer) else shape.kv_heads for layer in range(shape.layers)]
        file.add_head_count_kv(counts)
        file.add_shortconv_l_cache(SHORT_CONVOLUTION)
    else:
        file.add_head_count_kv(shape.kv_heads)
    file.add_key_length(shape.head)
    file.add_value_length(shape.head)
    file.add_rope_dimension_count(shape.head)
    if shape.arch == "gpt-oss":
        file.add_expert_feed_forward_length(shape.feed_forward)
        file.add_expert_count(EXPERTS)
        # All of them: a choice of some would be a step of the logits where two are nearly equal.
        file.add_expert_used_count(EXPERTS)
    if shape.arch == "gemma2":
        file.add_attn_logit_softcapping(50.0)
        file.add_final_logit_softcapping(30.0)


def _bytes_as_tokens(file: gguf.GGUFWriter) -> None:
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    file.add_tokenizer_model("llama")
    file.add_token_list(SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)])
    file.add_token_scores([0.0] * (len(SPECIAL) + 256))
    file.add_token_types(kinds + [gguf.TokenType.BYTE] * 256)
    file.add_unk_token_id(0)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)


def _sizes_deepseek2(file: gguf.GGUFWriter, shape: Shape) -> None:
    file.add_head_count_kv(1)
    file.add_key_length(LATENT + ROTATED)
    file.add_value_length(LATENT)
    file.add_key_length_mla(PLAIN + ROTATED)
    file.add_value_length_mla(VALUE)
    file.add_q_lora_rank(Q_LATENT)
    file.add_kv_lora_rank(LATENT)
    file.add_rope_dimension_count(ROTATED)
    file.add_leading_dense_block_count(shape.layers)
    file.add_expert_count(EXPERTS)
    file.add_expert_used_count(2)
    file.add_expert_feed_forward_length(64)
    file.add_expert_shared_count(1)
    file.add_expert_weights_scale(1.0)


def _ends(writer: Writer) -> None:
    """Embedding and output. gemma's share a matrix, and its embedding is multiplied by √width."""
    shape = writer.shape
    shared = shape.arch in ("gemma2", "gemma3")
    factor = 1 / np.sqrt(shape.width) if shared else 1.0
    writer.add("token_embd.weight", factor * writer.normal(shape.vocabulary, shape.width))
    writer.norm("token_embd_norm" if shape.arch == "lfm2" else "output_norm", shape.width)
    if not shared:
        writer.matrix("output", shape.vocabulary, shape.width)


def _is_convolution(layer: int) -> bool:
    return layer % 2 == 0


def _layer(writer: Writer, block: str, layer: int) -> None:
    arch, width = writer.shape.arch, writer.shape.width
    writer.norm(f"{block}.attn_norm", width)
    if arch == "lfm2" and _is_convolution(layer):
        writer.add(f"{block}.shortconv.conv.weight", writer.normal(width, SHORT_CONVOLUTION))
        writer.matrix(f"{block}.shortconv.in_proj", 3 * width, width)
        writer.matrix(f"{block}.shortconv.out_proj", width, width)
    elif arch == "deepseek2":
        _latent_attention(writer, block)
    else:
        _attention(writer, block)
    if arch in ("gemma2", "gemma3"):
        writer.norm(f"{block}.post_attention_norm", width)
        writer.norm(f"{block}.post_ffw_norm", width)
    if arch == "gpt-oss":
        _experts(writer, block)
    else:
        writer.feed_forward(block)


def _attention(writer: Writer, block: str) -> None:
    shape = writer.shape
    q, kv = shape.q_heads * shape.head, shape.kv_heads * shape.head
    has_norms = shape.arch in ("qwen3", "gemma3", "lfm2")
    peak = PEAK if shape.layers < 5 else PEAK_OF_MANY_LAYERS
    factor = 1.0 if has_norms else peak
    writer.matrix(f"{block}.attn_q", q, shape.width, factor=factor)
    writer.matrix(f"{block}.attn_k", kv, shape.width, factor=factor)
    writer.matrix(f"{block}.attn_v", kv, shape.width)
    writer.matrix(f"{block}.attn_output", shape.width, q)
    if has_norms:
        writer.norm(f"{block}.attn_q_norm", shape.head, peak, 1 / shape.outlier)
        writer.norm(f"{block}.attn_k_norm", shape.head, peak, shape.outlier)
    if shape.arch == "gpt-oss":
        for name, size in ("q", q), ("k", kv), ("v", kv), ("output", shape.width):
            writer.add(f"{block}.attn_{name}.bias", 0.1 * writer.normal(size))
        writer.add(f"{block}.attn_sinks.weight", 2 * writer.normal(shape.q_heads))


def _latent_attention(writer: Writer, block: str) -> None:
    width, heads = writer.shape.width, writer.shape.q_heads
    writer.matrix(f"{block}.attn_q_a", Q_LATENT, width)
    writer.norm(f"{block}.attn_q_a_norm", Q_LATENT)
    writer.matrix(f"{block}.attn_q_b", heads * (PLAIN + ROTATED), Q_LATENT, factor=PEAK)
    writer.matrix(f"{block}.attn_kv_a_mqa", LATENT + ROTATED, width)
    writer.norm(f"{block}.attn_kv_a_norm", LATENT)
    writer.matrix(f"{block}.attn_k_b", heads, LATENT, PLAIN, factor=PEAK)
    writer.matrix(f"{block}.attn_v_b", heads, VALUE, LATENT)
    writer.matrix(f"{block}.attn_output", width, heads * VALUE)


def _experts(writer: Writer, block: str) -> None:
    width, inner = writer.shape.width, writer.shape.feed_forward
    writer.norm(f"{block}.post_attention_norm", width)
    writer.matrix(f"{block}.ffn_gate_inp", EXPERTS, width)
    writer.add(f"{block}.ffn_gate_inp.bias", 0.1 * writer.normal(EXPERTS))
    for name, size in (
        ("gate", (EXPERTS, inner, width)),
        ("up", (EXPERTS, inner, width)),
        ("down", (EXPERTS, width, inner)),
    ):
        writer.matrix(f"{block}.ffn_{name}_exps", *size)
        writer.add(f"{block}.ffn_{name}_exps.bias", 0.1 * writer.normal(EXPERTS, size[1]))
