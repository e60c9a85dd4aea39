# SPDX-License-Identifier: Apache-2.0
"""What flash_attn and flashinfer share: refusals, checks, kinds of layers.

A parameter is served, or refused by name, or is a hint about *how* to compute that changes no
result; each face lists its hints.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from . import Error, Kind, Unsupported


def refuse(function: str, parameter: str, came: object, reason: str) -> Unsupported:
    """The exception for what folio lacks: names function, parameter, what came and why not."""
    return Unsupported(f"{function}: {parameter}={_short(came)} is not supported: {reason}")


def wrong(function: str, parameter: str, expected: str, came: object) -> Error:
    """The exception for an argument that has no meaning here."""
    return Error(f"{function}: {parameter}: expected {expected}, got {_short(came)}")


def _short(came: object) -> str:
    if isinstance(came, torch.Tensor):
        return f"tensor of {came.dtype} {list(came.shape)} on {came.device}"
    text = repr(came)
    return text if len(text) <= 80 else text[:77] + "..."


def check_tensor(function: str, parameter: str, tensor: object, shape: Sequence[str | int]) -> None:
    """Refuses what is no CPU tensor of this shape. A str in `shape` is any extent, by its name."""
    if not isinstance(tensor, torch.Tensor):
        raise wrong(function, parameter, f"a torch.Tensor [{_names(shape)}]", type(tensor))
    if tensor.device.type != "cpu":
        raise refuse(function, parameter, tensor, "folio runs on the CPU here")
    came = tensor.shape
    fits = len(came) == len(shape)
    for want, got in zip(shape, came):
        if want != got and not isinstance(want, str):
            fits = False
    if not fits:
        raise wrong(function, parameter, f"[{_names(shape)}]", list(came))


def _names(shape: Sequence[str | int]) -> str:
    return ", ".join(str(extent) for extent in shape)


def check_no_gradient(function: str, *tensors: torch.Tensor | None) -> None:
    """Refuses inputs that autograd would want to follow: folio computes no gradients."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                raise Unsupported(
                    f"{function}: an input requires a gradient, and folio computes none; call it "
                    "under torch.no_grad() or detach the input"
                )


def index_tensor(function: str, parameter: str, value: object, length: int) -> torch.Tensor:
    """`value` as an int32 tensor [length] on the CPU; a tensor of int32 is not copied."""
    if isinstance(value, torch.Tensor):
        check_tensor(function, parameter, value, [length])
        return as_int32(function, parameter, value)
    raise wrong(function, parameter, f"an integer tensor [{length}]", type(value))


def as_int32(function: str, parameter: str, value: torch.Tensor) -> torch.Tensor:
    """int32, which is not copied, or int64, whose values must fit, of any shape."""
    if value.dtype not in (torch.int32, torch.int64):
        raise wrong(function, parameter, "int32 or int64", value.dtype)
    if value.dtype == torch.int32:
        return value
    beyond = (value < -(2**31)) | (value >= 2**31)
    if bool(beyond.any()):
        came = int(value[beyond][0])
        raise wrong(function, parameter, "integers that fit 32 bits", came)
    return value.to(torch.int32)


def offsets_tensor(function: str, parameter: str, value: object) -> torch.Tensor:
    """`value` as int32 offsets [batch + 1] that begin with 0 and never descend."""
    if not isinstance(value, torch.Tensor) or value.dim() != 1 or value.numel() < 1:
        raise wrong(function, parameter, "an integer tensor [batch + 1]", value)
    offsets = index_tensor(function, parameter, value, value.numel())
    if int(offsets[0]) != 0 or bool((offsets[1:] < offsets[:-1]).any()):
        raise wrong(function, parameter, "offsets that ascend from 0", offsets.tolist())
    return offsets


@functools.lru_cache(maxsize=256)
def kind(
    q_heads: int,
    scale: float | None = None,
    softcap: float | None = None,
    window: tuple[int, int] | None = None,
    causal: bool = True,
    reproducible: str = "plan",
    v_in_key: int | None = None,
) -> Kind:
    """One Kind for each set of parameters, so that the kernels it has chosen are chosen once."""
    return Kind(
        q_heads,
        scale=scale,
        softcap=softcap,
        window=window,
        causal=causal,
        reproducible=reproducible,
        v_in_key=v_in_key,
    )
