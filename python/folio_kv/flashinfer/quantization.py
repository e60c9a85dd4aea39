# SPDX-License-Identifier: Apache-2.0
"""Masks as bits, as `packed_custom_mask` takes them."""

from __future__ import annotations

import numpy as np
import torch

from .._compat import check_tensor, offsets_tensor, wrong


def packbits(x: torch.Tensor, bitorder: str = "big") -> torch.Tensor:
    """x [n], True where not 0, as uint8 [ceil(n / 8)]; "little" puts the first bit lowest."""
    _check("packbits", x, bitorder)
    return _packed(x, bitorder)


def segment_packbits(
    x: torch.Tensor, indptr: torch.Tensor, bitorder: str = "big"
) -> tuple[torch.Tensor, torch.Tensor]:
    """packbits of each segment x[indptr[i] : indptr[i + 1]], one behind the other, and the offsets
    [segments + 1] of their bytes, int32.
    """
    name = "segment_packbits"
    _check(name, x, bitorder)
    offsets = offsets_tensor(name, "indptr", indptr)
    if int(offsets[-1]) != x.shape[0]:
        raise wrong(name, "indptr", f"to end with x's {x.shape[0]} elements", int(offsets[-1]))
    parts = [_packed(part, bitorder) for part in x.split(offsets.diff().tolist())]
    ends = torch.tensor([0, *(part.numel() for part in parts)]).cumsum(0)
    return torch.cat([x.new_empty(0, dtype=torch.uint8), *parts]), ends.to(torch.int32)


def _check(function: str, x: torch.Tensor, bitorder: str) -> None:
    check_tensor(function, "x", x, ["n"])
    if bitorder not in ("big", "little"):
        raise wrong(function, "bitorder", '"big" or "little"', bitorder)


def _packed(x: torch.Tensor, bitorder: str) -> torch.Tensor:
    return torch.from_numpy(np.packbits((x != 0).numpy(), bitorder=bitorder))
