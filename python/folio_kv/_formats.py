# SPDX-License-Identifier: Apache-2.0
"""Formats by the names that engines give to them, and the rotation that fits a head."""

from __future__ import annotations

from typing import Any

from folio_kv._core import Format
from folio_kv.errors import Error

__all__ = [
    "FOUR_BITS",
    "LARGEST_BLOCK",
    "NAMED",
    "PAIRS",
    "TENSOR_SCALE",
    "block_of",
    "but_for",
    "format_of",
]

TENSOR_SCALE = 1 / 16  # scales of e4m3, 2^-9 to 448, reach elements of 0.0008 to 168
FOUR_BITS = ("i4", "u4", "f4_e2m1", "i4_halves", "u4_halves")
LARGEST_BLOCK, SMALLEST_BLOCK = 256, 16  # of a rotation that a head chooses

# name -> arguments of a Format
NAMED: dict[str, dict[str, Any]] = {
    "int8": {"dtype": "i8", "scale_dtype": "f16", "granularity": 32},  # as q8_0
    "int8_per_row": {"dtype": "i8"},
    "int4": {"dtype": "i4", "scale_dtype": "f16", "granularity": 32},
    "nvfp4": {
        "dtype": "f4_e2m1",
        "scale_dtype": "f8_e4m3",
        "granularity": 16,
        "tensor_scale": TENSOR_SCALE,
    },
    "mxfp4": {"dtype": "f4_e2m1", "scale_dtype": "f8_e8m0", "granularity": 32},
}
# name -> those of K and of V: keys lose more by four bits than values, whose bits go to their scales
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "kv4": (
        {"dtype": "i8", "scale_dtype": "f16", "granularity": 64},
        {
            "dtype": "u4",
            "zeros": "patterns",
            "scale_dtype": "f8_e4m3",
            "granularity": 16,
            "tensor_scale": TENSOR_SCALE,
        },
    )
}


def block_of(head_size: int, rotated: bool | int = True) -> int:
    """Elements of a block of the rotation: of True the largest power of two that divides the head.

    Errors: Error, which names the argument `rotated`.
    """
    if rotated is not True:
        if head_size % rotated:
            raise Error(f"rotated: expected a divisor of the head's {head_size}, got {rotated}")
        return rotated
    block = min(LARGEST_BLOCK, head_size & -head_size)
    if block < SMALLEST_BLOCK:
        raise Error(
            f"rotated: expected heads of a multiple of {SMALLEST_BLOCK} elements, got {head_size}"
        )
    return block


def format_of(name: Any, **words: Any) -> dict[str, Any]:
    """A Format's arguments of a name of NAMED, or of a dtype, but for those of `words` that are not
    None.

    Errors: Error for what no Format has.
    """
    named = NAMED.get(name) if isinstance(name, str) else None
    return but_for(named or {"dtype": name}, **words)


def but_for(options: dict[str, Any], **words: Any) -> dict[str, Any]:
    """A Format's arguments, but for those of `words` that are not None. Errors: as format_of."""
    options = options | {n: x for n, x in words.items() if x is not None}
    Format(**options)  # refuses bad ones
    return options
