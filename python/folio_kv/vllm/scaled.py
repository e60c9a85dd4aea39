# SPDX-License-Identifier: Apache-2.0
"""vLLM's quantised caches that have scales beside their rows: bytes of a slot, and folio's view.

vLLM's back ends for GPUs define these bytes; its classes for CPUs know none of them. folio reads
what a GPU would read from the same bytes, and rounds in its own way what it appends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

import folio_kv

SIGN_SEED = 0x9E3779B9  # of the signs of vLLM's rotation
_WORD = 4  # bytes of a scale of a token and head

Scales = float | torch.Tensor


@dataclass(frozen=True)
class Scaled:
    """One of vLLM's names of cache types.

    `content_bytes`: of a head slot, by the elements of a head, which are a multiple of `multiple`;
    `head_slots`: those of one head; `pages`: of bytes [blocks, head slots, slots, content], the
    elements of a head, and the calibrated scales of K and V.
    """

    multiple: int
    content_bytes: Callable[[int], int]
    pages: Callable[[torch.Tensor, int, Scales, Scales], folio_kv.Pages]
    head_slots: int = 1


def _bytes_of(cache: torch.Tensor, begin: int, size: int) -> torch.Tensor:
    return cache[..., begin : begin + size]


def _beside_words(bits: int, format_of: Callable[[int], folio_kv.Format]) -> Scaled:
    """[K | its f32 scale | V | its f32 scale] of each token and head."""

    def row_bytes(head_size: int) -> int:
        return head_size * bits // 8

    def pages(cache: torch.Tensor, head_size: int, *_: Scales) -> folio_kv.Pages:
        row, value = row_bytes(head_size), row_bytes(head_size) + _WORD
        return folio_kv.Pages(
            _bytes_of(cache, 0, row),
            _bytes_of(cache, value, row),
            order="HND",
            dtype=format_of(head_size),
            key_scales=_bytes_of(cache, row, _WORD).view(torch.float32),
            value_scales=_bytes_of(cache, value + row, _WORD).view(torch.float32),
        )

    return Scaled(_WORD * 8 // bits, lambda head_size: 2 * (row_bytes(head_size) + _WORD), pages)


def _int4(head_size: int) -> folio_kv.Format:
    """Rotated in blocks of the largest power of two that divides the head, by vLLM's matrix, which
    is not normalised: what it stores is sqrt(block) times what folio's matrix makes.
    """
    block = head_size & -head_size
    return folio_kv.Format(
        "u4",
        scale_dtype="f32",
        zeros="in_scale",
        hadamard=block,
        sign_seed=SIGN_SEED,
        tensor_scale=block**-0.5,
    )


def _one_of_tensor(scale: Scales, which: str) -> float:
    if isinstance(scale, torch.Tensor):
        raise folio_kv.Unsupported(f"{which}_scale: expected one number with nvfp4, got {scale}")
    return scale


def _nvfp4_pages(
    cache: torch.Tensor, head_size: int, key_scale: Scales, value_scale: Scales
) -> folio_kv.Pages:
    """[K | K's scales | V | V's scales] of a whole block, each dense."""
    blocks, head_slots, slots, content = cache.shape
    heads = head_slots // 2
    each = [heads * slots * head_size // 2, heads * slots * head_size // 16]
    parts = cache.view(blocks, head_slots * slots * content).split(2 * each, dim=1)
    k, k_scales, v, v_scales = (part.view(blocks, heads, slots, -1) for part in parts)
    nvfp4 = folio_kv.Format("f4_e2m1", scale_dtype="f8_e4m3", granularity=16)
    return folio_kv.Pages(
        k,
        v,
        order="HND",
        dtype=nvfp4.replace(tensor_scale=_one_of_tensor(key_scale, "k")),
        v_dtype=nvfp4.replace(tensor_scale=_one_of_tensor(value_scale, "v")),
        key_scales=k_scales,
        value_scales=v_scales,
    )


def _k8v4_pages(cache: torch.Tensor, head_size: int, *_: Scales) -> folio_kv.Pages:
    """[K without a scale | V | its f16 scale | its f16 minimum] of each token and head."""
    scale = head_size + head_size // 2
    return folio_kv.Pages(
        _bytes_of(cache, 0, head_size),
        _bytes_of(cache, head_size, head_size // 2),
        order="HND",
        dtype=folio_kv.Format("f8_e4m3", scale_dtype="none"),
        v_dtype=folio_kv.Format("u4", scale_dtype="f16", zeros="minimum"),
        value_scales=_bytes_of(cache, scale, 2).view(torch.float16),
        value_zeros=_bytes_of(cache, scale + 2, 2).view(torch.float16),
    )


SCALED: dict[str, Scaled] = {
    "int4_per_token_head": _beside_words(4, _int4),
    "int8_per_token_head": _beside_words(8, lambda _: folio_kv.Format("i8")),
    "fp8_per_token_head": _beside_words(8, lambda _: folio_kv.Format("f8_e4m3")),
    "nvfp4": Scaled(16, lambda size: size // 2 + size // 16, _nvfp4_pages, head_slots=2),
    "turboquant_k8v4": Scaled(4, lambda size: size + size // 2 + 4, _k8v4_pages),
}
FOUR_BITS = ("int4_per_token_head", "nvfp4")  # of K: q, rounded to 8, loses less than K has lost


def scaled_pages(
    cache: torch.Tensor,
    cache_dtype: str,
    head_size: int,
    key_scales: Scales,
    value_scales: Scales,
) -> folio_kv.Pages:
    """folio's view of a layer's cache of one of these types.

    Errors: Unsupported for heads whose scales would lie at odd places; Error as Pages.
    """
    layout = SCALED[cache_dtype]
    if head_size % layout.multiple != 0:
        raise folio_kv.Unsupported(
            f"head_size: expected a multiple of {layout.multiple} with {cache_dtype}, got {head_size}"
        )
    return layout.pages(cache.view(torch.uint8), head_size, key_scales, value_scales)


def customized(spec: Any) -> Any:
    """vLLM's AttentionSpec with the bytes of these types, where it is of one; else as it is.

    Errors: Unsupported for K and V of different heads.
    """
    name = spec.kv_quant_mode.name.lower()
    if name not in SCALED or spec.state_content_bytes is not None:
        return spec
    if spec.head_size_v != spec.head_size:
        raise folio_kv.Unsupported(
            f"head_size_v: expected that of K with {name}, {spec.head_size}, got {spec.head_size_v}"
        )
    layout = SCALED[name]
    slots = None if layout.head_slots == 1 else layout.head_slots * spec.num_kv_heads
    return replace(
        spec, state_content_bytes=layout.content_bytes(spec.head_size), num_head_slots=slots
    )
