# SPDX-License-Identifier: Apache-2.0
"""The memory of a layer of a FolioCache: what its elements are, and pages of them, head-major."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

import folio_kv

__all__ = ["Planes", "Storage", "room_for"]

GRANULE = 32  # elements of "int8" that share a scale, as in q8_0
BLOCK = 32  # elements of a block format
FLOATS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def room_for(tokens: int, page_size: int) -> int:
    """Pages to make for so many tokens: a 32nd more, so that growing copies each row 32 times."""
    return -(-tokens // page_size) + tokens // (32 * page_size)


@dataclasses.dataclass(frozen=True)
class Storage:
    """What the elements of a layer are stored as: a KVCache's options, None where it is the model's
    dtype. `wishes`: a granularity for heads that are a multiple of it.
    """

    dtype: Any = None
    v_dtype: Any = None
    granularity: int | None = None
    scale_dtype: Any = None
    wishes: bool = False

    @classmethod
    def read(cls, dtype: Any, v_dtype: Any, granularity: int | None, scale_dtype: Any) -> Storage:
        """Of FolioCache's arguments. Errors: folio_kv.Error."""
        if dtype is None:
            given = {"v_dtype": v_dtype, "granularity": granularity, "scale_dtype": scale_dtype}
            for name, value in given.items():
                if value is not None:
                    raise folio_kv.Error(f"{name}: expected a dtype beside it, got None")
            return cls()
        if granularity is not None and granularity < 1:
            raise folio_kv.Error(f"granularity: expected at least 1, got {granularity}")
        name, wishes = dtype if isinstance(dtype, str) else "", False
        if name == "int8" and granularity is None:
            granularity, scale_dtype, wishes = GRANULE, scale_dtype or "f16", True
        made = cls(
            "i8" if name in ("int8", "int8_per_row") else dtype,
            v_dtype,
            granularity,
            scale_dtype,
            wishes,
        )
        dim = BLOCK * (granularity or 1)
        folio_kv.KVCache(1, 1, 1, kv_heads=1, head_size=dim, **made.options())  # refuses bad ones
        return made

    def of(self, model: torch.dtype, *dims: int | None) -> Storage:
        """Of a layer that gives rows of this dtype and these dims."""
        if self.dtype is None:
            return Storage(FLOATS.get(model, "f32"))
        if self.wishes and any(dim is not None and dim % self.granularity for dim in dims):
            return Storage(self.dtype)
        return self

    def options(self) -> dict[str, Any]:
        """As KVCache takes them."""
        return {
            "dtype": self.dtype,
            "v_dtype": self.v_dtype,
            "granularity": self.granularity,
            "scale_dtype": self.scale_dtype,
        }


class Planes:
    """The memory of one layer, `num_pages` pages of `page_size` tokens: `pages` are the views.

    dims: of a head of K and of V; a latent layer has rows [latent | rotated] of one head in K and
    None for V.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        heads: int,
        dims: tuple[int, int | None],
        storage: Storage,
    ):
        self.heads, self.dims, self.storage = heads, dims, storage
        is_latent = dims[1] is None
        self._memory = folio_kv.KVCache(
            1,
            num_pages,
            page_size,
            kv_heads=heads,
            head_size=dims[0],
            v_head_size=dims[1],
            latent=is_latent,
            **storage.options(),
        )
        self.pages = self._memory[0]

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    def like(self, num_pages: int, page_size: int) -> Planes:
        """Others of the same elements."""
        return Planes(num_pages, page_size, self.heads, self.dims, self.storage)

    def copied(self, copies: list[tuple[int, int, int]], num_pages: int, page_size: int) -> Planes:
        """Others that hold copies of these pages."""
        made = self.like(num_pages, page_size)
        if copies:
            folio_kv.copy_pages([self.pages], [made.pages], copies)
        return made

    def dense(
        self, pages: torch.Tensor, length: int, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """K and V of the first `length` rows of `pages` [batch, columns] as [batch, heads, length,
        dim] each: copies.
        """
        batch, page_size = pages.shape[0], self.pages.page_size
        used = pages[:, : max(1, -(-length // page_size))]
        as_pages = [
            None if dim is None else torch.empty(used.numel(), self.heads, page_size, dim)
            for dim in self.dims
        ]
        copies = [(int(page), i, page_size) for i, page in enumerate(used.flatten())]
        folio_kv.copy_pages([self.pages], [folio_kv.Pages(*as_pages, order="HND")], copies)

        def rows(of: torch.Tensor | None) -> torch.Tensor | None:
            if of is None:
                return None
            parts = of.unflatten(0, (batch, -1)).transpose(1, 2)
            return parts.flatten(2, 3)[:, :, :length].to(dtype)

        return rows(as_pages[0]), rows(as_pages[1])
