# SPDX-License-Identifier: Apache-2.0
"""Tensors that are described instead of stored.

transformers hands masks, keys and values from one of its parts to another as tensors. Here those
tensors know where their content comes from, and folio's attention function reads that instead of
the content. Whoever else computes with one gets the dense tensor: it is made at the first use, so a
model that slices its mask or changes its keys behind the cache still computes what it would compute
without folio.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

__all__ = ["Described", "version_of"]


def version_of(x: torch.Tensor) -> int | None:
    """How often `x` or a view of it was written to; None where torch does not count (inference
    tensors).
    """
    return None if x.is_inference() else x._version


class Described(torch.Tensor):
    """A tensor of known shape, dtype and device whose content `make_dense` (of a subclass) makes
    when it is asked for.
    """

    _dense: torch.Tensor | None
    _is_written: bool

    @staticmethod
    def __new__(
        cls, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str, **members: Any
    ):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str, **members: Any
    ):
        self._dense = None
        self._is_written = False
        for name, value in members.items():
            setattr(self, name, value)

    def make_dense(self) -> torch.Tensor:
        raise NotImplementedError

    def dense(self) -> torch.Tensor:
        """The stored tensor of the same shape, strides and dtype; made once."""
        if self._dense is None:
            self._dense = self.make_dense().contiguous()  # as torch takes this one to be
        return self._dense

    @property
    def is_description(self) -> bool:
        """False once somebody has written to the dense tensor: then only that one counts."""
        return not self._is_written

    def before_view(self) -> None:
        """Called before somebody gets a view of the dense tensor, through which it can be written
        to unseen.
        """

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{type(self).__name__}(shape={tuple(self.shape)}, dtype={self.dtype})"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        writes = func._schema.is_mutable
        views = any(result.alias_info is not None for result in func._schema.returns)

        def stored(x: Any) -> Any:
            if not isinstance(x, Described):
                return x
            if views:
                x.before_view()
            x._is_written |= writes
            return x.dense()

        return func(*tree_map(stored, args), **tree_map(stored, kwargs or {}))
