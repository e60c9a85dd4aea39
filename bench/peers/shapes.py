# SPDX-License-Identifier: Apache-2.0
"""The shapes of the comparison: those that engines meet, small enough for a machine of two cores."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    """One attention call, or one append where `kind` says so."""

    name: str
    kind: str  # decode, prefill, latent, eight_bit, four_bit, append
    batch: int
    new: int  # new tokens of each sequence
    context: int  # keys of each sequence, the new ones included
    q_heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    v_head_size: int = 128
    shared: int = 0  # keys that all sequences begin with, in the same pages: whole ones of any size

    @property
    def tokens(self) -> int:
        return self.batch * self.new

    @property
    def is_latent(self) -> bool:
        """V is the first columns of K's rows (MLA)."""
        return self.kind == "latent"

    @property
    def row_elements(self) -> int:
        """Elements of one token in the cache."""
        return self.kv_heads * (self.head_size + (0 if self.is_latent else self.v_head_size))

    @property
    def cache_bits(self) -> int:
        """Of an element, of the caches that the shape is there for."""
        return {"eight_bit": 8, "four_bit": 4}.get(self.kind, 16)

    @property
    def cache_bytes(self) -> int:
        """Elements of all sequences at so many bits, without scales."""
        return self.batch * self.context * self.row_elements * self.cache_bits // 8

    @property
    def distinct_tokens(self) -> int:
        """In the pages of all sequences."""
        return self.shared + self.batch * (self.context - self.shared)

    @property
    def flops(self) -> float:
        """Operations of the products, visible pairs alone."""
        pairs = self.new * self.context - self.new * (self.new - 1) // 2
        return 2.0 * self.batch * pairs * self.q_heads * (self.head_size + self.v_head_size)

    def describe(self) -> str:
        heads = f"{self.q_heads} / {self.kv_heads} heads of {self.head_size}"
        if self.is_latent:
            heads = f"{self.q_heads} heads, latent rows of {self.head_size}"
        shared = f", {self.shared:,} shared" if self.shared else ""
        return f"{self.batch} x {self.new} new of {self.context:,}{shared}, {heads}"


def _latent(name: str, q_heads: int, batch: int = 1, context: int = 4096, shared: int = 0) -> Shape:
    return Shape(name, "latent", batch, 1, context, q_heads, 1, 576, 512, shared)


def _shared(name: str, kind: str, batch: int, kv_heads: int = 8) -> Shape:
    """Branches of 512 tokens of one prompt."""
    return Shape(name, kind, batch, 1, 8704, 32, kv_heads, shared=8192)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("dec_1k_b1", "decode", 1, 1, 1024),
        Shape("dec_8k_b1", "decode", 1, 1, 8192),
        Shape("dec_32k_b1", "decode", 1, 1, 32768),
        Shape("dec_8k_b16", "decode", 16, 1, 8192),
        Shape("dec_32_b1", "decode", 1, 1, 32),
        Shape("dec_mha_4k", "decode", 1, 1, 4096, 32, 32),
        Shape("dec_g8_8k", "decode", 1, 1, 8192, 64, 8),
        Shape("dec_d64_8k", "decode", 1, 1, 8192, 32, 8, 64, 64),
        Shape("pre_512", "prefill", 1, 512, 512),
        Shape("pre_2k", "prefill", 1, 2048, 2048),
        Shape("pre_4k", "prefill", 1, 4096, 4096),
        Shape("pre_d64_2k", "prefill", 1, 2048, 2048, 32, 8, 64, 64),
        Shape("chunk_512_8k", "prefill", 1, 512, 8192),
        _latent("mla_h16_4k", 16),
        _latent("mla_h128_4k", 128),
        Shape("8bit_8k_b1", "eight_bit", 1, 1, 8192),
        Shape("8bit_8k_b16", "eight_bit", 16, 1, 8192),
        Shape("4bit_8k_b1", "four_bit", 1, 1, 8192),
        Shape("4bit_8k_b16", "four_bit", 16, 1, 8192),
        Shape("4bit_g1_8k", "four_bit", 1, 1, 8192, 8, 8),
        _shared("share_b16", "decode", 16),
        _shared("share_b64", "decode", 64),
        _shared("share_mha_b16", "decode", 16, 32),
        _shared("8bit_share_b16", "eight_bit", 16),
        _shared("4bit_share_b16", "four_bit", 16),
        _latent("mla_h16_share_b16", 16, 16, 8704, 8192),
        Shape("app_16", "append", 16, 1, 64),
        Shape("app_2048", "append", 1, 2048, 2048),
        # For the tests: all of the above in a moment.
        Shape("tiny_decode", "decode", 2, 1, 70, 8, 2, 64, 64),
        Shape("tiny_share", "decode", 3, 1, 200, 8, 2, 64, 64, 128),
        Shape("tiny_prefill", "prefill", 1, 40, 100, 8, 2, 64, 64),
        Shape("tiny_latent", "latent", 1, 1, 70, 16, 1, 576, 512),
        Shape("tiny_8bit", "eight_bit", 2, 1, 70, 8, 2, 64, 64),
        Shape("tiny_4bit", "four_bit", 2, 1, 70, 8, 2, 64, 64),
        Shape("tiny_append", "append", 2, 3, 70, 8, 2, 64, 64),
    )
}
SETS = {
    "all": [name for name in SHAPES if not name.startswith("tiny_")],
    "tiny": [name for name in SHAPES if name.startswith("tiny_")],
    "decode": [s.name for s in SHAPES.values() if s.kind == "decode" and not s.name.startswith("tiny_")],
    "shared": [s.name for s in SHAPES.values() if s.shared > 0 and s.name != "tiny_share"],
    "prefill": [s.name for s in SHAPES.values() if s.kind == "prefill" and s.name != "tiny_prefill"],
    "latent": ["mla_h16_4k", "mla_h128_4k"],
    "8bit": ["8bit_8k_b1", "8bit_8k_b16"],
    "4bit": ["4bit_8k_b1", "4bit_8k_b16", "4bit_g1_8k"],
    "append": ["app_16", "app_2048"],
    "one_thread": ["dec_1k_b1", "dec_8k_b1", "dec_g8_8k", "pre_2k", "chunk_512_8k", "mla_h16_4k",
                   "mla_h128_4k", "8bit_8k_b1"],
}  # fmt: skip
